"""The earliest start of an alternative whose starts are all worth the same."""

from __future__ import annotations

from kalends.broker.planning.demand import Demand, Free, Infos, named_ranges, picking_of
from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.sweep import Sweep
from kalends.broker.planning.weights import ScoredStart
from kalends.core.progressions import Beat
from kalends.core.spans import Range


class EarliestSearch:
    """A search of equal starts, each of worth `bound`."""

    def __init__(
        self, demand: Demand, beat: Beat, window: Range, infos: Infos, free: Free, worth: int,
        work: Work,
    ) -> None:  # fmt: skip
        self.demand = demand
        self.bound = worth
        self.earliest = window[0]
        self._excluded: list[Range] = []
        pickings = [picking_of(pick, infos, free, *window, work) for pick in demand.picks]
        self._sweep = Sweep(*window, named_ranges(demand, free, *window), beat, pickings, work)

    def best(self) -> ScoredStart | None:
        """Return the earliest start that is left."""
        while (hit := self._sweep.next(self.earliest)) is not None:
            self.earliest = hit.start
            ends = [last for first, last in self._excluded if first <= hit.start <= last]
            if not ends:
                numbers = [pick.number for pick in self.demand.picks]
                picked = dict(zip(numbers, hit.picked, strict=True))
                return ScoredStart(hit.start, picked, self.bound)
            self.earliest = max(ends) + 1
        return None

    def exclude(self, first: int, last: int) -> None:
        """Exclude the starts from `first` to `last`, both included."""
        self._excluded.append((first, last))
