"""EASY that may delay the head of the queue a little."""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Components, Job
from kalends.scheduling.leeway import Leeway, ShadowLeeway
from kalends.scheduling.policies.backfill.easy import Easy


class EasySlack(Easy):
    """FCFS_SCANBackfill_Var (Jones and Pang 2003, section 4.11): the head may be delayed, in all, by at
    most `percent` of its requested time.

    A job that starts before the head and moves its promised start uses up that much of the remaining
    allowance, which never grows again. With 0 percent this is `Easy`.
    """

    def __init__(self, cluster: Cluster, percent: int) -> None:
        super().__init__(cluster)
        self.percent = percent
        self._head: Job | None = None
        self._allowance_s = 0
        """Remaining allowed delay of that head."""
        self._too_late: set[tuple[int, int, tuple[int, ...], Components | None]] = set()
        """Nodes, time and kind of jobs that delay it by more and need not be tried again."""
        self._anybody: Leeway | None = None
        """In a pass in which the head may be delayed: all free nodes."""

    def _backfill(self, head: Job, free: int, now: int) -> None:
        if head is not self._head:
            self._head = head
            self._allowance_s = head.requested_s * self.percent // 100
        self._too_late.clear()
        super()._backfill(head, free, now)
        self._anybody = None

    def _candidates(self, leeway: Leeway, now: int) -> Iterator[Job]:
        if self._allowance_s:
            leeway = self._anybody = ShadowLeeway(leeway.widest)
        return super()._candidates(leeway, now)

    def _start_before(self, head: Job, job: Job, now: int) -> bool:
        started = super()._start_before(head, job, now) or self._delay(head, job, now)
        if started and self._anybody is not None:
            self._anybody.take(job.granted, job.until_s)
        return started

    def _delay(self, head: Job, job: Job, now: int) -> bool:
        """Start a job if it delays the head within the allowance; return whether it did."""
        alike = (job.nodes, job.requested_s, job.shape, job.components)
        if not self._allowance_s or alike in self._too_late:
            return False
        promise, cluster = self._promise, self.cluster
        assert promise is not None, "the rule of EASY has just asked for it"
        if not cluster.start(job, now):
            return False
        later = cluster.promise(head, now)
        delay_s = later.shadow_s - promise.shadow_s
        if delay_s > self._allowance_s:
            cluster.undo(job)
            self._too_late.add(alike)
            return False
        self._allowance_s -= delay_s
        self._promise = later
        return True
