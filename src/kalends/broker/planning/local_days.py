"""Plans for resources whose grain a clock change disturbs, such as whole days: made in their local time.

There days are all as long, and two of them end at a midnight. So what is free, the window and the preferences
are told in local time, the request is planned as ever, and the slots are told in UTC again. A resource with
another such clock has another plan; one whose grain no change disturbs has its place in each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from zoneinfo import ZoneInfo

from msgspec import structs

from kalends.broker.planning import planner
from kalends.broker.planning.demand import shown_in
from kalends.broker.planning.planner import Free, Infos, Key, Plan
from kalends.broker.planning.price_lists import NOTHING_PRICED, PriceLists, compared
from kalends.broker.planning.search_budget import Work
from kalends.contract.messages import Want
from kalends.core.grains import clock_of, grain_of
from kalends.core.intervals import Interval
from kalends.core.local_clocks import first_shown, shown_by
from kalends.core.permitted_starts import spelled_out, with_windows
from kalends.core.requests import DAY_S, Request, TimePreference, has_windows
from kalends.core.resources import ResourceInfo
from kalends.core.spans import Step
from kalends.core.windows import Daily, TimeWindow


@dataclass(frozen=True)
class LocalTime:
    """The time of the clock of `zone`, as planners see it: resources with that clock are in UTC then."""

    zone: ZoneInfo

    def of(self, time_s: int) -> int:
        """Return the first local time that is not before `time_s`."""
        local_s = shown_by(time_s, self.zone)
        return local_s if first_shown(local_s, self.zone) >= time_s else local_s + 1

    def steps(self, steps: Iterable[Step]) -> tuple[Step, ...]:
        local = ((self.of(a), shown_by(b, self.zone), units) for a, b, units in steps)
        return tuple(step for step in local if step[0] < step[1])

    def infos(self, infos: Infos) -> dict[str, ResourceInfo]:
        """Return the resources that can be planned in this time."""
        own = clock_of(self.zone.key)
        return {
            name: info if not is_disturbed(info) else structs.replace(info, zone="UTC")
            for name, info in infos.items()
            if not is_disturbed(info) or clock_of(info.zone) == own
        }

    def request(self, request: Request) -> Request:
        """Return `request` in this time; its windows are spelled out."""
        return structs.replace(
            request,
            alternatives=with_windows(request.alternatives, self._windows),
            not_before=self.of(request.not_before),
            not_after=shown_by(request.not_after, self.zone) if request.not_after else 0,
            preferences=tuple(
                TimePreference(start=self.of(each.start), end=self.of(each.end), weight=each.weight)
                for each in request.preferences
            ),
        )

    def wants(self, wants: Iterable[Want]) -> tuple[Want, ...]:
        return tuple(
            structs.replace(
                want, start=shown_by(want.start, self.zone), end=shown_by(want.end, self.zone)
            )
            for want in wants
        )

    def in_utc(self, wants: Iterable[Want]) -> tuple[Want, ...]:
        """Return the opposite of `wants`."""
        return tuple(
            structs.replace(
                want, start=first_shown(want.start, self.zone), end=first_shown(want.end, self.zone)
            )
            for want in wants
        )

    def _windows(self, window: TimeWindow) -> Iterator[Interval]:
        assert not isinstance(window, Daily), "clock times are spelled out in UTC"
        shown = Interval(self.of(window[0]), shown_by(window[1], self.zone))
        if shown.start < shown.end:
            yield shown


def is_disturbed(info: ResourceInfo) -> bool:
    """Whether a clock change disturbs the grain of a resource."""
    return grain_of(info).zone is not None


def local_times(infos: Infos, names: Iterable[str]) -> list[LocalTime]:
    """Return the clocks that disturb the grains of `names`, each once."""
    zones = {
        clock_of(grain.zone.key): grain.zone
        for name in names
        if name in infos and (grain := grain_of(infos[name])).zone is not None
    }
    return [LocalTime(zone) for zone in zones.values()]


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
    """Do the same as `planner.plan`, also for resources whose grain a clock change disturbs."""
    clocks = local_times(infos, free)
    if not clocks:
        return planner.plan(
            request, infos, free, count=count, excluded=excluded, work=work, prices=prices
        )
    if any(map(has_windows, request.alternatives)):
        shown = shown_in(request, free)
        request = structs.replace(request, alternatives=spelled_out(request.alternatives, *shown))
    calm = {name: info for name, info in infos.items() if not is_disturbed(info)}
    found = planner.plan(
        request, calm, free, count=count, excluded=excluded, work=work, prices=prices
    )
    for clock in clocks:
        found += _plans_in(clock, request, infos, free, count, excluded, work, prices)
    found.sort(key=partial(_rank, request))
    best: list[Plan] = []
    for each in found:
        if not any(_share_time(each, other) for other in best):
            best.append(each)
    return best[:count]


def _plans_in(
    clock: LocalTime,
    request: Request,
    infos: Infos,
    free: Free,
    count: int,
    excluded: Collection[Key],
    work: Work | None,
    prices: PriceLists,
) -> list[Plan]:
    local = {name: tuple(clock.steps(steps)) for name, steps in prices.lists.items()}
    found = planner.plan(
        clock.request(request),
        clock.infos(infos),
        {name: clock.steps(steps) for name, steps in free.items()},
        count=count,
        excluded=[(number, shown_by(start, clock.zone)) for number, start in excluded],
        work=work,
        prices=PriceLists(prices.of, local),
    )
    told = []
    for each in found:
        wants = clock.in_utc(each.wants)
        start, end = first_shown(each.start, clock.zone), first_shown(each.end, clock.zone)
        if all(want.start < want.end for want in wants):
            costs = prices.costs(wants)
            if any(cost > _cap(request, site, cost) for site, cost in costs.items()):
                continue  # In local time a day has always 24 hours: the search has a price for those.
            told.append(each._replace(start=start, end=end, wants=wants, costs=costs))
    return told


def _cap(request: Request, site: str, cost: int) -> int:
    """Return the budget for `site`; one without a name is for the only owner, and without any `cost` fits."""
    return request.at_most.get(site, request.at_most.get("", cost))


def _rank(request: Request, found: Plan) -> tuple[float, int, int, int]:
    cost = compared(found.costs, request) if request.prefer_price else 0
    return -found.weight, cost, found.start, found.alternative


def _share_time(one: Plan, other: Plan) -> bool:
    times = (one.start < other.end, other.start < one.end, one.alternative == other.alternative)
    return all(times)


def fixed_in_days(
    request: Request, infos: Mapping[str, ResourceInfo]
) -> tuple[Request, tuple[Want, ...] | None]:
    """Return `request` with the end that its fixed start means, and its slots as `planner.fixed_wants`.

    Where it names what a clock change disturbs, what begins at a midnight and lasts a day ends at the next,
    23 to 25 hours later.
    """
    terms = chain.from_iterable(each.terms for each in request.alternatives)
    clocks = local_times(infos, sorted({term.resource for term in terms if term.resource}))
    if planner.fixed_start(request) is None or len(clocks) != 1:
        return request, planner.fixed_wants(request)
    (clock,) = clocks
    first = shown_by(request.not_before, clock.zone)
    last = first + request.not_after - request.not_before
    spelled = spelled_out(request.alternatives, request.not_before, request.not_after + 2 * DAY_S)
    local = clock.request(structs.replace(request, alternatives=spelled))
    wants = planner.fixed_wants(structs.replace(local, not_before=first, not_after=last))
    asked = structs.replace(request, not_after=first_shown(last, clock.zone))
    return asked, clock.in_utc(wants) if wants is not None else None
