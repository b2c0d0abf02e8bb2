"""EASY backfilling in the order of fair shares."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Final

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.decayed_use import DecayedUse, account_of
from kalends.scheduling.indexed_queue import IndexedQueue, by_order
from kalends.scheduling.job import Job
from kalends.scheduling.leeway import Leeway
from kalends.scheduling.policies.backfill.easy import Easy

WEEK_S: Final = 7 * 86_400


_NOBODY = 1 << 62


class SharedLine:
    """The most urgent jobs first, then the account with the least use for its share, then submission.

    Used as an `IndexedQueue` is.
    """

    def __init__(self, use: DecayedUse) -> None:
        self._use = use
        self._lines: dict[tuple[int, int, int], IndexedQueue] = {}
        """By priority, account and share; each in order of submission."""

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __iter__(self) -> Iterator[Job]:
        return merge(*self._lines.values(), key=self.key)

    @property
    def least_nodes(self) -> int:
        """Lower bound of the nodes of any job; for an empty queue more than any machine has."""
        return min([line.least_nodes for line in self._lines.values()], default=_NOBODY)

    def key(self, job: Job) -> Any:
        """Return the present place of a job among the others."""
        return (-job.priority, self._use.rank(account_of(job), job.share), job.order)

    def head(self) -> Job | None:
        """Return the first job; None if the queue is empty."""
        heads = [head for line in self._lines.values() if (head := line.head()) is not None]
        return min(heads, key=self.key, default=None)

    def add(self, job: Job) -> None:
        self._lines.setdefault(_line_of(job), IndexedQueue()).add(job)

    def remove(self, job: Job) -> None:
        """Take a job out. Raises `ValueError` if it is not in the queue."""
        name = _line_of(job)
        line = self._lines.get(name)
        if line is None:
            raise ValueError(f"job {job.id} is not in the queue")
        line.remove(job)
        if not line:
            del self._lines[name]

    def startable(self, leeway: Leeway, now: int) -> Iterator[Job]:
        """Yield the jobs that `leeway` has room for, in order, as `IndexedQueue` does."""
        found = [line.startable(leeway, now) for line in self._lines.values()]
        return merge(*found, key=self.key)


def _line_of(job: Job) -> tuple[int, int, int]:
    return (job.priority, account_of(job), job.share)


class FairShare(Easy):
    """EASY whose head, among the most urgent jobs, is that of the account with the least use for its share.

    Use `half_life_s` ago counts half; 0: as much as present use. Others go before the head if they do not
    delay it, in the same order. The next account changes whenever a job starts or ends: so a promise holds
    only as long as its job is the head.
    """

    def __init__(self, cluster: Cluster, half_life_s: int = WEEK_S) -> None:
        super().__init__(cluster)
        self.use = DecayedUse(half_life_s)
        self.shared = SharedLine(self.use)
        self.startable = self.shared.startable

    def submitted(self, job: Job, now: int) -> None:
        self.enter(job)

    def returned(self, job: Job, now: int) -> None:
        self.enter(job)

    def ended(self, job: Job, now: int) -> None:
        self.use.end(job, now)
        self._first = self.shared.head()

    def schedule(self, now: int) -> None:
        if self._first is not None:
            self._pass(self._first, now)

    def least_nodes(self) -> int:
        return self.shared.least_nodes

    def waiting(self) -> Iterator[Job]:
        return iter(sorted(self.shared, key=by_order))

    def enter(self, job: Job) -> None:
        self.shared.add(job)
        self._first = self.shared.head()

    def leave(self, job: Job) -> None:
        self.shared.remove(job)
        if job.granted:
            self.use.begin(job)
        self._first = self.shared.head()
