"""The best common starts of a request, proven over all its alternatives.

Pure: the resources' descriptions and their free steps are handed in. Nothing here is a promise;
others may book meanwhile, and each site decides for itself. What suits at all: `demand`; why the
searches miss nothing: `sweep` where every start of an alternative is worth the same,
`best_first_search` where starts differ.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kalends.broker.planning.best_first_search import BestFirstSearch, named_levels
from kalends.broker.planning.demand import (
    Catalogue,
    Demand,
    Free,
    Infos,
    candidates,
    demand_of,
    growing,
    shown_in,
    stage_of,
    start_window,
    within_windows,
)
from kalends.broker.planning.earliest_search import EarliestSearch
from kalends.broker.planning.price_lists import NOTHING_PRICED, PriceLists
from kalends.broker.planning.price_search import PriceSearch, PriceWishes
from kalends.broker.planning.search_budget import Work
from kalends.broker.planning.start_arrays import FreeArrays
from kalends.broker.planning.start_ranges import levels
from kalends.broker.planning.weights import Level, Scale, ScoredStart, time_levels
from kalends.contract.messages import Want
from kalends.core.errors import InvalidInput
from kalends.core.permitted_starts import permitted_starts, preferred_times
from kalends.core.requests import (
    Request,
    Term,
    TimePreference,
    has_windows,
    span_of,
    term_interval,
)
from kalends.core.spans import Range

__all__ = [
    "Free",
    "Infos",
    "Key",
    "Plan",
    "candidates",
    "executable",
    "fixed_start",
    "fixed_wants",
    "plan",
]

Key = tuple[int, int]
"""The number of an alternative, and a common start of it."""


class Plan(NamedTuple):
    """A common start, the end of the last stage, and a `Want` for each stage.

    `weight` is the sum of all that the preferences are worth here: of the alternative, of the windows
    that the start or a stage's begin lies in, of the attributes of each picked resource, of each
    amount. It is added exactly, and told as the nearest float. `costs` are the parts that it costs at each
    site with prices: they are never added up.
    """

    start: int
    end: int
    wants: tuple[Want, ...]
    alternative: int = 0
    weight: float = 0.0
    costs: Mapping[str, int] = {}

    @property
    def key(self) -> Key:
        return self.alternative, self.start


def executable(request: Request) -> None:
    """Raise `InvalidInput` for preferences and alternatives, which an agent cannot weigh."""
    if not request.agent:
        return
    remedy = "leave the agent out, or prefer in its script"
    if len(request.alternatives) > 1:
        raise _not_for_agents(
            "alternatives", "several alternatives", "ask for the alternatives one by one"
        )
    if request.preferences:
        raise _not_for_agents("preferences", "preferences among times", remedy)
    if has_windows(request.alternatives[0]):
        raise _not_for_agents(
            "alternatives[0].windows",
            "windows of terms",
            "leave the agent out, or give the request one window",
        )
    for number, term in enumerate(request.alternatives[0].terms):
        where = f"alternatives[0].terms[{number}]"
        if term.units_max > term.units:
            amount = f"the amount {term.units}..{term.units_max}"
            raise _not_for_agents(
                f"{where}.units_max", amount, f"ask for a fixed amount, such as {term.units}"
            )
        if term.preferred:
            raise _not_for_agents(f"{where}.preferred", "preferred attributes", remedy)


def plan(
    request: Request,
    infos: Infos,
    free: Free,
    *,
    count: int = 1,
    excluded: Collection[Key] = (),
    work: Work | None = None,
    prices: PriceLists = NOTHING_PRICED,
) -> list[Plan]:
    """Return at most `count` plans, best first, none with its key in `excluded`.

    The first is the best that there is: of the greatest weight, of those the earliest, of those the
    first alternative. Each further one is the best of those that share no time with any plan of the
    same alternative before it, so that the plans are real alternatives: other times, or other
    resources. Without weights and alternatives they ascend. If the request prefers what is cheap, the least
    price counts before the time; what is beyond its budget is no plan. `prices` are those of all resources.

    Which resources are picked depends on nothing but the input; of equal worth, earlier names are
    preferred. An amount that may grow is as large as it can be at that start, unless its weight is
    negative. A resource without an entry in `free` counts as taken. Raises `InvalidInput` when grains
    fit together in too many ways to be searched, and `TooMuchWork` when there is more to be weighed
    than `work` (None: as much as one search may do) allows.
    """
    scale = Scale(request)
    spending = PriceWishes.of(request, prices)
    searches = _searches(request, infos, free, excluded, scale, work or Work(), spending)
    waiting: list[tuple[int, int, int, int, ScoredStart | None]] = [
        (-search.bound, 0, search.earliest, number, None) for number, search in searches.items()
    ]
    heapq.heapify(waiting)
    plans: list[Plan] = []
    while waiting and len(plans) < count:
        _, _, _, number, found = heapq.heappop(waiting)
        search = searches[number]
        if found is None:
            if (best := search.best()) is not None:
                heapq.heappush(waiting, (-best.worth, best.cost, best.start, number, best))
            continue
        weight = scale.told(found.worth)
        made = _plan_at(request, number, search.demand, free, found, weight)
        plans.append(made._replace(costs=prices.costs(made.wants)) if prices else made)
        begin_s, end_s = span_of(request, request.alternatives[number])
        search.exclude(found.start - (end_s - begin_s) + 1, found.start + (end_s - begin_s) - 1)
        heapq.heappush(waiting, (-found.worth, found.cost, search.earliest, number, None))
    return plans


class _Search(Protocol):
    """A lazy search of the starts of one alternative that are left."""

    demand: Demand
    bound: int
    """What no start is worth more than."""

    @property
    def earliest(self) -> int:
        """A lower bound on the starts that are left."""
        ...

    def best(self) -> ScoredStart | None: ...

    def exclude(self, first: int, last: int) -> None: ...


def _searches(
    request: Request,
    infos: Infos,
    free: Free,
    excluded: Collection[Key],
    scale: Scale,
    work: Work,
    spending: PriceWishes | None,
) -> dict[int, _Search]:
    """Return a search for each alternative that could be met, by its number."""
    catalogue = Catalogue(infos, work)
    calendars = FreeArrays(infos, free, work)
    searches: dict[int, _Search] = {}
    for number, alternative in enumerate(request.alternatives):
        demand = demand_of(request, infos, number, catalogue)
        beat, window = demand.beat, start_window(request, number)
        short = any(len(pick.names) < pick.wanted for pick in demand.picks)
        if beat is None or window[0] > window[1] or short:
            continue
        demand = within_windows(demand, request, number, free, work)
        if demand.permitted is not None:
            if not demand.permitted:
                continue
            window = demand.permitted[0][0], demand.permitted[-1][1]
        work.spend(20 * sum(len(pick.names) for pick in demand.picks))
        times = _times_worth(request, number, free, scale, window, work)
        of_time = {worth for _, _, worth in times}
        if spending is not None:
            searches[number] = PriceSearch(
                request, number, demand, beat, window, infos, free, times, catalogue, scale,
                calendars, work,
            ).spend_by(spending, partial(_units_of, request, number, demand, free, work))  # fmt: skip
        elif len(of_time) == 1 and not any(_differing(term) for term in alternative.terms):
            worth = scale.of(alternative.weight) + of_time.pop()
            searches[number] = EarliestSearch(demand, beat, window, infos, free, worth, work)
        else:
            searches[number] = BestFirstSearch(
                request, number, demand, beat, window, infos, free, times, catalogue, scale,
                calendars, work,
            )  # fmt: skip
        for start in sorted(start for of, start in excluded if of == number):
            searches[number].exclude(start, start)
    return searches


def _times_worth(
    request: Request, number: int, free: Free, scale: Scale, window: Range, work: Work
) -> list[Level]:
    """Return what the starts in `window` are worth for their time, also to the terms of the alternative."""
    preferences: Sequence[TimePreference] = request.preferences
    if has_windows(request.alternatives[number]):
        shown = shown_in(request, free)
        preferences = preferred_times(request, number, *shown, work.spend)
    work.spend(20 * len(preferences))
    return time_levels(preferences, scale, *window)


def _differing(term: Term) -> bool:
    """Tell whether the worth of the term depends on what is free."""
    return bool(term.preferred) or (growing(term) and term.units_weight > 0)


def fixed_start(request: Request) -> int | None:
    """Return the common start if the window leaves one, the same for all; else None."""
    windows = {start_window(request, number) for number in range(len(request.alternatives))}
    first, last = windows.pop()
    return first if request.not_after and first == last and not windows else None


def fixed_wants(request: Request) -> tuple[Want, ...] | None:
    """Return the claims of a request that gives its start, resources and amounts."""
    start = fixed_start(request)
    if start is None or len(request.alternatives) > 1:
        return None
    terms = request.alternatives[0].terms
    if not all(term.resource and term.units_max <= term.units for term in terms):
        return None
    if permitted_starts(request, 0, request.not_before, request.not_after) == ():
        return None
    return _in_order([_want(request, term, term.resource, start, term.units) for term in terms])


def _plan_at(
    request: Request, number: int, demand: Demand, free: Free, found: ScoredStart, weight: float
) -> Plan:
    alternative, start = request.alternatives[number], found.start
    wants = []
    for place, term in enumerate(alternative.terms):
        names = (term.resource,) if term.resource else found.picked[place]
        for name in names:
            units = _units(request, term, name, demand, free, start)
            wants.append(_want(request, term, name, start, units))
    _, end_s = span_of(request, alternative)
    return Plan(start, start + end_s, _in_order(wants), number, weight)


def _units_of(
    request: Request, number: int, demand: Demand, free: Free, work: Work, place: int, name: str,
    start: int,
) -> int:  # fmt: skip
    term = request.alternatives[number].terms[place]
    if not growing(term):
        return term.units
    work.spend(50 + 3 * len(free.get(name, ())))
    return _units(request, term, name, demand, free, start)


def _units(request: Request, term: Term, name: str, demand: Demand, free: Free, start: int) -> int:
    """Return the units of `name` that the term takes: all that are free if more is better."""
    if not growing(term):
        return term.units
    if term.resource:
        ((_, _, units),) = named_levels(request, term, demand, free, (start, start))
    else:
        stage = stage_of(request, term)
        ((_, _, units),) = levels(free[name], stage, term.units_max, start, start)
    return units


def _want(request: Request, term: Term, resource: str, start: int, units: int) -> Want:
    stage = term_interval(request, term, start)
    return Want(resource=resource, start=stage.start, end=stage.end, units=units)


def _in_order(wants: list[Want]) -> tuple[Want, ...]:
    return tuple(sorted(wants, key=lambda want: (want.resource, want.start, want.end, want.units)))


def _not_for_agents(where: str, what: str, remedy: str) -> InvalidInput:
    return InvalidInput(f"an agent does not choose among {what}", where=where, remedy=remedy)
