"""Conservative backfilling: every job has a reserved start from its submission on, which never gets later.

Mu'alem and Feitelson 2001. A job is reserved the earliest time that leaves all earlier reservations
standing. After every end, each waiting job, in order of submission, moves to the earliest time that the
others, where they stand by then, leave it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.profile import Profile


class Conservative:
    """Nobody is ever delayed by anybody who came later. `promised` tells each waiting job's start."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.wakes = cluster.reserved
        self._plan: Profile | None = None
        """What is free beside all that runs, waits and is reserved; from the last event on."""
        self._starts: dict[Job, int] = {}
        """The reserved start of each waiting job, in order of submission."""
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._planned(now).take(-job.nodes, now, job.until_s)

    def withdrawn(self, job: Job, now: int) -> None:
        start_s = self._starts.pop(job)
        self._planned(now).take(-job.nodes, start_s, start_s + job.requested_s)

    def schedule(self, now: int) -> None:
        plan = self._planned(now)
        fresh, self._fresh = self._fresh, None
        if fresh is None:
            for job in list(self._starts):
                self._move(job, plan, now)
            return
        start_s = plan.earliest(fresh.nodes, fresh.requested_s, now)
        plan.take(fresh.nodes, start_s, start_s + fresh.requested_s)
        self._starts[fresh] = start_s
        if start_s == now:
            self._start(fresh, plan, now)

    def waiting(self) -> Iterator[Job]:
        return iter(self._starts)

    def wake_at(self, now: int) -> int | None:
        return min(self._starts.values(), default=None)

    def promised(self, job: Job) -> int:
        """The start reserved for a waiting job; it can only get earlier. Raises `KeyError` of others."""
        return self._starts[job]

    def _move(self, job: Job, plan: Profile, now: int) -> None:
        start_s = self._starts[job]
        earlier_s = plan.earlier(job.nodes, job.requested_s, now, start_s)
        if earlier_s < start_s:
            plan.take(-job.nodes, start_s, start_s + job.requested_s)
            plan.take(job.nodes, earlier_s, earlier_s + job.requested_s)
            self._starts[job] = earlier_s
        if earlier_s <= now:
            self._start(job, plan, now)

    def _start(self, job: Job, plan: Profile, now: int) -> None:
        if self.cluster.start(job, now):
            del self._starts[job]
            return
        # Enough nodes are free, but not such as the job needs: a topology or a grid. Try at the next change.
        later_s = plan.next_border(now)
        plan.take(-job.nodes, now, now + job.requested_s)
        later_s = plan.earliest(job.nodes, job.requested_s, later_s)
        plan.take(job.nodes, later_s, later_s + job.requested_s)
        self._starts[job] = later_s

    def _planned(self, now: int) -> Profile:
        if self._plan is None:
            self._plan = self.cluster.plan(now)
        self._plan.forget_before(now)
        return self._plan
