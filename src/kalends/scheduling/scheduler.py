"""One cluster under one policy: events in, jobs that begin, stop or change out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kalends.core.errors import Conflict, InvalidInput
from kalends.scheduling.job import Job
from kalends.scheduling.policy import Policy

NOTHING: Final[Sequence[Job]] = ()


class Scheduler:
    """The machine that both a live queue and the simulator drive. Pure: `now` is a parameter.

    Every event is followed by exactly one pass of the policy. What comes back are the jobs whose nodes
    changed, in the order in which they did: `Job.granted` says to how many, 0 to none. `waiting` counts
    the jobs that wait.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.cluster = policy.cluster
        self.wake_at = policy.wake_at
        """When to call `wake` if no other event comes before (takes `now`); None: not at all."""
        self.waiting = 0
        self._submissions = 0

    def submit(self, job: Job, now: int) -> Sequence[Job]:
        """A job begins to wait. Raises `InvalidInput`, and nothing has changed, if it could never run."""
        if not self.cluster.could_ever_fit(job):
            raise InvalidInput(
                f"job {job.id} asks for {job.nodes} nodes, and never fits on {self.cluster.nodes}",
                where="nodes",
                remedy="ask for fewer nodes or another shape",
            )
        job.order = self._submissions
        self._submissions += 1
        self.waiting += 1
        self.policy.submitted(job, now)
        return self.wake(now)

    def end(self, job: Job, now: int) -> Sequence[Job]:
        """A running job has ended: by itself, at its limit, or killed."""
        self.cluster.end(job)
        self.policy.ended(job, now)
        return self.wake(now)

    def withdraw(self, job: Job, now: int) -> Sequence[Job]:
        """A waiting job is not wanted any more. Raises `Conflict` if it runs or has ended."""
        if job.granted or job.until_s >= 0:
            raise Conflict(f"job {job.id} does not wait", where="job", remedy="end it instead")
        self.policy.withdrawn(job, now)
        self.waiting -= 1
        return self.wake(now)

    def wake(self, now: int) -> Sequence[Job]:
        """Let the policy look, though nothing was submitted and nothing ended."""
        self.policy.schedule(now)
        if not self.cluster.touched:
            return NOTHING
        touched = self.cluster.collect()
        for job in touched:
            if not job.granted:
                self.waiting += 1
            elif job.start_s == now:
                self.waiting -= 1
        return touched
