"""Several clusters behind one queue: jobs on one of them or, co-allocated, on many at once.

A `Grid` is a `Cluster` to every policy of a simulation; no live queue has one. It decides where a job's
components run (`placement.Placer`) and how much longer it takes there: on slow nodes, and across clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil

from msgspec.structs import replace

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job, stretched
from kalends.scheduling.place_plans import GridPlan
from kalends.scheduling.placement import ClusterSpec, CrossingPenalty, Placed, Placer
from kalends.scheduling.profile import NEVER
from kalends.scheduling.promise import Promise
from kalends.scheduling.reservations import Reservation, Reservations


class GridPromise(Promise):
    """A promise by components: jobs before the head must leave it a place at its shadow time."""

    grid: Grid
    head: Job
    spare: list[int]
    """Free nodes of each part at the shadow time, without the head's."""

    def allows(self, job: Job, now: int) -> bool:
        placed = self.grid.placement(job, now)
        if placed is None:
            return False
        if now + self.grid.length_s(job, placed) <= self.shadow_s:
            return True
        spare = list(map(int.__sub__, self.spare, placed))
        return min(spare) >= 0 and self.grid.placer.place(self.head, spare) is not None

    def started(self, job: Job, now: int) -> None:
        self.leeway.take(job.nodes, job.until_s)
        if job.until_s > self.shadow_s:
            self.spare = list(map(int.__sub__, self.spare, job.placed))


class ReservedGridPromise(Promise):
    """A promise among advance reservations: the head's place is booked in the whole plan."""

    grid: Grid
    plan: GridPlan

    def allows(self, job: Job, now: int) -> bool:
        placed = self.grid.placement(job, now)
        return placed is not None and self.plan.fits(
            placed, now, now + self.grid.length_s(job, placed)
        )

    def started(self, job: Job, now: int) -> None:
        self.leeway.take(job.nodes, job.until_s)
        self.plan.take(job.placed, now, job.until_s)


class Grid(Cluster):
    """Clusters of given numbers of nodes. A *part* is the nodes of one speed in one cluster.

    `reservations` keep nodes of a part free: ``{0: [Reservation(...)]}``, parts numbered from 0 as the
    clusters name them. `ferry`, `fit` and `undivided`: see `placement`. The requested time of a job is
    for the reference node; if it runs slower, its limit is later by the same factor.

    Raises `InvalidInput` for no cluster, an unknown rule, or reservations that a part has no room for.
    """

    counts = False

    def __init__(
        self,
        clusters: Sequence[ClusterSpec],
        reservations: Mapping[int, Iterable[Reservation]] | None = None,
        *,
        crossing: CrossingPenalty = CrossingPenalty(),  # noqa: B008 - frozen
        fit: str = "worst",
        undivided: str = "total",
    ) -> None:
        self.placer = Placer(clusters, crossing, fit, undivided)
        self.parts = self.placer.parts
        every: list[Reservation] = []
        for part, made in (reservations or {}).items():
            if not 0 <= part < len(self.parts):
                raise InvalidInput(
                    f"no such part {part}",
                    where="reservations",
                    remedy=f"number parts from 0 to {len(self.parts) - 1}",
                )
            every += Reservations(
                self.parts[part].nodes, (replace(each, part=part) for each in made)
            )
        super().__init__(sum(part.nodes for part in self.parts), every)
        self.free_of_parts = [part.nodes for part in self.parts]
        """Free nodes in service of each part; below 0 if a job has a node that is to leave service."""
        self.out_of_parts = [0] * len(self.parts)
        """Nodes out of service of each part; nodes are numbered part by part."""

    def could_ever_fit(self, job: Job) -> bool:
        """Return whether the job could run on the empty grid. Raises `InvalidInput` for absurd components."""
        self.placer.check(job)
        return self.placer.place(job, [part.nodes for part in self.parts]) is not None

    def fits_in_service(self, job: Job) -> bool:
        return self.placer.place(job, self._in_service()) is not None

    def settled(self, now: int) -> bool:
        """Return false: the place of a job depends on the free nodes, so a refused job may be allowed
        elsewhere once less is free.
        """
        return False

    def placement(self, job: Job, now: int) -> Placed | None:
        """Return where the job would run if it were started now; None if it does not fit."""
        if self.reserved:
            return self.placer.place_during(job, now, self.plan_of_places(now).free_during)
        ends = self.ends
        if ends and ends[0][0] <= now:
            return self.placer.place(job, self._free_of_parts_at(now))
        return self.placer.place(job, self.free_of_parts) if job.nodes <= self.free else None

    def length_s(self, job: Job, placed: Placed) -> int:
        """Return the requested time of the job when it runs there."""
        return stretched(job.requested_s, self.placer.stretch(placed))

    def can_start(self, job: Job, now: int) -> bool:
        return self.placement(job, now) is not None

    def start(self, job: Job, now: int) -> bool:
        placed = self.placement(job, now)
        return placed is not None and self.start_on(job, placed, now)

    def start_on(self, job: Job, placed: Placed, now: int) -> bool:
        """Start a waiting job in a free place; return True."""
        job.placed = placed
        job.stretch = self.placer.stretch(placed)
        self.free_of_parts = list(map(int.__sub__, self.free_of_parts, placed))
        self._begin(job, job.nodes, now)
        return True

    def end(self, job: Job) -> None:
        super().end(job)
        self.free_of_parts = list(map(int.__add__, self.free_of_parts, job.placed))

    def stopped(self, job: Job, now: int) -> None:
        super().stopped(job, now)
        job.requested_s = ceil(job.requested_s / job.stretch)

    def fits_without(self, job: Job, now: int, gone: Collection[Job]) -> bool:
        free = self.free_of_parts
        for each in gone:
            self.free_of_parts = list(map(int.__add__, self.free_of_parts, each.placed))
        fits = super().fits_without(job, now, gone)
        self.free_of_parts = free
        return fits

    def promise(self, job: Job, now: int) -> Promise:
        """Return the first requested end at which the job's components fit, if nothing else is started."""
        leeway = self.leeway(now)
        if self.placer.place(job, self._in_service()) is None:
            return Promise(NEVER, leeway)
        if self.reserved:
            plan = self.plan_of_places(now)
            found = plan.earliest(job, now)
            assert found is not None, (
                f"job {job.id} fits on the empty grid, and so on the last step"
            )
            shadow_s, placed = found
            plan.take(placed, shadow_s, shadow_s + self.length_s(job, placed))
            return ReservedGridPromise(shadow_s, leeway, self, plan)
        spare = self._free_of_parts_at(now)
        later = [(until_s, running) for until_s, _, running in self.ends if until_s > now]
        shadow_s = now
        for until_s, running in later:
            if until_s > shadow_s and self.placer.place(job, spare) is not None:
                break
            shadow_s = until_s
            spare = list(map(int.__add__, spare, running.placed))
        return GridPromise(shadow_s, leeway, self, job, spare)

    def place_of(self, job: Job) -> Placed:
        """Return the place of a running job."""
        return job.placed

    def plan_of_places(self, now: int) -> GridPlan:
        """Return the free nodes of each part from `now` on, if all running jobs end when expected."""
        busy = [(now, until_s, job.placed) for until_s, _, job in self.ends]
        busy += [(each.start_s, each.end_s, self._on_part(each)) for each in self.reservations]
        return GridPlan(now, self.placer, self._in_service(), busy)

    def _count_out_of_service(self, nodes: int) -> None:
        super()._count_out_of_service(nodes)
        first, out = 0, []
        for part in self.parts:
            last = first + part.nodes
            out.append(sum(first <= node < last for node in self.out_nodes))
            first = last
        returned = map(int.__sub__, self.out_of_parts, out)
        self.free_of_parts = list(map(int.__add__, self.free_of_parts, returned))
        self.out_of_parts = out

    def _in_service(self) -> list[int]:
        return [part.nodes - out for part, out in zip(self.parts, self.out_of_parts, strict=True)]

    def _free_of_parts_at(self, now: int) -> list[int]:
        free = self.free_of_parts
        for until_s, _, job in self.ends:
            if until_s > now:
                break
            free = list(map(int.__add__, free, job.placed))
        return free

    def _on_part(self, reserved: Reservation) -> Placed:
        parts = range(len(self.parts))
        return tuple(reserved.nodes if part == reserved.part else 0 for part in parts)
