"""What there is and what is free: resources, calendars and find. Asks the sites and touches nothing."""

from __future__ import annotations

from typing import NoReturn

from kalends.broker.asking import Asking
from kalends.broker.directory import Directory
from kalends.broker.looking import Looking, plans, why_not
from kalends.broker.planner import Plan
from kalends.broker.refusals import error_of, site_down
from kalends.calendars import unknown_resource
from kalends.core import api, limits
from kalends.core.errors import InvalidInput, Refusal, RefusalCode
from kalends.core.identifiers import split_resource
from kalends.core.intervals import align_up
from kalends.core.messages import Want
from kalends.core.resources import ResourceInfo
from kalends.serving.callers import Caller
from kalends.serving.clocks import Clock

SILENT = "it did not answer in time"


class Finding:
    """The calls that look, on behalf of a caller and with the eyes of each owner's rules."""

    def __init__(self, directory: Directory, asking: Asking, clock: Clock) -> None:
        self._directory = directory
        self._asking = asking
        self._clock = clock

    async def resources(self, caller: Caller, body: api.ListResources) -> api.Resources:
        """What the caller may see at the sites that answer, and the state of every site."""
        now_s = self._clock.wall_s()
        infos = dict(self._directory.resources)
        wants: dict[str, tuple[Want, ...]] = {}
        for name, info in sorted(infos.items()):
            site = split_resource(name)[0]
            if self._directory.is_up(site):
                start = align_up(now_s, info.grain_s)
                want = Want(name, start, start + info.grain_s, 1)
                wants[site] = (*wants.get(site, ()), want)
        seen = await self._asking.ask(caller.principal, wants)
        visible = [
            infos[view.resource]
            for views in seen.values()
            for view in views
            if view.refusal is None and view.resource in infos
        ]
        silent = wants.keys() - seen.keys()
        return api.Resources(
            resources=tuple(sorted(visible, key=lambda info: info.name)),
            sites=tuple(self._status(site, site in silent) for site in self._directory.sites),
        )

    def _status(self, site: str, silent: bool) -> api.SiteStatus:
        entry = self._directory.sites[site]
        up = entry.up and not silent
        detail = SILENT if entry.up and silent else entry.detail
        return api.SiteStatus(site=site, url=entry.url, state="up" if up else "down", detail=detail)

    async def calendar(self, caller: Caller, body: api.ShowCalendar) -> api.CalendarView:
        """Raises `NotFound` for a resource that the caller may not see, `Unavailable` without its site."""
        if not body.start < body.end <= body.start + limits.WINDOW_S_MAX:
            raise InvalidInput(
                "that is no stretch of time to look at",
                where="end",
                remedy="let `end` be after `start`, by ten years at most",
            )
        info = self._known(body.resource)
        site = split_resource(body.resource)[0]
        want = Want(body.resource, body.start, body.end, 1)
        seen = await self._asking.ask(caller.principal, {site: (want,)}, detail=True)
        if site not in seen:
            _raise(site_down(site, SILENT))
        (view,) = seen[site]
        if view.refusal is not None:
            _raise(view.refusal)
        return api.CalendarView(
            resource=info,
            start=body.start,
            end=body.end,
            until=view.until,
            free=view.steps,
            slots=view.slots,
        )

    def _known(self, resource: str) -> ResourceInfo:
        site = split_resource(resource)[0]
        if site in self._directory.sites and not self._directory.is_up(site):
            _raise(site_down(site, self._directory.sites[site].detail))
        info = self._directory.resources.get(resource)
        if info is None:
            _raise(unknown_resource(resource))
        return info

    async def find(self, caller: Caller, body: api.Find) -> api.Found:
        """Starts that would suit now, or who stands in the way; not a promise of anything.

        Raises `NotFound` for a named resource that the caller may not see, `Unavailable` without its
        site, and `InvalidInput` for a request that can never be right.
        """
        request = body.request
        request.check()
        if request.agent:
            raise InvalidInput(
                "an agent holds what it chooses, and finding touches nothing",
                where="request.agent",
                remedy="leave the agent out to see what is free, or hold with it and look at that",
            )
        looking = Looking.of_request(request, self._directory, (), self._clock.wall_s())
        seen = await self._asking.ask(caller.principal, looking.by_site)
        views = [view for views in seen.values() for view in views]
        free = {view.resource: view.steps for view in views}
        found = plans(request, self._directory, free, count=body.count)
        if found:
            return api.Found(candidates=tuple(_candidate(each) for each in found))
        refusals = [
            *(site_down(site, SILENT) for site in looking.by_site.keys() - seen.keys()),
            *(view.refusal for view in views if view.refusal),
        ]
        told = why_not(request, self._directory, free, refusals)
        named = {term.resource for term in request.alternatives[0].terms if term.resource}
        if any(each.code == RefusalCode.UNKNOWN_RESOURCE and each.where in named for each in told):
            raise error_of(told)
        return api.Found(candidates=(), refusals=told)


def _candidate(found: Plan) -> api.Candidate:
    claims = tuple(
        api.ClaimView(resource=want.resource, start=want.start, end=want.end, units=want.units)
        for want in found.wants
    )
    return api.Candidate(start=found.start, end=found.end, claims=claims)


def _raise(refusal: Refusal) -> NoReturn:
    raise error_of([refusal])
