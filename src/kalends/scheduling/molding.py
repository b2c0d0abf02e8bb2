"""The size of a moldable job: setting it, and choosing it for policies that only know one size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.policy import Policy
from kalends.scheduling.profile import NEVER, QueuedPlan


def sizes_of(job: Job) -> tuple[int, ...]:
    """Return the sizes that a waiting job can be started on, ascending: one, if it is rigid or ran before."""
    return (job.nodes,) if job.molds is None or job.start_s >= 0 else job.molds.sizes


def mold(job: Job, nodes: int) -> None:
    """Make a waiting job request one of its sizes: from now on it is treated as rigid."""
    if job.molds is not None and nodes != job.nodes:
        assert job.start_s < 0, f"job {job.id} has begun on {job.nodes} nodes"
        job.nodes = nodes
        job.requested_s = job.molds.requested_on(nodes)


def molding(policy: Policy) -> Policy:
    """Return `policy` if it chooses the sizes of jobs (`chooses_sizes`), else a wrapper that does."""
    return policy if getattr(policy, "chooses_sizes", False) else Molding(policy)


class Molding:
    """A policy for rigid jobs that is given moldable ones: each gets its size when it is submitted.

    It is the one with the earliest completion, the smaller of equals, as SA chooses it for the user
    (Cirne and Berman 2003, "When the herd is smart"): running jobs take their requested times, and
    waiting jobs go in order of submission, each as early as it fits, whatever the policy then does.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy: Final = policy
        self.cluster: Cluster = policy.cluster
        self.wakes = policy.wakes

    def submitted(self, job: Job, now: int) -> None:
        if job.molds is not None:
            mold(job, self.chosen(job, now))
        self.policy.submitted(job, now)

    def ended(self, job: Job, now: int) -> None:
        self.policy.ended(job, now)

    def withdrawn(self, job: Job, now: int) -> None:
        self.policy.withdrawn(job, now)

    def returned(self, job: Job, now: int) -> None:
        if job.molds is not None and job.start_s < 0:
            mold(job, self.chosen(job, now))
        self.policy.returned(job, now)

    def schedule(self, now: int) -> None:
        self.policy.schedule(now)

    def waiting(self) -> Iterator[Job]:
        return self.policy.waiting()

    def wake_at(self, now: int) -> int | None:
        return self.policy.wake_at(now)

    def chosen(self, job: Job, now: int) -> int:
        """Return the size on which a job that is submitted now is expected to end first."""
        plan = QueuedPlan(self.cluster.plan(now))
        for other in self.policy.waiting():
            if plan.has_room(other.nodes):
                plan.book(other.nodes, other.requested_s)
        best, best_s = job.nodes, NEVER
        for nodes in sizes_of(job):
            mold(job, nodes)
            if plan.has_room(nodes) and self.cluster.could_ever_fit(job):
                over_s = plan.earliest(nodes, job.requested_s) + job.requested_s
                if over_s < best_s:
                    best, best_s = nodes, over_s
        return best
