"""EASY backfilling in the order of fair shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.decayed_use import DecayedUse
from kalends.scheduling.indexed_queue import by_order
from kalends.scheduling.job import Job
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.shared_line import SharedLine

WEEK_S: Final = 7 * 86_400


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
