"""Policies that try all waiting jobs in some order, and start any that fits (scan)."""

from __future__ import annotations

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.ordered.ranked import (
    BySubmission,
    LeastWorkFirst,
    LongestFirst,
    MostNodesFirst,
    Ranked,
    ShortestFirst,
)


class Scan(Ranked):
    """First fit in order of rank: each job is tried once in a pass.

    No nodes are kept for a job that does not fit, so a wide job may wait as long as narrow ones come.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._fresh: Job | None = None
        """Jobs submitted since the last pass; it refused all others, and no job has ended since."""

    def submitted(self, job: Job, now: int) -> None:
        super().submitted(job, now)
        self._fresh = job

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        if fresh is not None and self.cluster.settled(now):
            if self.start(fresh, now):
                self.line.remove(fresh)
            return
        self.scan(now)

    def scan(self, now: int) -> None:
        """Try all waiting jobs."""
        if self.line.least_nodes > self.cluster.room(now):
            return
        leeway = self.cluster.leeway(now)
        started = []
        for job in self.line.startable(leeway, now):
            if self.start(job, now):
                leeway.take(job.granted, job.until_s)
                started.append(job)
        for job in started:
            self.line.remove(job)

    def start(self, job: Job, now: int) -> bool:
        """Start a job if it may start; return whether it did."""
        return self.cluster.start(job, now)


class FcfsScan(BySubmission, Scan):
    """FCFS_SCAN (section 4.2)."""


class SjfScan(ShortestFirst, Scan):
    """SJF_SCAN (section 4.5)."""


class LjfScan(LongestFirst, Scan):
    """LJF_SCAN (section 5.1)."""


class SwjfScan(LeastWorkFirst, Scan):
    """SWJF_SCAN (section 4.7)."""


class BjfScan(MostNodesFirst, Scan):
    """BJF_SCAN (section 5.1)."""
