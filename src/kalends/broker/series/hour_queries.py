"""Searches for series: the best hours, the nearest free starts, the horizons of owners."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from kalends.broker.coordination.record.refusal_errors import site_down
from kalends.broker.coordination.search.query_plan import QueryPlan
from kalends.broker.planning.best_hours import STEP_S, RepeatedRequest
from kalends.broker.planning.companions import accompanied
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.horizons import BookingHorizon, reach_of
from kalends.broker.searches.availability_queries import SILENT
from kalends.broker.searches.search_questions import NearestStarts, WhichHours
from kalends.broker.searches.searches import Searches
from kalends.broker.searches.site_queries import GLANCE_S_MAX, SiteQueries
from kalends.contract import calls
from kalends.core.errors import InvalidInput, KalendsError, RefusalCode
from kalends.core.identifiers import members_of
from kalends.core.intervals import align_up
from kalends.core.refusals import error_of
from kalends.core.requests import Request, shortest_stage_s, span
from kalends.core.series import occurrences
from kalends.core.times import zone_named
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock


class HourQueries:
    """Asks sites and touches nothing."""

    def __init__(
        self, directory: Directory, site_queries: SiteQueries, clock: Clock, searches: Searches
    ) -> None:
        self._directory = directory
        self._site_queries = site_queries
        self._clock = clock
        self._searches = searches

    async def find(self, caller: Caller, body: calls.FindSeries) -> calls.SeriesHours:
        """Return the best hours now; not a promise of anything. Raises as a search for starts does."""
        body.request.check()
        self.check(body.request)
        if body.closes_s <= body.opens_s:
            raise InvalidInput(
                "the hours end before they begin", where="closes_s", remedy="give a later end"
            )
        infos = self._directory.resources
        asked_for = accompanied(body.request, infos)
        begin, end = span(asked_for)
        request = structs.replace(asked_for, not_after=0, preferences=())
        queries = QueryPlan.of_request(request, self._directory, (), self._clock.wall_s())
        seen = await self._site_queries.ask(
            caller.principal, queries.by_site, length_s=shortest_stage_s(request),
            needs=queries.needs,
        )  # fmt: skip
        views = [view for of_site in seen.values() for view in of_site]
        known = [infos[each.resource] for each in views if each.resource in infos]
        coarse = max(known, key=lambda each: each.grain_s, default=None)
        grain_s = coarse.grain_s if coarse is not None else 1
        series = RepeatedRequest(
            rule=body.rule,
            zone=zone_named(body.zone).key,
            earliest=max(body.request.not_before, self._clock.wall_s()) - begin,
            length_s=end - begin,
            opens_s=body.opens_s,
            closes_s=body.closes_s,
            skip=body.skip,
            grain_s=grain_s,
            grain_zone=coarse.zone if coarse is not None else "UTC",
        )
        found = await self._searches.answer(
            caller.principal.user,
            WhichHours(
                request=request, free={view.resource: view.steps for view in views},
                prices=seen.prices, series=series, step_s=align_up(STEP_S, grain_s),
                count=body.count,
            ),
        )  # fmt: skip
        refusals = (
            *(site_down(site, SILENT) for site in queries.by_site if site not in seen),
            *(view.refusal for view in views if view.refusal is not None),
        )
        if refusals and not found.hours:
            raise error_of(refusals)
        shown = {each.resource for each in views if each.refusal is None}
        reach = reach_of(request, {name: infos[name] for name in shown if name in infos})
        until = self._clock.wall_s() + reach.seconds if reach is not None else 0
        ends = max((_ends(series, each.first) for each in found.hours), default=0)
        return calls.SeriesHours(
            hours=tuple(found.hours), step_s=found.step_s, refusals=refusals,
            horizon_of=reach.resource if reach is not None and ends > until else "",
            bookable_until=until if ends > until else 0,
        )  # fmt: skip

    def check(self, request: Request) -> None:
        """Raise `InvalidInput` for an agent, and for members of a virtual site."""
        if request.agent:
            raise InvalidInput(
                "an agent cannot choose among the slots of a series",
                where="request.agent",
                remedy="leave the agent out, or book single requests",
            )
        split = {members_of(each) for each in self._directory.virtual}
        for term in (term for each in request.alternatives for term in each.terms):
            if term.resource in split:
                raise InvalidInput(
                    "a series is not split over the members of a virtual site",
                    where=term.resource,
                    remedy="name the machines, or book single requests",
                )

    async def reach(self, caller: Caller, request: Request) -> BookingHorizon | None:
        """Return how far ahead the owners of what the caller may see let `request` be booked.

        A resource that the caller may not see counts as unknown, and so does one whose site is silent.
        """
        infos, now_s = self._directory.resources, self._clock.wall_s()
        there = structs.replace(request, not_before=now_s, not_after=0, preferences=())
        try:
            queries = QueryPlan.of_request(there, self._directory, (), now_s)
        except KalendsError:
            return None
        brief = {
            site: tuple(structs.replace(want, end=want.start + 1) for want in wants)
            for site, wants in queries.by_site.items()
        }
        seen = await self._site_queries.ask(caller.principal, brief, patience_s=GLANCE_S_MAX)
        shown = {
            view.resource
            for of_site in seen.values()
            for view in of_site
            if view.refusal is None or view.refusal.code != RefusalCode.UNKNOWN_RESOURCE
        }
        return reach_of(request, {name: infos[name] for name in shown if name in infos})

    async def nearest(
        self, caller: Caller, request: Request, wished: Sequence[tuple[int, int]]
    ) -> list[int]:
        """Return the free start that is nearest to each of `wished`, a start and how far from it to look.

        0 is none. There is none at all for a search that is too hard, or if a site does not answer soon.
        """
        now_s = self._clock.wall_s()
        begin, end = span(request)
        there = structs.replace(
            request, preferences=(), not_before=max(min(at - far for at, far in wished) + begin, now_s),
            not_after=max(at + far for at, far in wished) + end,
        )  # fmt: skip
        try:
            queries = QueryPlan.of_request(there, self._directory, (), now_s)
            seen = await self._site_queries.ask(
                caller.principal, queries.by_site, length_s=shortest_stage_s(request),
                needs=queries.needs, patience_s=GLANCE_S_MAX,
            )  # fmt: skip
            free = {view.resource: view.steps for of_site in seen.values() for view in of_site}
            question = NearestStarts(
                request=there, free=free, prices=seen.prices, wished=tuple(wished)
            )
            return await self._searches.answer(caller.principal.user, question)
        except KalendsError:
            return [0] * len(wished)


def _ends(series: RepeatedRequest, first: str) -> int:
    """Return when the last occurrence ends, if the first begins at this local time."""
    local, zone = datetime.fromisoformat(first), zone_named(series.zone)
    last = occurrences(series.rule, local, zone, series.length_s, series.skip)[-1]
    return last.start + series.length_s
