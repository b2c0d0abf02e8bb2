"""Policies that always start the first of some order, and wait while it does not fit (no scan).

The orders are those of Beosim (Jones and Pang 2003, section 4), as bases of policies. Times are requested
times and work is nodes x requested time, because the real ones are unknown. Equal ranks go in order of
submission.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.indexed_queue import IndexedQueue, by_order
from kalends.scheduling.job import Job


class BySubmission:
    """The first submitted."""

    def rank(self, job: Job) -> int:
        return job.order


class ShortestFirst:
    """The shortest requested time first."""

    def rank(self, job: Job) -> int:
        return job.requested_s


class LongestFirst:
    """The longest requested time first."""

    def rank(self, job: Job) -> int:
        return -job.requested_s


class FewestNodesFirst:
    """The fewest nodes first."""

    def rank(self, job: Job) -> int:
        return job.nodes


class MostNodesFirst:
    """The most nodes first."""

    def rank(self, job: Job) -> int:
        return -job.nodes


class LeastWorkFirst:
    """The smallest product of nodes and requested time first."""

    def rank(self, job: Job) -> int:
        return job.nodes * job.requested_s


class Ranked:
    """Keeps the waiting jobs in `line`, sorted by rank. A rank never changes while a job waits."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wakes = cluster.reserved
        self.line = IndexedQueue(self.key)

    def rank(self, job: Job) -> int:
        """Return the rank; smaller goes first."""
        raise NotImplementedError

    def key(self, job: Job) -> tuple[int, int]:
        """Return the rank, and for equal ones the order of submission."""
        return (self.rank(job), job.order)

    def submitted(self, job: Job, now: int) -> None:
        self.line.add(job)

    def ended(self, job: Job, now: int) -> None:
        """Note nothing."""

    def withdrawn(self, job: Job, now: int) -> None:
        self.line.remove(job)

    def returned(self, job: Job, now: int) -> None:
        self.line.add(job)

    def schedule(self, now: int) -> None:
        line, start = self.line, self.cluster.start
        while (head := line.head()) is not None and start(head, now):
            line.remove(head)

    def waiting(self) -> Iterator[Job]:
        return iter(sorted(self.line, key=by_order))

    def wake_at(self, now: int) -> int | None:
        return self.cluster.next_change(now)


class Sjf(ShortestFirst, Ranked):
    """SJF (section 4.4)."""


class Ljf(LongestFirst, Ranked):
    """LJF (section 5.1)."""


class Smjf(FewestNodesFirst, Ranked):
    """SMJF (section 4.3). If nodes are only counted and none are reserved, a scan adds nothing:
    if the smallest does not fit, none does."""


class Swjf(LeastWorkFirst, Ranked):
    """SWJF (section 4.6)."""


class Bjf(MostNodesFirst, Ranked):
    """BJF (section 5.1): the biggest is the one with the most nodes."""
