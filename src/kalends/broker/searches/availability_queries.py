"""Queries for resources, calendars and free time. Asks the sites and touches nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from kalends.broker.coordination.record.refusal_errors import site_away, site_down
from kalends.broker.coordination.search.query_plan import QueryPlan
from kalends.broker.planning.companions import accompanied
from kalends.broker.planning.directory import Directory
from kalends.broker.planning.local_days import fixed_in_days
from kalends.broker.planning.needs import barred_needs
from kalends.broker.planning.planner import Plan
from kalends.broker.planning.price_lists import PriceLists
from kalends.broker.searches.search_questions import BestStarts, Explanation, Pieces, WhyNone
from kalends.broker.searches.searches import Searches
from kalends.broker.searches.site_queries import GLANCE_S_MAX, SiteQueries, SiteViews
from kalends.calendars import unknown_resource
from kalends.contract import calls
from kalends.contract.messages import FreeSteps, Want
from kalends.core import limits
from kalends.core.errors import InvalidInput, Refusal, RefusalCode
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment, align_up
from kalends.core.refusals import error_of
from kalends.core.requests import Request, shortest_stage_s
from kalends.core.resources import Slot
from kalends.federation.bid_tally import BidTally
from kalends.federation.experience import Experience
from kalends.federation.learned_runs import LearnedRuns
from kalends.serving.auth.callers import Caller
from kalends.serving.clocks import Clock

Reservations = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Returns of which reservation each id is, as far as it is another one's."""


async def _as_they_are(ids: Collection[str]) -> Mapping[str, str]:
    return {}


SILENT = "the site did not answer in time"


@dataclass(frozen=True, eq=False)
class AvailabilityQueries:
    """The calls that look, on behalf of a caller and with the eyes of each owner's rules.

    `polls` says how the terms of a request would be polled, without resources that are hidden, or may be:
    nobody knows what a silent site would show the caller. `experience` and `tally` are what bids have
    shown of sites, `learned` what jobs have shown of their users; each hears of their own. `reservations`
    finds the reservation of a change.
    """

    directory: Directory
    site_queries: SiteQueries
    clock: Clock
    searches: Searches
    polls: Callable[[Request, Collection[str]], tuple[calls.PollView, ...]] = lambda *_: ()
    experience: Callable[[], Experience] = Experience
    tally: Callable[[], BidTally] = BidTally
    learned: Callable[[], LearnedRuns] = LearnedRuns
    reservations: Reservations = _as_they_are

    async def resources(self, caller: Caller, body: calls.ListResources) -> calls.Resources:
        """Return the resources that the caller may see at the sites that answer, and every site's state."""
        now_s = self.clock.wall_s()
        infos = dict(self.directory.resources)
        wants: dict[str, tuple[Want, ...]] = {}
        for name, info in sorted(infos.items()):
            site = split_resource(name)[0]
            if self.directory.is_up(site):
                start = align_up(now_s, info.grain_s)
                want = Want(name, start, start + info.grain_s, 1)
                wants[site] = (*wants.get(site, ()), want)
        seen = await self.site_queries.ask(caller.principal, wants, patience_s=GLANCE_S_MAX)
        visible = [
            infos[view.resource]
            for views in seen.values()
            for view in views
            if view.refusal is None or view.refusal.code == RefusalCode.ADVISORY
            if view.resource in infos
        ]
        silent = wants.keys() - seen.keys()
        return calls.Resources(
            resources=tuple(sorted(visible, key=lambda info: info.name)),
            sites=tuple(
                self._status(site, site in silent, caller) for site in self.directory.sites
            ),
        )

    def _status(self, site: str, silent: bool, caller: Caller) -> calls.SiteStatus:
        entry = self.directory.sites[site]
        up = entry.up and not silent
        detail = SILENT if entry.up and silent else entry.detail
        now = Moment(int(self.clock.monotonic_s() * 1_000), self.clock.wall_s() * 1_000)
        seen = self.experience().seen(site, now)
        learned = self.learned().learned(caller.principal.user, site)
        return calls.SiteStatus(
            site=site,
            url=entry.url,
            state="up" if up else "down",
            detail=detail,
            answer_ms=seen.answer_ms,
            wait_s=seen.wait_s,
            rests_s=seen.rests_s,
            through="/".join(entry.through),
            learned_share=learned.share,
            learned_jobs=learned.jobs,
            version=entry.version.number or "older" if entry.version is not None else "",
            lacks=tuple(each.words for each in entry.lacks),
        )

    def bidders(self, caller: Caller, body: calls.ListBidders) -> calls.Bidders:
        """Return how every site of the broker has answered."""
        now_s, tally = self.clock.wall_s(), self.tally()
        views = []
        for site in self.directory.sites:
            counts = tally.of(site)
            views.append(
                calls.BidderView(
                    status=self._status(site, False, caller), asked=counts.asked, bid=counts.bid,
                    late=counts.late, silent=counts.silent, refused=dict(counts.refused),
                    chosen=counts.chosen, placed=counts.placed, there=counts.there(now_s),
                    next_end=counts.next_end_s(now_s),
                )
            )  # fmt: skip
        return calls.Bidders(bidders=tuple(views), herd=tally.busiest_share())

    async def calendar(self, caller: Caller, body: calls.ShowCalendar) -> calls.CalendarView:
        """Raises `NotFound` for a resource that the caller may not see, `Unavailable` without its site."""
        if not body.start < body.end <= body.start + limits.WINDOW_S_MAX:
            raise InvalidInput(
                f"invalid window {body.start}..{body.end}",
                where="end",
                remedy="give an `end` after `start`, at most ten years later",
            )
        site = self._site_of(body.resource)
        want = Want(body.resource, body.start, body.end, 1)
        seen = await self.site_queries.ask(caller.principal, {site: (want,)}, detail=True)
        if site not in seen:
            _raise(site_down(site, SILENT))
        (view,) = seen[site]
        steps = seen.prices.steps(body.resource)
        info = self.directory.resources.get(body.resource)
        if view.refusal is not None or info is None:
            _raise(view.refusal or unknown_resource(body.resource))
        return calls.CalendarView(
            resource=info,
            start=body.start,
            end=body.end,
            until=view.until,
            free=view.steps,
            slots=await self._under_first_ids(view.slots),
            as_of=view.as_of,
            rules=view.rules,
            prices=tuple(each for each in steps if each[0] < body.end and body.start < each[1]),
            now=self.clock.wall_s(),
        )

    async def _under_first_ids(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """Return `slots` with the ids that users know: sites know changes by ids of their own."""
        ids = {slot.reservation for slot in slots if slot.reservation}
        first = await self.reservations(ids) if ids else {}
        return tuple(
            msgspec.structs.replace(slot, reservation=first[slot.reservation])
            if slot.reservation in first
            else slot
            for slot in slots
        )

    def _site_of(self, resource: str) -> str:
        """The site that is asked about `resource`, whether it has told of it or not.

        What is not there must cost the same as what is hidden: else the time would tell them apart.
        """
        site = split_resource(resource)[0]
        entry = self.directory.sites.get(site)
        if entry is None:
            _raise(unknown_resource(resource))
        if not entry.up:
            _raise(site_away(entry))
        return site

    async def find(self, caller: Caller, body: calls.Find) -> calls.Found:
        """The best starts now, or who stands in the way; not a promise of anything.

        With `explain` the sites are asked a second time, for what their rules alone would allow.

        Raises `NotFound` for a named resource that the caller may not see, `Unavailable` without its
        site, and `InvalidInput` for a request that can never be right.
        """
        body.request.check()
        infos = self.directory.resources
        request, _ = fixed_in_days(accompanied(body.request, infos), infos)
        if request.agent:
            raise InvalidInput(
                "`find` runs no agents",
                where="request.agent",
                remedy="leave the agent out, or hold with it to see what it chooses",
            )
        queries = QueryPlan.of_request(request, self.directory, (), self.clock.wall_s())
        seen = await self.site_queries.ask(
            caller.principal, queries.by_site, detail=body.explain,
            length_s=shortest_stage_s(request), needs=queries.needs,
        )  # fmt: skip
        user = caller.principal.user
        views = [view for views in seen.values() for view in views]
        free = {view.resource: view.steps for view in views}
        found = await self.searches.answer(
            user, BestStarts(request=request, free=free, prices=seen.prices, count=body.count)
        )
        resources = {want.resource for each in found for want in each.wants}
        used = [view for view in views if view.resource in resources]
        told = calls.Found(
            candidates=tuple(_candidate(each, None) for each in found),
            refusals=() if found else await self._refusals(user, request, queries, free, seen),
            as_of={view.resource: view.as_of for view in used if view.as_of},
            approval=tuple(sorted(view.resource for view in used if view.approval)),
        )
        if not body.explain:
            return told
        return await self._explained(caller, request, queries, views, found, told, seen.prices)

    async def _explained(
        self,
        caller: Caller,
        request: Request,
        queries: QueryPlan,
        views: Sequence[FreeSteps],
        found: list[Plan],
        told: calls.Found,
        told_prices: PriceLists,
    ) -> calls.Found:
        """Return `told` with the price of each start, and what stands in the way of a better one."""
        wants = [want for of_site in queries.by_site.values() for want in of_site]
        seen = await self.site_queries.ask(
            caller.principal, queries.by_site, counting="none", length_s=shortest_stage_s(request)
        )
        explanation = Explanation(
            request=request,
            free={view.resource: view.steps for view in views},
            prices=told_prices,
            found=found,
            looked=(
                min((want.start for want in wants), default=0),
                max((want.end for want in wants), default=0),
            ),
            waiting={
                view.resource: [Want(view.resource, *hoped_for) for hoped_for in view.waiting]
                for view in views
            },
            allowed={view.resource: view.steps for of_site in seen.values() for view in of_site},
            slots={view.resource: view.slots for view in views},
        )
        explained = await self.searches.answer(caller.principal.user, explanation)
        moves = explained.moves
        shown = {
            view.resource
            for view in views
            if view.refusal is None or view.refusal.code != RefusalCode.UNKNOWN_RESOURCE
        }
        hidden = {want.resource for want in wants} - shown
        return msgspec.structs.replace(
            told,
            candidates=tuple(map(_candidate, found, explained.prices)),
            obstacles=tuple(
                calls.Obstacle(start=moves.start, resource=each.resource, slot=each.slot)
                for each in moves.moves
            )
            if moves
            else (),
            fewest=moves is None or moves.exact,
            polls=self.polls(request, hidden),
        )

    async def _refusals(
        self,
        user: str,
        request: Request,
        queries: QueryPlan,
        free: Pieces,
        seen: SiteViews,
    ) -> tuple[Refusal, ...]:
        """Why there is no start. Raises `NotFound` where a named resource is not there to be asked for."""
        refusals = (
            *(site_down(site, SILENT) for site in queries.by_site if site not in seen),
            *(view.refusal for views in seen.values() for view in views if view.refusal),
        )
        named = {term.resource for each in request.alternatives for term in each.terms}
        barred = barred_needs([view for views in seen.values() for view in views], queries.needs)
        told = await self.searches.answer(
            user,
            WhyNone(
                request=request, free=free, prices=seen.prices, refusals=refusals,
                barred=tuple((*key, refusal) for key, refusal in barred.items()),
            ),
        )  # fmt: skip
        if any(
            each.code == RefusalCode.UNKNOWN_RESOURCE and each.where in named
            for each in told.hopeful
        ):
            raise error_of(told.hopeful)
        return told.all


def _candidate(found: Plan, at_price: calls.Price | None) -> calls.Candidate:
    claims = tuple(
        calls.ClaimView(resource=want.resource, start=want.start, end=want.end, units=want.units)
        for want in found.wants
    )
    return calls.Candidate(
        start=found.start,
        end=found.end,
        claims=claims,
        alternative=found.alternative,
        weight=found.weight,
        price=at_price,
        costs=dict(found.costs),
    )


def _raise(refusal: Refusal) -> NoReturn:
    raise error_of([refusal])
