"""Upper bounds on the worth of the picks of a request at very many starts at once.

Picks of one group that have resources in common form a *cluster*: only together can it be said who
serves whom. The bound of a cluster is the sum of what each pick would be worth if it were alone, and
that is exact where it is alone. Where picks compete the exact assignment at one start
(`kalends.broker.planning.assignment`) teaches a sharper bound for all starts: its prices, or the
terms that want more than there is (linear programming duality).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kalends.broker.planning.assignment import Assignment, Shortage, heaviest
from kalends.broker.planning.demand import Pick
from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.start_arrays import Pieces, StartCounts, Times, Worths, united
from kalends.core.progressions import EVERY_SECOND, Beat

CLASSES_MAX: Final = 32
"""Different worths that are counted apart; more are bounded by the greatest of several."""

Enough = npt.NDArray[np.bool_]


class PickOffers(NamedTuple):
    """The candidates of `pick`, their times and worths; `beats` by the place in its names."""

    pick: Pick
    beats: Sequence[Beat]
    pieces: Pieces
    worths: Worths

    def at(self, time_s: int) -> dict[str, int]:
        """Return the worth at `time_s` of each resource that can serve there."""
        pieces, names = self.pieces, self.pick.names
        over = np.flatnonzero((pieces.first <= time_s) & (pieces.last >= time_s))
        return {
            names[owner]: int(worth)
            for owner, worth in zip(pieces.owner[over], self.worths[over], strict=True)
            if self.beats[owner].hits(time_s)
        }


class CompetingPicks:
    """Picks that compete for resources, with bounds on their worth at any start."""

    def __init__(self, offers: Sequence[PickOffers], work: Work) -> None:
        self.offers = offers
        self._work = work
        work.spend(6 * sum(len(each.pieces.owner) for each in offers))
        self._alone = [_Alone(each) for each in offers]
        self._cuts: list[Cut] = []

    def bound(self, times: Times) -> tuple[Worths, Enough]:
        """Return a bound on the worth at each of `times`, and whether they may be served."""
        self._work.spend(sum(alone.steps(len(times)) for alone in self._alone))
        worth, enough = self._alone[0].at(times)
        for alone in self._alone[1:]:
            further, also = alone.at(times)
            worth, enough = worth + further, enough & also
        for cut in self._cuts:
            self._work.spend(cut.steps(len(times)))
            worth, enough = cut.applied(times, worth, enough)
        return worth, enough

    def served(self, time_s: int) -> Assignment | Shortage:
        """Return the best assignment at `time_s`."""
        wanted = [each.pick.wanted for each in self.offers]
        worths = [each.at(time_s) for each in self.offers]
        pieces = sum(len(each.pieces.owner) for each in self.offers)
        self._work.spend(pieces // 20 + 8 * sum(len(each) for each in worths))
        return heaviest(wanted, worths, self._work)

    def learned(self, answer: Assignment | Shortage) -> Cut | None:
        """Learn from the answer for one start; it counts in `bound` from now on."""
        if len(self.offers) == 1:
            return None
        self._work.spend(20 * sum(len(each.pieces.owner) for each in self.offers))
        cut: Cut
        if isinstance(answer, Assignment):
            cut = _Priced(self._resources, answer.prices)
        else:
            cut = _Short(self._resources, answer)
        self._cuts.append(cut)
        return cut

    @cached_property
    def _resources(self) -> _Resources:
        return _Resources(self.offers)


def clusters(offers: Iterable[PickOffers], work: Work) -> list[CompetingPicks]:
    """Return `offers` by group and common resources, shared directly or in a chain.

    What they are asked raises `TooMuchWork` when it is more than `work` allows.
    """
    found: list[tuple[int, set[str], list[PickOffers]]] = []
    for each in offers:
        names, members = set(each.pick.names), [each]
        apart = []
        for group, others, of_others in found:
            if group == each.pick.group and names & others:
                names |= others
                members = of_others + members
            else:
                apart.append((group, others, of_others))
        found = [*apart, (each.pick.group, names, members)]
    return [CompetingPicks(members, work) for _, _, members in found]


class Cut(Protocol):
    """A bound that holds at every start."""

    def applied(self, times: Times, worth: Worths, enough: Enough) -> tuple[Worths, Enough]:
        """Return `worth` and `enough` at `times`, lowered to this bound."""
        ...

    def steps(self, number: int) -> int:
        """Return the work of `applied` for `number` times."""
        ...


class _Alone:
    """A bound for one pick: the best that are free, by class of worth."""

    def __init__(self, offers: PickOffers) -> None:
        self._wanted = offers.pick.wanted
        self._dtype = offers.worths.dtype
        self._classes = []
        distinct = sorted(set(offers.worths.tolist()), reverse=True)
        parts = np.array_split(np.arange(len(distinct)), min(len(distinct), CLASSES_MAX) or 1)
        for part in parts:
            if not len(part):
                continue
            most, least = distinct[part[0]], distinct[part[-1]]
            which = np.flatnonzero((offers.worths <= most) & (offers.worths >= least))
            ones = np.ones(len(which), dtype=np.int64)
            self._classes.append((most, StartCounts(offers.pieces.kept(which), offers.beats, ones)))

    def steps(self, number: int) -> int:
        return sum(tally.steps(number) for _, tally in self._classes)

    def at(self, times: Times) -> tuple[Worths, Enough]:
        worth = np.zeros(len(times), dtype=self._dtype)
        lacking = np.full(len(times), self._wanted, dtype=np.int64)
        for of_class, tally in self._classes:
            taken = np.minimum(tally.at(times), lacking)
            lacking -= taken
            worth = worth + taken.astype(self._dtype) * of_class
        return worth, lacking == 0


class _Resources:
    """The resources of competing picks, numbered over all of them."""

    def __init__(self, offers: Sequence[PickOffers]) -> None:
        self.wanted = [each.pick.wanted for each in offers]
        self.dtype = offers[0].worths.dtype
        names = sorted({name for each in offers for name in each.pick.names})
        numbers = {name: number for number, name in enumerate(names)}
        self.number = len(names)
        self.beats: list[Beat | None] = [None] * len(names)
        self.pieces: list[Pieces] = []
        self.greatest: list[Worths] = []
        """For each pick the most that each resource is ever worth to it."""
        self.ever: list[npt.NDArray[Any]] = []
        for each in offers:
            of_name = np.array([numbers[name] for name in each.pick.names], dtype=np.int64)
            owner = of_name[each.pieces.owner] if len(of_name) else each.pieces.owner
            self.pieces.append(each.pieces._replace(owner=owner))
            greatest: dict[int, int] = {}
            for number, worth in zip(owner.tolist(), each.worths.tolist(), strict=True):
                greatest[number] = max(worth, greatest.get(number, worth))
            self.greatest.append(
                np.array([greatest.get(n, 0) for n in range(self.number)], self.dtype)
            )
            self.ever.append(np.array([n in greatest for n in range(self.number)], dtype=bool))
            for name, beat in zip(each.pick.names, each.beats, strict=True):
                known = self.beats[numbers[name]]
                self.beats[numbers[name]] = beat if known in (None, beat) else EVERY_SECOND

    def tally(self, values: Mapping[int, Worths]) -> StartCounts:
        """Return, by start, the sum of each resource's greatest value to a pick.

        `values` has, for some of the picks, one value for each resource, none below zero.
        """
        greatest = np.zeros(self.number, dtype=self.dtype)
        used = []
        for place, of_pick in values.items():
            some = self.ever[place] & (of_pick > 0)
            greatest = np.where(some, np.maximum(greatest, of_pick), greatest)
            used.append(self.pieces[place].kept(np.flatnonzero(some[self.pieces[place].owner])))
        together = united(Pieces(*(np.concatenate(parts) for parts in zip(*used, strict=True))))
        beats = [beat or EVERY_SECOND for beat in self.beats]
        return StartCounts(together, beats, greatest[together.owner])


class _Priced:
    """A bound by the prices of an assignment: prices and excesses together."""

    def __init__(self, resources: _Resources, prices: Sequence[int]) -> None:
        self._paid = sum(
            wanted * price for wanted, price in zip(resources.wanted, prices, strict=True)
        )
        self._excess = resources.tally(
            {place: resources.greatest[place] - price for place, price in enumerate(prices)}
        )

    def steps(self, number: int) -> int:
        return self._excess.steps(number)

    def applied(self, times: Times, worth: Worths, enough: Enough) -> tuple[Worths, Enough]:
        return np.minimum(worth, self._paid + self._excess.at(times)), enough


class _Short:
    """A bound by terms that together want more resources than there may be."""

    def __init__(self, resources: _Resources, shortage: Shortage) -> None:
        self._wanted = sum(resources.wanted[term] for term in shortage.terms)
        ones = np.ones(resources.number, dtype=resources.dtype)
        self._number = resources.tally(dict.fromkeys(shortage.terms, ones))

    def steps(self, number: int) -> int:
        return self._number.steps(number)

    def applied(self, times: Times, worth: Worths, enough: Enough) -> tuple[Worths, Enough]:
        return worth, enough & (self._number.at(times) >= self._wanted)
