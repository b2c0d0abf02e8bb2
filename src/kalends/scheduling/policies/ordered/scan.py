"""Policies that go through all waiting jobs in some order, and start any that fits (scan)."""

from __future__ import annotations

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policies.ordered.ranked import Ranked
from kalends.scheduling.policies.ordered.ranks import (
    BySubmission,
    LeastWorkFirst,
    LongestFirst,
    MostNodesFirst,
    ShortestFirst,
)


class Scan(Ranked):
    """First fit in order of rank: each job is tried once in a pass.

    Nothing is held back for a job that does not fit, so a wide job may wait as long as narrow ones come.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._fresh: Job | None = None
        """Jobs submitted since the last pass; all others were refused there, and nothing has ended since."""

    def submitted(self, job: Job, now: int) -> None:
        super().submitted(job, now)
        self._fresh = job

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        cluster, line = self.cluster, self.line
        if fresh is not None and cluster.settled(now):
            if cluster.start(fresh, now):
                line.remove(fresh)
            return
        line.first_fit(cluster.room(now), lambda job: cluster.start(job, now))


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
