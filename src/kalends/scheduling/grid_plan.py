"""Free nodes of every part of a grid as a step function of time: the plan of backfilling."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kalends.scheduling.job import Job, stretched
from kalends.scheduling.placement import Placed, Placer
from kalends.scheduling.profile import NEVER
from kalends.scheduling.step_plan import StepPlan


class GridPlan(StepPlan[list[int]]):
    """A `Profile` with one number of free nodes for each part of the grid."""

    __slots__ = ("_placer",)

    def __init__(
        self,
        start: int,
        placer: Placer,
        nodes: Sequence[int],
        busy: Iterable[tuple[int, int, Placed]],
    ) -> None:
        """Start with `nodes` of each part, less all ``(start, end, placed)`` of `busy`."""
        super().__init__(start, list(nodes))
        self._placer = placer
        for begin, end, placed in busy:
            self.take(placed, begin, end)

    def free_during(self, start: int, end: int) -> list[int]:
        """Return the fewest free nodes of each part at any time of ``[start, end)``, or at `start`."""
        return [
            min(counts) for counts in zip(*self.during(start, max(end, start + 1)), strict=True)
        ]

    def earliest(
        self,
        job: Job,
        not_before: int,
        before: int = NEVER,
        booked: tuple[int, Placed] | None = None,
    ) -> tuple[int, Placed] | None:
        """Return the first start in ``[not_before, before)`` at which the job fits, and its place then.

        What the job has `booked` itself counts as free. None: there is no such start; without `before`, not
        even on the free nodes of the last step, which never ends.
        """
        if booked is not None:
            span = booked[0], self.end_of(job, *booked)
            self.give_back(booked[1], *span)
        found = None
        for start in (not_before, *self.times[bisect_right(self.times, not_before) :]):
            if start >= before:
                break
            placed = self._placer.place_during(job, start, self.free_during)
            if placed is not None:
                found = start, placed
                break
        if booked is not None:
            self.take(booked[1], *span)
        return found

    def end_of(self, job: Job, start: int, placed: Placed) -> int:
        """Return the end of the job's requested time, if it starts at this time and place."""
        return start + stretched(job.requested_s, self._placer.stretch(placed))

    def fits(self, placed: Placed, start: int, end: int) -> bool:
        """Return whether these nodes are free during all of ``[start, end)``."""
        return all(map(int.__ge__, self.free_during(start, end), placed))

    def take(self, placed: Placed, start: int, end: int) -> None:
        """Book nodes of each part during ``[start, end)``."""
        self.change(start, end, lambda free: list(map(int.__sub__, free, placed)))

    def give_back(self, placed: Placed, start: int, end: int) -> None:
        """Undo `take`, or the rest of it."""
        self.change(start, end, lambda free: list(map(int.__add__, free, placed)))
