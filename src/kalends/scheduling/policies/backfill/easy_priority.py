"""EASY backfilling in the order of priorities."""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.indexed_queue import IndexedQueue, by_order
from kalends.scheduling.job import Job
from kalends.scheduling.policies.backfill.easy import Easy
from kalends.scheduling.policies.ordered.priority import MostUrgentFirst


class EasyPriority(MostUrgentFirst, Easy):
    """EASY whose head is the most urgent job; others go before it in that order if they do not delay it.

    A new, more urgent job becomes the head: so a promise holds only as long as its job is the head. If all
    jobs have the same priority, this is `Easy`.
    """

    def __init__(self, cluster: Cluster, age_s: int = 0) -> None:
        super().__init__(cluster)
        self.age_s = age_s
        self.line = IndexedQueue(self.key)
        self.startable = self.line.startable

    def key(self, job: Job) -> tuple[int, int]:
        """Return the rank, and for equal ones the order of submission."""
        return (self.rank(job), job.order)

    def submitted(self, job: Job, now: int) -> None:
        self.enter(job)

    def ended(self, job: Job, now: int) -> None:
        """Note nothing: every pass tries all."""

    def schedule(self, now: int) -> None:
        if self._first is not None:
            self._pass(self._first, now)

    def waiting(self) -> Iterator[Job]:
        return iter(sorted(self.line, key=by_order))

    def enter(self, job: Job) -> None:
        self.line.add(job)
        self._first = self.line.head()
