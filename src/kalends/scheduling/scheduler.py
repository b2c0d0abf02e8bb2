"""One cluster under one policy: events in, jobs that begin, stop or change out."""

from __future__ import annotations

from kalends.core.errors import Conflict, InvalidInput
from kalends.scheduling.job import Job
from kalends.scheduling.policy import Policy


class Scheduler:
    """The machine that both a live queue and the simulator drive. Pure: `now` is a parameter.

    Every event is followed by exactly one pass of the policy. What comes back are the jobs whose nodes
    changed, in the order in which they did: `Job.granted` says to how many, 0 to none.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.cluster = policy.cluster
        self._submissions = 0
        self._withdrawals = 0

    @property
    def waiting(self) -> int:
        """Number of waiting jobs."""
        return self._submissions - self._withdrawals - self.cluster.begun

    def submit(self, job: Job, now: int) -> list[Job]:
        """Let a job begin to wait; return the jobs that start, change or stop.

        Raises `InvalidInput`, and nothing has changed, if it could never run.
        """
        if not self.cluster.could_ever_fit(job):
            raise InvalidInput(
                f"job {job.id} asks for {job.nodes} nodes, and never fits on {self.cluster.nodes}",
                where="nodes",
                remedy="ask for fewer nodes or another shape",
            )
        job.order = self._submissions
        self._submissions += 1
        self.policy.submitted(job, now)
        return self._touched_in_pass(now)

    def end(self, job: Job, now: int) -> list[Job]:
        """Record that a running job has ended: by itself, at its limit, or killed.

        Raises `Conflict`, and nothing has changed, if it does not run.
        """
        if not job.granted:
            raise Conflict(
                f"job {job.id} does not run", where="job", remedy="end a running job once"
            )
        self.cluster.end(job)
        self.policy.ended(job, now)
        return self._touched_in_pass(now)

    def withdraw(self, job: Job, now: int) -> list[Job]:
        """Withdraw a waiting job.

        Raises `Conflict`, and nothing has changed, if it does not wait here: it runs, is over, was
        withdrawn before or never submitted.
        """
        if job not in self.policy.waiting():
            remedy = "end it instead" if job.granted else "withdraw only waiting jobs"
            raise Conflict(f"job {job.id} does not wait", where="job", remedy=remedy)
        self.policy.withdrawn(job, now)
        self._withdrawals += 1
        return self.wake(now)

    def resized(self, job: Job, now: int, until_s: int) -> list[Job]:
        """Record that a running job has changed to its `target` and expects to end by `until_s`."""
        self.cluster.resized(job, until_s)
        return self.wake(now)

    def wake(self, now: int) -> list[Job]:
        """Let the policy look, though nothing was submitted and nothing ended."""
        return self._touched_in_pass(now)

    def wake_at(self, now: int) -> int | None:
        """Return when to call `wake` without another event before; None: never."""
        return self.policy.wake_at(now) if self.policy.wakes else None

    def _touched_in_pass(self, now: int) -> list[Job]:
        self.policy.schedule(now)
        touched, self.cluster.touched = self.cluster.touched, []
        return touched
