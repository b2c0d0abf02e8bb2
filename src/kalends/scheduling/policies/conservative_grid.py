"""Conservative backfilling over a grid: the reserved start of a job is one of all its components.

The rules are those of `conservative`: reserve at submission; after every end move each waiting job, in
order of submission, to the earliest time that the others leave it, never to a later one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.grid import Grid
from kalends.scheduling.grid_plan import GridPlan
from kalends.scheduling.job import Job
from kalends.scheduling.placing import Placed
from kalends.scheduling.policies.conservative import Conservative
from kalends.scheduling.policy import Policy


def conservative(cluster: Cluster) -> Policy:
    """The policy for what `cluster` counts: nodes, or nodes of each part of a grid."""
    return GridConservative(cluster) if isinstance(cluster, Grid) else Conservative(cluster)


class GridConservative:
    """Nobody is ever delayed by anybody who came later. `promised` tells each waiting job's start."""

    def __init__(self, grid: Grid) -> None:
        self.cluster: Cluster = grid
        self.grid = grid
        self.wakes = grid.reserved
        self._plan: GridPlan | None = None
        """What is free beside all that runs, waits and is reserved; from the last event on."""
        self._booked: dict[Job, tuple[int, Placed]] = {}
        """The reserved start and place of each waiting job, in order of submission."""
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._planned(now).give_back(job.placed, now, job.until_s)

    def withdrawn(self, job: Job, now: int) -> None:
        start_s, placed = self._booked.pop(job)
        plan = self._planned(now)
        plan.give_back(placed, start_s, plan.end_of(job, placed, start_s))

    def schedule(self, now: int) -> None:
        plan = self._planned(now)
        fresh, self._fresh = self._fresh, None
        for job in list(self._booked) if fresh is None else [fresh]:
            self._book(job, plan, now)
            start_s, placed = self._booked[job]
            if start_s == now and self.grid.start(job, now, placed):
                del self._booked[job]

    def waiting(self) -> Iterator[Job]:
        return iter(self._booked)

    def wake_at(self, now: int) -> int | None:
        return min((start_s for start_s, _ in self._booked.values()), default=None)

    def promised(self, job: Job) -> int:
        """The start reserved for a waiting job; it can only get earlier. Raises `KeyError` of others."""
        return self._booked[job][0]

    def _book(self, job: Job, plan: GridPlan, now: int) -> None:
        """Reserve the earliest start, and keep the place that was reserved unless it gets earlier."""
        booked = self._booked.get(job)
        if booked is not None:
            plan.give_back(booked[1], booked[0], plan.end_of(job, booked[1], booked[0]))
        found = plan.earliest(job, now)
        if booked is not None and found[0] >= booked[0]:
            found = booked
        plan.take(found[1], found[0], plan.end_of(job, found[1], found[0]))
        self._booked[job] = found

    def _planned(self, now: int) -> GridPlan:
        if self._plan is None:
            self._plan = self.grid.plan(now)
        self._plan.forget_before(now)
        return self._plan
