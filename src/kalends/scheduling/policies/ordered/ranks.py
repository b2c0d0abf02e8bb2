"""Orders of Beosim (Jones and Pang 2003, section 4) as bases of policies.

Times are requested times and work is nodes x requested time, because the real ones are unknown. Equal
ranks go in order of submission.
"""

from __future__ import annotations

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
