"""FCFS with a scan in which nobody is overtaken more than so many times."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from kalends.scheduling.cluster import NEVER, Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.scan import FcfsScan


class NoStarvation(FcfsScan):
    """FCFS_SCANNoStarvation (Jones and Pang 2003, section 4.12): who was overtaken `hops` times holds
    back all behind it.

    Whoever overtakes a job overtakes all before it too: the head of the queue has always been overtaken
    most. How often, is the number of jobs submitted after it that were started.
    """

    def __init__(self, cluster: Cluster, hops: int) -> None:
        super().__init__(cluster)
        self.hops = hops
        self._overtakers: list[int] = []
        """The orders of submission of those that were started before the head, sorted."""

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        cluster, line = self.cluster, self.line
        head = line.head()
        if fresh is not None and fresh is not head and cluster.settled(now):
            self._overtake(iter([fresh]), cluster.free_at(now), now)
            return
        while head is not None and cluster.start(head, now):
            line.remove(head)
            head = line.head()
        self._forget_before(head)
        if head is not None:
            free = cluster.free_at(now)
            self._overtake(line.startable(free, NEVER, NEVER), free, now)

    def _overtake(self, candidates: Iterator[Job], free: int, now: int) -> None:
        """Start whoever of them fits in the `free` nodes, while the head may still be overtaken."""
        head, started = self.line.head(), []
        left = self.hops - len(self._overtakers)
        for job in candidates:
            if left <= 0 or free <= 0:
                break
            if job is not head and job.nodes <= free and self.cluster.start(job, now):
                started.append(job)
                free -= job.granted
                left -= 1
        for job in started:
            self.line.remove(job)
            insort(self._overtakers, job.order)

    def _forget_before(self, head: Job | None) -> None:
        """Who was submitted before the head has not overtaken it."""
        end = len(self._overtakers) if head is None else bisect_left(self._overtakers, head.order)
        del self._overtakers[:end]
