"""FCFS with a scan in which no job is overtaken more than a given number of times."""

from __future__ import annotations

from bisect import bisect_left, insort

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.ordered.scan import FcfsScan


class NoStarvation(FcfsScan):
    """FCFS_SCANNoStarvation (Jones and Pang 2003, section 4.12): a job that was overtaken `hops` times
    holds back all jobs behind it.

    A job that overtakes another overtakes all before it, too, so the head of the queue is overtaken most:
    once by each job that was submitted after it and has started.
    """

    def __init__(self, cluster: Cluster, hops: int) -> None:
        super().__init__(cluster)
        self.hops = hops
        self._overtakers: list[int] = []
        """Orders of submission of jobs that were started before the head, sorted."""

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        cluster, line = self.cluster, self.line
        head = line.head()
        if fresh is not None and fresh is not head and cluster.settled(now):
            if self.start(fresh, now):
                line.remove(fresh)
            return
        while head is not None and cluster.start(head, now):
            line.remove(head)
            head = line.head()
        self._forget_before(head)
        if head is not None and len(self._overtakers) < self.hops:
            self.scan(now)

    def start(self, job: Job, now: int) -> bool:
        """Start a job before the head, if the head may still be overtaken."""
        if len(self._overtakers) >= self.hops or not super().start(job, now):
            return False
        insort(self._overtakers, job.order)
        return True

    def _forget_before(self, head: Job | None) -> None:
        """Drop jobs submitted before the head, because they have not overtaken it."""
        end = len(self._overtakers) if head is None else bisect_left(self._overtakers, head.order)
        del self._overtakers[:end]
