"""Free nodes of every part of a grid as a step function of time: the plan of backfilling."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from kalends.scheduling.job import Job, stretched
from kalends.scheduling.placement import Placed, Placer


class GridPlan:
    """A `Profile` with one number of free nodes for each part of the grid.

    Step i begins at `times[i]`; `free[i]` are the free nodes until `times[i + 1]`; the last step
    never ends.
    """

    __slots__ = ("_placer", "free", "times")

    def __init__(
        self,
        start: int,
        placer: Placer,
        nodes: Sequence[int],
        busy: Iterable[tuple[int, int, Placed]],
    ) -> None:
        """Start with `nodes` of each part, less all ``(start, end, placed)`` of `busy`."""
        self._placer = placer
        self.times = [start]
        self.free = [list(nodes)]
        for begin, end, placed in busy:
            self.take(placed, max(begin, start), end)

    def free_during(self, start: int, end: int) -> list[int]:
        """Return the fewest free nodes of each part at any time of ``[start, end)``, or at `start`."""
        first = max(bisect_right(self.times, start) - 1, 0)
        last = max(bisect_left(self.times, end), first + 1)
        return [min(counts) for counts in zip(*self.free[first:last], strict=True)]

    def earliest(self, job: Job, not_before: int) -> tuple[int, Placed] | None:
        """Return the first start, `not_before` or later, at which the job fits, and where it is placed then.

        None if it does not even fit on the free nodes of the last step, which never ends.
        """
        for start in (not_before, *self.times[bisect_right(self.times, not_before) :]):
            placed = self._placer.place_during(job, start, self.free_during)
            if placed is not None:
                return start, placed
        return None

    def end_of(self, job: Job, placed: Placed, start: int) -> int:
        """Return the end of the job's requested time, if it starts at this time and place."""
        return start + stretched(job.requested_s, self._placer.stretch(placed))

    def fits(self, placed: Placed, start: int, end: int) -> bool:
        """Return whether these nodes are free during all of ``[start, end)``."""
        return all(map(int.__ge__, self.free_during(start, end), placed))

    def take(self, placed: Sequence[int], start: int, end: int) -> None:
        """Book nodes of each part during ``[start, end)``."""
        if end <= start:
            return
        first, last = self._border(start), self._border(end)
        for index in range(first, last):
            self.free[index] = list(map(int.__sub__, self.free[index], placed))
        for index in (last, first):
            if index and self.free[index] == self.free[index - 1]:
                del self.times[index], self.free[index]

    def give_back(self, placed: Sequence[int], start: int, end: int) -> None:
        """Undo `take`, or the rest of it."""
        self.take([-nodes for nodes in placed], start, end)

    def forget_before(self, now: int) -> None:
        """Drop steps before `now`, which are no longer needed."""
        past = bisect_right(self.times, now) - 1
        if past > 0:
            del self.times[:past], self.free[:past]
        self.times[0] = max(self.times[0], now)

    def _border(self, time: int) -> int:
        """Return the index of a step that begins at `time`; it is made if necessary."""
        index = bisect_left(self.times, time)
        if index == len(self.times) or self.times[index] != time:
            self.times.insert(index, time)
            self.free.insert(index, self.free[index - 1])
        return index
