"""Waiting jobs in the order of fair shares: a line for each account, unchanged by its use."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any

from kalends.scheduling.decayed_use import DecayedUse, account_of
from kalends.scheduling.indexed_queue import IndexedQueue
from kalends.scheduling.job import Job
from kalends.scheduling.leeway import Leeway

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
