"""Conservative backfilling over a grid: the reserved start of a job is one of all its components.

The rules are those of `conservative`: reserve at submission; after every end move each waiting job, in
order of submission, to the earliest time that the others leave it, never to a later one.
"""

from __future__ import annotations

from collections.abc import Iterator

from kalends.scheduling.cluster import Cluster
from kalends.scheduling.grid import Grid
from kalends.scheduling.job import Job
from kalends.scheduling.placement import Placed
from kalends.scheduling.policies.backfill.promises import StartTurns, put_in_order
from kalends.scheduling.profile import NEVER


class GridConservative:
    """Conservative backfilling in a grid. `promised` gives each waiting job's start."""

    def __init__(self, grid: Grid) -> None:
        self.cluster: Cluster = grid
        self.grid = grid
        self.wakes = grid.reserved
        self._plan = grid.plan_of_parts(0)
        """Free nodes next to running, waiting and reserved jobs, from the last event on."""
        self._revision = grid.revision
        """The revision of the plan."""
        self._booked: dict[Job, tuple[int, Placed] | None] = {}
        """Reserved start and place of each waiting job, in order of submission; None while nodes that it
        needs are out of service.
        """
        self._turns = StartTurns()
        self._fresh: Job | None = None

    def submitted(self, job: Job, now: int) -> None:
        self._booked[job] = None
        self._fresh = job

    def ended(self, job: Job, now: int) -> None:
        self._plan.forget_before(now)
        self._plan.give_back(job.placed, now, job.until_s)

    def withdrawn(self, job: Job, now: int) -> None:
        self._turns.forget(job)
        self._give_back(job, self._booked.pop(job), now)

    def returned(self, job: Job, now: int) -> None:
        put_in_order(self._booked, job, None)

    def schedule(self, now: int) -> None:
        fresh, self._fresh = self._fresh, None
        self._plan.forget_before(now)
        wake_s = self.wake_at(now)
        if self._revision != self.grid.revision or (wake_s is not None and wake_s < now):
            # Promises cannot be kept, or can be improved: all are renewed, in order.
            self._revision, fresh = self.grid.revision, None
            self._plan = self.grid.plan_of_parts(now)
            self._booked = dict.fromkeys(self._booked)
            wake_s = None
        for job in list(self._booked) if fresh is None else [fresh]:
            self._book(job, now)
        if fresh is None or wake_s != now:
            self._start_due(now)

    def waiting(self) -> Iterator[Job]:
        return iter(self._booked)

    def wake_at(self, now: int) -> int | None:
        return min((booked[0] for booked in self._booked.values() if booked), default=None)

    def promised(self, job: Job) -> int:
        """Return the start reserved for a waiting job; it only gets later when it must.

        `NEVER` while there are too few in service. Raises `KeyError` of jobs that do not wait.
        """
        booked = self._booked[job]
        return booked[0] if booked else NEVER

    def keeps_promises(self, job: Job, until_s: int, now: int) -> bool:
        """Return whether all promises stand if a running job ends by `until_s`."""
        void = self._revision != self.grid.revision
        return void or self._plan.fits(job.placed, job.until_s, until_s)

    def _start_due(self, now: int) -> None:
        due = {
            job: booked[1] for job, booked in self._booked.items() if booked and booked[0] == now
        }
        for job in self._turns.sort(due):
            if self.grid.start(job, now, due[job]):
                del self._booked[job]
                self._turns.forget(job)

    def _book(self, job: Job, now: int) -> None:
        """Reserve the earliest start; a reserved place stays unless the start gets earlier."""
        before = self._booked[job]
        self._give_back(job, before, now)
        found = self._plan.earliest(job, now)
        if found is None or (before is not None and found[0] >= before[0]):
            found = before
        else:
            self._turns.reserved(job)
        if found is not None:
            start_s, placed = found
            self._plan.take(placed, start_s, self._plan.end_of(job, placed, start_s))
        self._booked[job] = found

    def _give_back(self, job: Job, booked: tuple[int, Placed] | None, now: int) -> None:
        if booked is not None:
            start_s, placed = booked
            end_s = self._plan.end_of(job, placed, start_s)
            self._plan.give_back(placed, max(start_s, now), end_s)
