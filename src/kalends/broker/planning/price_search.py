"""The cheapest starts among those of the greatest weight, and starts within a budget.

The price of a stage is ``units * (C(end) - C(start))``, C being the sum of the rates so far: linear in the
start, with bends where a border of the price list meets the begin or the end of the stage. Between two
bends, and while nothing comes free or is taken, the cheapest choice of resources is the least of sums of
linear functions. That is concave, so it is least at the first or the last start of such a piece, on each
joint beat of the grains. No other start is looked at. Under a budget, the dearest starts of a piece lie
together (again because it is concave), so its border is found by halving.

Price lists are evaluated, not resources: a thousand resources have some dozens. A start has a bound for its
price (the cheapest lists, as many resources of each as are free); the exact choice is made only where the
bounds leave no better start. It is the choice of the greatest weight, of those the cheapest; and if that is
over a budget, the cheapest of all. Where terms compete for the same resources, the border of a budget is
taken from the bounds, and a start between two ends may be missed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kalends.broker.planning.assignment import Shortage, heaviest
from kalends.broker.planning.best_first_search import BestFirstSearch, Frontier
from kalends.broker.planning.demand import growing, stage_of
from kalends.broker.planning.price_lists import PriceLists
from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.start_arrays import StartCounts, Times, Worths, distinct, hits, next_on
from kalends.broker.planning.weights import Level, ScoredStart
from kalends.broker.planning.worth_bounds import CompetingPicks, PickOffers
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import site_of
from kalends.core.money import COST_MAX
from kalends.core.progressions import Beat
from kalends.core.requests import Request, Term
from kalends.core.spans import Stage, Step

_SAFE: Final = 1 << 61
PARTS_MAX: Final = 512
"""Parts of the time, in each of which the price of all starts has one bound at first."""

KNOWN_MAX: Final = 1_000
"""Prices of single starts that are remembered: many resources share a list."""

_FREE: Final = ""
"""The list of resources that cost nothing."""

Units = Callable[[int, str, int], int]
"""Return the units that the term of a number takes of a resource at a start."""


class PriceWishes(NamedTuple):
    """The budgets of a request, and whether it prefers low prices: `caps` are the most parts by site."""

    prices: PriceLists
    caps: Mapping[str, int]
    rates: Mapping[str, int]
    prefer: bool

    @classmethod
    def of(cls, request: Request, prices: PriceLists) -> PriceWishes | None:
        """Return None if prices decide nothing for `request`.

        Raises `InvalidInput` for credits of several owners that only the user could compare.
        """
        if not prices or not (request.prefer_price or request.at_most):
            return None
        caps, owners = dict(request.at_most), prices.owners()
        unknown = [site for site in owners if site not in request.rates]
        if request.prefer_price and len(owners) > 1 and unknown:
            raise InvalidInput(
                f"credits of {' and '.join(owners)} cannot be compared: nothing is exchanged between owners",
                where="rates",
                remedy=f"say what a credit of each is worth to you: --rate {_example(owners, '1')}",
            )
        if "" in caps and len(owners) > 1:
            raise InvalidInput(
                f"one budget for several owners that have prices: {', '.join(owners)}",
                where="at_most",
                remedy=f"give one for each: --at-most {_example(owners, '40')}",
            )
        if "" in caps:
            caps = dict.fromkeys(owners, caps[""])
        return cls(prices, caps, request.rates, request.prefer_price)

    def rate(self, site: str) -> int:
        """Return what a part of `site` is worth: without rates there is only one site with prices."""
        return self.rates.get(site, 1_000) if self.rates else 1


class _Curve:
    """The price of a unit by the start, from one list."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.edges = np.array([start for start, _, _ in steps], np.int64)
        self.dearest = max(rate for _, _, rate in steps)
        self._rates = np.array([rate for _, _, rate in steps], np.int64)
        self._sums = np.concatenate(([0], np.cumsum(np.diff(self.edges) * self._rates[:-1])))

    def at(self, times: Times, stage: Stage, units: int) -> Times:
        """Return what `units` cost at each start; a little more than a claim may cost, if it is more."""
        unit = self._until(times + stage.end_s) - self._until(times + stage.offset_s)
        return np.where(unit > COST_MAX // units, np.int64(COST_MAX + 1), unit * units)

    def bends(self, stage: Stage) -> Times:
        return np.concatenate((self.edges - stage.offset_s, self.edges - stage.end_s))

    def _until(self, times: Times) -> Times:
        place = np.maximum(np.searchsorted(self.edges, times, side="right") - 1, 0)
        found: Times = self._sums[place] + (times - self.edges[place]) * self._rates[place]
        return found


class _NamedCost(NamedTuple):
    """A named resource of a term: the least that it costs."""

    site: str
    curve: _Curve
    stage: Stage
    place: int
    resource: str


class _ListCount(NamedTuple):
    """Resources of one pick with the same prices, worth the same to the user: how many are free by start."""

    sites: frozenset[str]
    curve: _Curve | None
    rate: int
    """What the user counts a part as; 0 if free of charge."""
    cap: int
    """The least budget of the sites; -1: none."""
    free: StartCounts
    number: int


class PriceSearch(BestFirstSearch):
    """A search of the starts of one alternative by weight, price and time, or within a budget."""

    spending: PriceWishes
    units_at: Units

    def spend_by(self, spending: PriceWishes, units_at: Units) -> PriceSearch:
        """Return itself, told what it may spend; `units_at` says how large a growing amount is at a start."""
        self.spending, self.units_at = spending, units_at
        return self

    def _frontier_of(
        self,
        ground: Sequence[Level],
        of_picks: Sequence[CompetingPicks],
        joint: Collection[Beat],
        dtype: npt.DTypeLike,
    ) -> Frontier:
        curves = {
            name: _Curve(steps) for name, steps in self.spending.prices.lists.items() if steps
        }
        terms = self._alternative.terms
        stages = [stage_of(self._request, term) for term in terms]
        costs = _Costs(terms, stages, of_picks, curves, self.spending, self.units_at, self._work)
        for number, term in enumerate(terms):
            if growing(term):
                picked = [pick.names for pick in self.demand.picks if pick.number == number]
                for name in (term.resource, *chain.from_iterable(picked)):
                    costs.borders += self._changes(name, stages[number])
        return PricedFrontier(ground, of_picks, joint, dtype, self._work, costs)

    def _changes(self, name: str, stage: Stage) -> list[Times]:
        """Return the starts at which the free units under `stage` may change."""
        edges = np.array([step[:2] for step in self._free.get(name, ())], np.int64).reshape(-1)
        return [edges - stage.offset_s, edges - stage.end_s, edges - stage.end_s + 1]


class _Costs:
    """The price of the alternative of a search, by start: bounds for many, and exactly for one choice."""

    def __init__(
        self,
        terms: Sequence[Term],
        stages: Sequence[Stage],
        of_picks: Sequence[CompetingPicks],
        curves: Mapping[str, _Curve],
        spending: PriceWishes,
        units_at: Units,
        work: Work,
    ) -> None:
        self.spending, self._units_at, self._terms = spending, units_at, terms
        self._curves, self._work = curves, work
        of = spending.prices.of
        self._known: dict[tuple[_Curve, Stage, int, int], int] = {}
        self.borders: list[Times] = []
        """Further starts at which prices change: amounts that grow there."""
        self._named = [
            _NamedCost(site_of(term.resource), curve, stages[place], place, term.resource)
            for place, term in enumerate(terms)
            if term.resource and (curve := curves.get(of.get(term.resource, _FREE)))
        ]
        self._picks = [
            (offers, self._by_list(offers)) for cluster in of_picks for offers in cluster.offers
        ]
        sites = {each.site for each in self._named}
        for offers, _ in self._picks:
            of_pick = {site_of(name) for name in offers.pick.names}
            sites |= of_pick if len(of_pick) == 1 else set()
        dearest = max((each.dearest for each in curves.values()), default=0)
        most = sum(
            term.count * min(COST_MAX + 1, dearest * stage.length_s * term.units)
            for term, stage in zip(terms, stages, strict=True)
        )
        most *= max([1, *spending.rates.values()])
        self.dtype: npt.DTypeLike = np.int64 if most < _SAFE else object
        self.capped = sorted(site for site in sites if site in self.spending.caps)

    def bends(self) -> Times:
        found = [*self.borders, *(each.curve.bends(each.stage) for each in self._named)]
        for offers, lists in self._picks:
            found += [each.curve.bends(offers.pick.stage) for each in lists if each.curve]
        return distinct(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def bound(self, times: Times) -> Worths:
        """Return the least that each start can cost, by the user's rates."""
        return self._bound(times, "")

    def bound_at(self, site: str, times: Times) -> Worths:
        """Return the least that each start can cost at `site`."""
        return self._bound(times, site)

    def affordable(self, times: Times) -> npt.NDArray[np.bool_]:
        """Return where each pick has enough resources that alone are within the budget of their site."""
        enough = np.ones(len(times), bool)
        for offers, lists in self._picks:
            units = self._terms[offers.pick.number].units
            total = np.zeros(len(times), np.int64)
            for each in lists:
                self._work.spend(300 + each.free.steps(len(times)) + len(times))
                free = np.asarray(each.free.at(times), np.int64)
                if each.curve is not None and each.cap >= 0:
                    free = np.where(
                        each.curve.at(times, offers.pick.stage, units) <= each.cap, free, 0
                    )
                total = total + free
            enough &= total >= offers.pick.wanted
        return enough

    def least(self, edges: Times) -> Worths:
        """Return the least price of a start between each two `edges`, whatever is free then."""
        total: Worths = np.zeros(len(edges) - 1, self.dtype)
        for each in self._named:
            units = self._terms[each.place].units
            cost = self._least_of(each.curve, each.stage, units, edges)
            total = total + cost.astype(self.dtype) * self.spending.rate(each.site)
        for offers, lists in self._picks:
            term, costs = self._terms[offers.pick.number], []
            for of_list in lists:
                some = np.zeros(len(edges) - 1, np.int64)
                if of_list.curve is not None:
                    some = self._least_of(of_list.curve, offers.pick.stage, term.units, edges)
                costs.append(some.astype(self.dtype) * of_list.rate)
            numbers = [np.full(len(edges) - 1, each.number, np.int64) for each in lists]
            total = total + _of_cheapest(costs, numbers, offers.pick.wanted)
        return total

    def _least_of(self, curve: _Curve, stage: Stage, units: int, edges: Times) -> Times:
        """Return the least price between each two `edges`: it lies at one of them, or at a bend."""
        bends = curve.bends(stage)
        bends = bends[(bends > edges[0]) & (bends < edges[-1])]
        times = np.sort(np.concatenate((edges, bends)))
        self._work.spend(3 * len(times))
        costs = curve.at(times, stage, units)
        least: Times = np.minimum(
            np.minimum.reduceat(costs, np.searchsorted(times, edges[:-1])),
            curve.at(edges[1:], stage, units),
        )
        return least

    def _bound(self, times: Times, site: str) -> Worths:
        """Return the least that each start costs: at `site`, or at all sites by the user's rates."""
        self._work.spend(3 * len(times) * len(self._named))
        total: Worths = np.zeros(len(times), self.dtype)
        for each in self._named:
            if site in ("", each.site):
                cost = each.curve.at(times, each.stage, self._terms[each.place].units)
                rate = 1 if site else self.spending.rate(each.site)
                total = total + cost.astype(self.dtype) * rate
        for offers, lists in self._picks:
            if site and any(site_of(name) != site for name in offers.pick.names):
                continue  # Others may serve instead: only the choice itself shows what it costs here.
            pick, costs, counts = offers.pick, [], []
            for of_list in lists:
                self._work.spend(300 + of_list.free.steps(len(times)) + 2 * len(times))
                some = np.zeros(len(times), np.int64)
                if of_list.curve is not None:
                    some = of_list.curve.at(times, pick.stage, self._terms[pick.number].units)
                costs.append(some.astype(self.dtype) * (1 if site else of_list.rate))
                free = np.asarray(of_list.free.at(times), np.int64)
                counts.append(np.broadcast_to(free, (len(times),)))
            total = total + _of_cheapest(costs, counts, pick.wanted)
        return total

    def of_choice(self, start: int, picked: Mapping[int, Sequence[str]]) -> dict[str, int]:
        """Return what a choice costs at each site."""
        found: dict[str, int] = defaultdict(int)
        for each in self._named:
            units = self._units_at(each.place, each.resource, start)
            found[each.site] += self._one(each.curve, each.stage, units, start)
        for offers, _ in self._picks:
            for name in picked[offers.pick.number]:
                found[site_of(name)] += self.of_one(offers, name, start)
        return found

    def of_one(self, offers: PickOffers, name: str, start: int) -> int:
        curve = self._curves.get(self.spending.prices.of.get(name, _FREE))
        if curve is None:
            return 0
        self._work.spend(10)
        units = self._units_at(offers.pick.number, name, start)
        return self._one(curve, offers.pick.stage, units, start)

    def _one(self, curve: _Curve, stage: Stage, units: int, start: int) -> int:
        key = curve, stage, units, start
        if key not in self._known:
            self._work.spend(200)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = int(curve.at(np.array([start]), stage, units)[0])
        return self._known[key]

    def _by_list(self, offers: PickOffers) -> list[_ListCount]:
        """Return the resources of a pick by price: the same list, worth and budget count as one."""
        groups: dict[tuple[_Curve | None, int, int], list[int]] = {}
        for place, name in enumerate(offers.pick.names):
            site = site_of(name)
            curve = self._curves.get(self.spending.prices.of.get(name, _FREE))
            rate = self.spending.rate(site) if curve else 0
            cap = self.spending.caps.get(site, -1) if curve else -1
            groups.setdefault((curve, rate, cap), []).append(place)
        of_owner = np.zeros(len(offers.pick.names), np.int64)
        for number, places in enumerate(groups.values()):
            of_owner[places] = number
        of_piece = of_owner[offers.pieces.owner] if len(of_owner) else offers.pieces.owner
        found = []
        for number, ((curve, rate, cap), places) in enumerate(groups.items()):
            which = np.flatnonzero(of_piece == number)
            ones = np.ones(len(which), np.int64)
            counts = StartCounts(offers.pieces.kept(which), offers.beats, ones)
            sites = frozenset(site_of(offers.pick.names[place]) for place in places)
            found.append(_ListCount(sites, curve, rate, cap, counts, len(places)))
        return found


def _of_cheapest(costs: Sequence[Worths], counts: Sequence[Times], wanted: int) -> Worths:
    """Return the sum of the `wanted` least of `costs` at each start, of each as many as it counts."""
    every, free = np.stack(costs), np.stack(counts)
    order = np.argsort(every, axis=0, kind="stable")
    every, free = np.take_along_axis(every, order, 0), np.take_along_axis(free, order, 0)
    taken = np.diff(np.minimum(np.cumsum(free, axis=0), wanted), axis=0, prepend=0)
    total: Worths = (taken.astype(every.dtype) * every).sum(axis=0)
    return total


class PricedFrontier(Frontier):
    """The starts that need to be tried, with bounds on weight and price."""

    def __init__(
        self,
        ground: Sequence[Level],
        of_picks: Sequence[CompetingPicks],
        joint: Collection[Beat],
        dtype: npt.DTypeLike,
        work: Work,
        costs: _Costs,
    ) -> None:
        self._spent = costs
        self._exact: dict[int, int] = {}
        """The prices of those that were looked at."""
        self._price: Worths = np.zeros(0, costs.dtype)
        self._refined: npt.NDArray[np.bool_] = np.zeros(0, bool)
        """Whether the price of a start is bound by what is free there."""
        self._refined_next = PARTS_MAX
        super().__init__(ground, of_picks, joint, dtype, work)

    def best(self) -> ScoredStart | None:
        while len(self._times):
            self._work.spend(len(self._times) // 10)
            best = np.flatnonzero(self._bounds == self._bounds.max())
            among = best[self._price[best] == self._price[best].min()]
            place = int(among[0])
            if not self._refined[place]:
                self._refine(best[~self._refined[best]])
                continue
            start = int(self._times[place])
            if start in self._found:
                return self._found[start]
            self._look(start)
        return None

    def exclude(self, first: int, last: int) -> None:
        super().exclude(first, last)
        self._merge(self._ends(np.array([first - 1])))
        self._begin_anew()

    def _add(self, firsts: Times, lasts: Times) -> None:
        """Add the first and last start of each piece between two bends, on every joint beat."""
        bends = self._spent.bends()
        begins, ends = (
            np.concatenate((firsts, lasts + 1, bends)),
            np.concatenate((lasts, firsts - 1, bends)),
        )
        self._work.spend(len(self._joint) * (len(begins) + len(ends)))
        first = [distinct(next_on(beat, begins)) for beat in self._joint]
        self._merge(np.concatenate((*first, self._ends(ends))))
        self._mark_borders()
        self._begin_anew()

    def _ends(self, borders: Times) -> Times:
        """Return the last start on each joint beat that is not after a border."""
        beats = [borders - (borders - beat.remainder) % beat.modulus for beat in self._joint]
        return distinct(np.concatenate(beats))

    def _begin_anew(self) -> None:
        """Bound the price of each start by the least in its part of the time; refined when it matters."""
        number = len(self._times)
        self._price = np.zeros(number, self._spent.dtype)
        self._refined = np.zeros(number, bool)
        if not number:
            return
        if self._spent.spending.prefer:
            parts = min(PARTS_MAX, int(self._times[-1] - self._times[0]) + 1)
            edges = np.linspace(self._times[0], self._times[-1] + 1, parts + 1).astype(np.int64)
            part = np.searchsorted(edges, self._times, side="right") - 1
            self._price = self._spent.least(edges)[part]
        for start, price in self._exact.items():
            place = int(np.searchsorted(self._times, start))
            if place < number and self._times[place] == start:
                self._price[place], self._refined[place] = price, True

    def _refine(self, places: Times) -> None:
        """Bound the price at the first of `places` by the free resources; drop starts beyond a budget.

        Each time at twice as many: a few steps with arrays are dearer than their numbers.
        """
        places = places[np.argsort(self._price[places], kind="stable")[: self._refined_next]]
        self._refined_next *= 2
        self._refined[places] = True
        times = self._times[places]
        if self._spent.spending.prefer:
            self._price[places] = self._spent.bound(times)
        if self._spent.spending.caps:
            kept = np.ones(len(self._times), bool)
            kept[places] = self._spent.affordable(times)
            self._keep(kept)

    def _mark_borders(self) -> None:
        """Add the starts next to which a budget begins or ends to suffice; drop those beyond it."""
        for site in self._spent.capped:
            cap = self._spent.spending.caps[site]
            for beat in self._joint:
                times = self._times[hits(beat, self._times)]
                if len(times) < 2:
                    continue
                beyond = self._spent.bound_at(site, times) > cap
                turns = np.flatnonzero(beyond[1:] != beyond[:-1])
                if len(turns):
                    self._halve(site, cap, beat, times[turns], times[turns + 1], beyond[turns])
            super()._keep(self._spent.bound_at(site, self._times) <= cap)

    def _halve(
        self, site: str, cap: int, beat: Beat, low: Times, high: Times, beyond: npt.NDArray[Any]
    ) -> None:
        """Add both starts next to each border from `low`, which is `beyond` or not, to `high`."""
        while ((high - low) > beat.modulus).any():
            middle = low + (high - low) // beat.modulus // 2 * beat.modulus
            like_low = (self._spent.bound_at(site, middle) > cap) == beyond
            low, high = np.where(like_low, middle, low), np.where(like_low, high, middle)
        self._merge(np.concatenate((low, high)))

    def _look(self, start: int) -> None:
        """Choose at `start`: by weight, then price; if that is too dear, by price alone; else drop it."""
        self._work.spend(300 + len(self._times) // 10)
        ground = int(self._worth[self._ground_at(np.array([start]))][0])
        place = int(np.searchsorted(self._times, start))
        for by_weight in (True, False):
            chosen = self._chosen(start, by_weight=by_weight)
            if chosen is None:
                break
            worth, picked = chosen
            costs = self._spent.of_choice(start, picked)
            if all(costs.get(site, 0) <= cap for site, cap in self._spent.spending.caps.items()):
                spending = self._spent.spending
                cost = sum(parts * spending.rate(site) for site, parts in costs.items())
                cost = cost if spending.prefer else 0
                self._bounds[place] = ground + worth
                self._price[place] = self._exact[start] = cost
                self._found[start] = ScoredStart(start, picked, ground + worth, cost)
                return
        self._keep(self._times != start)

    def _chosen(
        self, start: int, *, by_weight: bool
    ) -> tuple[int, dict[int, tuple[str, ...]]] | None:
        total, picked = 0, dict[int, tuple[str, ...]]()
        spending = self._spent.spending
        for cluster in self._clusters:
            worths = [offers.at(start) for offers in cluster.offers]
            values = []
            for offers, of_name in zip(cluster.offers, worths, strict=True):
                costs = {name: self._spent.of_one(offers, name, start) for name in of_name}
                values.append((of_name, costs))
            weigh = spending.rate if by_weight and spending.prefer else _share_of(spending.caps)
            scale = 1 + 2 * sum(
                cost * weigh(site_of(name)) for _, costs in values for name, cost in costs.items()
            )
            answer = heaviest(
                [offers.pick.wanted for offers in cluster.offers],
                [
                    {
                        name: (worth * scale if by_weight else 0)
                        - costs[name] * weigh(site_of(name))
                        for name, worth in of_name.items()
                    }
                    for of_name, costs in values
                ],
                self._work,
            )
            if isinstance(answer, Shortage):
                return None
            for offers, of_name, names in zip(cluster.offers, worths, answer.picked, strict=True):
                picked[offers.pick.number] = names
                total += sum(of_name[name] for name in names)
        return total, picked

    def _keep(self, which: npt.NDArray[np.bool_]) -> None:
        super()._keep(which)
        if len(self._price) == len(which):
            self._price, self._refined = self._price[which], self._refined[which]


def _example(owners: Sequence[str], amount: str) -> str:
    return ",".join(f"{site}={amount}" for site in owners)


def _share_of(caps: Mapping[str, int]) -> Callable[[str], int]:
    """Return the weight of a part at each site: the share of the budget that it takes."""
    return lambda site: (1 << 64) // max(caps[site], 1) if site in caps else 0
