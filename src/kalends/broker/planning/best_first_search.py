"""The best start of one alternative whose starts differ in worth: proven by bounds.

Why few starts need to be tried. Say that t is a start that suits, with some resources picked. Each of
them has a piece around t: a range of starts at which it is free, worth the same all along; so have the
named resources together, and the time itself. Let p be the latest begin of these. Every start from p
to t lies in all those pieces, so that the first one from p on the joint beat of the same resources
suits too, is worth as much, and is no later than t. Hence of all best starts the earliest is the next
time of some joint beat after the begin of some piece. These are all the starts that are tried; the
argument for requests without weights is the same (`kalends.broker.planning.sweep`).

Each of them has a bound (`kalends.broker.planning.worth_bounds`). The one with the greatest is looked at, the
earliest of equals: what it is truly worth becomes its bound. Once that does not lower it, no other
start is worth more, nor as much and earlier.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from kalends.broker.planning.assignment import Assignment, Shortage
from kalends.broker.planning.demand import (
    Catalogue,
    Demand,
    Free,
    Infos,
    Pick,
    growing,
    named_ranges,
    stage_of,
)
from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.start_arrays import FreeArrays, Times, Worths, distinct, next_on
from kalends.broker.planning.start_ranges import added, levels
from kalends.broker.planning.sweep import joint_beats
from kalends.broker.planning.weights import (
    Level,
    Scale,
    ScoredStart,
    attribute_worths,
    joined,
)
from kalends.broker.planning.worth_bounds import CompetingPicks, PickOffers, clusters
from kalends.core.progressions import Beat
from kalends.core.requests import Request, Term
from kalends.core.spans import Range

_SAFE: Final = 1 << 61
"""Sums below are added as machine integers."""


class BestFirstSearch:
    """A search of the starts of alternative `number`; `bound` is at least the best worth."""

    def __init__(
        self,
        request: Request,
        number: int,
        demand: Demand,
        beat: Beat,
        window: Range,
        infos: Infos,
        free: Free,
        times_worth: Sequence[Level],
        catalogue: Catalogue,
        scale: Scale,
        calendars: FreeArrays,
        work: Work,
    ) -> None:
        self._work = work
        self.demand = demand
        self._request, self._beat, self._window = request, beat, window
        self._infos, self._free, self._scale, self._calendars = infos, free, scale, calendars
        self._alternative = request.alternatives[number]
        self._times_worth = times_worth
        work.spend(sum(len(p.names) * (5 + 3 * len(self._term(p).preferred)) for p in demand.picks))
        self._attributes = {
            pick.number: attribute_worths(self._term(pick), pick.names, catalogue, scale)
            for pick in demand.picks
        }
        self.bound = self._greatest()
        self._excluded: list[Range] = []
        self._frontier: Frontier | None = None
        """Built when it is first asked for: most alternatives turn out not to matter."""

    @property
    def earliest(self) -> int:
        """A lower bound on the starts that are left."""
        return self._window[0]

    def best(self) -> ScoredStart | None:
        """Return the start of greatest worth, then the earliest; None when none is left."""
        if self._frontier is None:
            self._frontier = self._built()
        return self._frontier.best()

    def exclude(self, first: int, last: int) -> None:
        """Exclude the starts from `first` to `last`, both included."""
        self._excluded.append((first, last))
        if self._frontier is not None:
            self._frontier.exclude(first, last)

    def _term(self, pick: Pick) -> Term:
        return self._alternative.terms[pick.number]

    def _greatest(self) -> int:
        """Return a bound on the worth of every start, whatever is free."""
        total = self._scale.of(self._alternative.weight)
        total += max((worth for _, _, worth in self._times_worth), default=0)
        for term in self._alternative.terms:
            more = max(term.units_max - term.units, 0)
            total += term.count * more * self._scale.of_unit(term)
        for pick in self.demand.picks:
            total += sum(sorted(self._attributes[pick.number], reverse=True)[: pick.wanted])
        return total

    def _built(self) -> Frontier:
        offers = [self._offers(pick) for pick in self.demand.picks]
        ground = self._ground()
        beats = {beat for each in offers for beat in each.beats}
        size = 1 + max(
            (abs(int(worth)) for each in offers for worth in set(each.worths.tolist())), default=0
        )
        size *= 4 * (1 + len(offers)) * (1 + sum(len(pick.names) for pick in self.demand.picks))
        size += max((abs(worth) for _, _, worth in ground), default=0)
        dtype: npt.DTypeLike = np.int64 if size < _SAFE else object
        offers = [each._replace(worths=each.worths.astype(dtype)) for each in offers]
        joint = joint_beats(*self._window, self._beat, beats)
        frontier = self._frontier_of(ground, clusters(offers, self._work), joint, dtype)
        for first, last in self._excluded:
            frontier.exclude(first, last)
        return frontier

    def _frontier_of(
        self,
        ground: Sequence[Level],
        of_picks: Sequence[CompetingPicks],
        joint: Collection[Beat],
        dtype: npt.DTypeLike,
    ) -> Frontier:
        return Frontier(ground, of_picks, joint, dtype, self._work)

    def _ground(self) -> list[Level]:
        """Return the starts that suit the named resources, and their worth without the picks."""
        window, scale = self._window, self._scale
        worth = scale.of(self._alternative.weight)
        ground = [
            (first, last, worth) for first, last in named_ranges(self.demand, self._free, *window)
        ]
        ground = joined(ground, self._times_worth, operator.add)
        for term in self._alternative.terms:
            if term.resource and growing(term) and term.units_weight:
                of_unit = scale.of_unit(term)
                amounts = [
                    (first, last, (units - term.units) * of_unit)
                    for first, last, units in named_levels(
                        self._request, term, self.demand, self._free, window
                    )
                ]
                ground = joined(ground, amounts, operator.add)
        return ground

    def _offers(self, pick: Pick) -> PickOffers:
        term, attributes = self._term(pick), self._attributes[pick.number]
        beats = [pick.beat(self._infos[name]) for name in pick.names]
        of_name = np.array(attributes, dtype=object)
        if not (growing(term) and term.units_weight):
            pieces = self._calendars.ranges(pick.names, pick.stage, self._window)
            self._work.spend(5 * len(pieces.owner))
            return PickOffers(pick, beats, pieces, of_name[pieces.owner])
        pieces, units = self._calendars.levels(pick.names, pick.stage, term.units_max, self._window)
        self._work.spend(len(pieces.owner))
        of_amount = (units - term.units).astype(object) * self._scale.of_unit(term)
        return PickOffers(pick, beats, pieces, of_name[pieces.owner] + of_amount)


class Frontier:
    """The starts that need to be tried, in order, each with a bound on its worth."""

    def __init__(
        self,
        ground: Sequence[Level],
        of_picks: Sequence[CompetingPicks],
        joint: Collection[Beat],
        dtype: npt.DTypeLike,
        work: Work,
    ) -> None:
        self._clusters, self._joint, self._work = of_picks, joint, work
        columns = [[level[column] for level in ground] for column in range(3)]
        self._first, self._last = (np.array(each, dtype=np.int64) for each in columns[:2])
        self._worth: Worths = np.array(columns[2], dtype=dtype)
        self._excluded: list[Range] = []
        self._found: dict[int, ScoredStart] = {}
        """Starts whose bound is what they are truly worth."""
        self._times: Times = np.zeros(0, np.int64)
        self._bounds: Worths = np.zeros(0, dtype)
        self._of_clusters: Worths = np.zeros((len(of_picks), 0), dtype)
        """The part of each cluster in the bounds."""
        pieces = [offers.pieces for cluster in of_picks for offers in cluster.offers]
        self._add(
            np.concatenate([self._first, *(each.first for each in pieces)]),
            np.concatenate([self._last, *(each.last for each in pieces)]),
        )

    def best(self) -> ScoredStart | None:
        while len(self._times):
            start = int(self._times[np.argmax(self._bounds)])
            if start in self._found:
                return self._found[start]
            self._look(start)
        return None

    def exclude(self, first: int, last: int) -> None:
        self._excluded.append((first, last))
        self._keep((self._times < first) | (self._times > last))
        if len(self._last) and last < self._last[-1]:
            self._add(np.array([last + 1]), self._last[-1:])

    def _add(self, firsts: Times, lasts: Times) -> None:
        """Add the next time of every joint beat after `firsts` that is not after `lasts`."""
        found = []
        for beat in self._joint:
            self._work.spend(len(firsts))
            times = next_on(beat, firsts)
            found.append(distinct(times[times <= lasts]))
        self._merge(np.concatenate(found))

    def _merge(self, times: Times) -> None:
        """Add those of `times` that may suit, with bounds on their worth."""
        times = np.setdiff1d(times, self._times)
        times = times[self._ground_at(times) >= 0]
        for first, last in self._excluded:
            times = times[(times < first) | (times > last)]
        bounds = self._worth[self._ground_at(times)]
        of_clusters = np.zeros((len(self._clusters), len(times)), bounds.dtype)
        enough = np.ones(len(times), dtype=bool)
        for number, cluster in enumerate(self._clusters):
            of_clusters[number], also = cluster.bound(times)
            bounds, enough = bounds + of_clusters[number], enough & also
        order = np.argsort(np.concatenate((self._times, times[enough])), kind="stable")
        self._times = np.concatenate((self._times, times[enough]))[order]
        self._bounds = np.concatenate((self._bounds, bounds[enough]))[order]
        both = np.concatenate((self._of_clusters, of_clusters[:, enough]), axis=1)
        self._of_clusters = both[:, order]

    def _ground_at(self, times: Times) -> Times:
        """Return the level of the ground in which each of `times` lies; -1 for none."""
        place = np.searchsorted(self._first, times, side="right") - 1
        if not len(self._first):
            return place
        return np.where((place >= 0) & (times <= self._last[place]), place, -1)

    def _look(self, start: int) -> None:
        """Find the true worth of `start`, and lower the bounds of all other starts by it."""
        self._work.spend(300 + len(self._times) // 10)
        total = int(self._worth[self._ground_at(np.array([start]))][0])
        picked: dict[int, tuple[str, ...]] = {}
        for number, cluster in enumerate(self._clusters):
            answer = cluster.served(start)
            if isinstance(answer, Shortage):
                self._learn(number, cluster, answer)
                self._keep(self._times != start)
                return
            place = np.searchsorted(self._times, start)
            lower = self._of_clusters[number, place] - answer.worth
            if lower:
                self._of_clusters[number, place] -= lower
                self._bounds[place] -= lower
                self._learn(number, cluster, answer)
            total += answer.worth
            for offers, names in zip(cluster.offers, answer.picked, strict=True):
                picked[offers.pick.number] = names
        self._found[start] = ScoredStart(start, picked, total)

    def _learn(self, number: int, cluster: CompetingPicks, answer: Assignment | Shortage) -> None:
        """Lower the bounds of all starts by the result for one."""
        cut = cluster.learned(answer)
        if cut is None:
            return
        self._work.spend(cut.steps(len(self._times)))
        before = self._of_clusters[number]
        every = np.ones(len(self._times), dtype=bool)
        after, enough = cut.applied(self._times, before, every)
        self._bounds = self._bounds - (before - after)
        self._of_clusters[number] = after
        self._keep(enough)

    def _keep(self, which: npt.NDArray[np.bool_]) -> None:
        self._times, self._bounds = self._times[which], self._bounds[which]
        self._of_clusters = self._of_clusters[:, which]


def named_levels(
    request: Request, term: Term, demand: Demand, free: Free, window: Range
) -> list[Level]:
    """Return the units that a growing `term` could have of its named resource, by start."""
    stage = stage_of(request, term)
    amounts: list[Level] | None = None
    for piece in added(demand.named[term.resource]):
        if not piece.overlaps(stage):
            continue
        others = piece.units - term.units
        steps = free.get(term.resource, ())
        of_piece = [
            (first, last, units - others)
            for first, last, units in levels(steps, piece, others + term.units_max, *window)
        ]
        amounts = of_piece if amounts is None else joined(amounts, of_piece, min)
    return amounts or []
