"""A round of an agent's visits: the offers to each site, the way to it, and the reports.

Sites that are near one another share one visit: one of them is visited, and passes the agent on to
the others (Ramamoorthi et al. 1997, section 3: agents that visit several servers).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import msgspec

from kalends.agents.world.feasible_starts import round_step_s
from kalends.broker.coordination.agents.agent_choice import (
    Choice,
    Need,
    best_choice,
    common_starts,
    starts_of,
)
from kalends.broker.planning.demand import Demand, demand_of, stage_of, start_window
from kalends.broker.planning.directory import Directory
from kalends.contract.messages import CommonPart, CommonTimes, SiteReport
from kalends.core import limits
from kalends.core.errors import Conflict, NoCommonTime, Refusal, RefusalCode
from kalends.core.grains import grain_of
from kalends.core.identifiers import split_resource
from kalends.core.progressions import Beat
from kalends.core.requests import Request, span
from kalends.core.resources import ResourceInfo
from kalends.core.scripts import Ask, HeldChoice, Starts, Stop, TermNeeds
from kalends.core.spans import beat_of

TOURS_MAX: Final = 8
"""Rounds of an agent while others are faster: as many as plans that turn out to be taken."""

AGREE_MAX: Final = 3
"""Rounds until an agent has chosen something that is common to all sites."""

OPEN_WINDOW_S: Final = 14 * 86_400
"""A request without an end lets its agent choose in the first two weeks; the planner looks further."""

HELD_MAX: Final = 16
"""What a site usually lets one visit hold: a further round is about few enough starts for all to fit."""

NEAR_MAX: Final = 64


@dataclass(slots=True)
class Tour:
    """`stops` has for each visited site those that it is to pass the agent on to."""

    needs: tuple[Need, ...]
    starts: Starts
    asks: Mapping[str, tuple[Ask, ...]]
    stops: dict[str, tuple[str, ...]]
    inbox: tuple[str, ...] = ()
    reports: dict[str, SiteReport] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    """How often a site has said that it does not know the script."""
    common: dict[str, CommonPart] = field(default_factory=dict)
    """What is known of a site for which a near one has answered, or which has: but for common starts."""
    answered_by: dict[str, str] = field(default_factory=dict)
    """For each of these the site that has answered."""

    @property
    def complete(self) -> bool:
        return self.reports.keys() >= self.asks.keys()

    def way(self, site: str) -> str:
        """The site whose visit brings the agent to `site`."""
        if site in self.stops:
            return site
        return next((first for first, near in self.stops.items() if site in near), site)

    def near_stops(self, site: str) -> tuple[Stop, ...]:
        """Where `site` is to pass the agent on to, still."""
        return tuple(
            Stop(near, self.asks[near]) for near in self.stops[site] if near not in self.reports
        )

    def together(self, site: str) -> tuple[str, ...]:
        """Return the sites that the visit of `site` is for, still: itself first."""
        return (site, *(stop.site for stop in self.near_stops(site)))

    def meets(self, site: str) -> TermNeeds:
        """Return what only the sites of the visit of `site` can serve; nothing when it goes nowhere else."""
        here = self.together(site)
        if len(here) == 1:
            return ()
        elsewhere = {
            ask.term for name, asks in self.asks.items() if name not in here for ask in asks
        }
        return tuple((need.term, need.wanted) for need in self.needs if need.term not in elsewhere)

    def met(self, site: str, common: CommonTimes, reports: Iterable[SiteReport]) -> None:
        """Take what `site` answers for all sites of its visit."""
        for part, report in zip(common.sites, reports, strict=True):
            self.reports[part.site] = self.believed(report)
            self.common[part.site], self.answered_by[part.site] = part, site

    def visit_each(self, sites: Iterable[str]) -> None:
        """Each of `sites` gets a visit of its own, and what was answered for it is dropped."""
        for site in sites:
            for known in (self.reports, self.common, self.answered_by):
                known.pop(site, None)
            self.visit_directly(site)

    def choice(self, excluded: Collection[int]) -> Choice | None:
        """Return the best common start that is held everywhere."""
        held = [self._ranked(site) for site in sorted(self.reports)]
        return best_choice(self.needs, held, excluded)

    def held_at(self, site: str) -> Sequence[int]:
        """Return the numbers of all slots held at `site`, also of those in no report."""
        if (part := self.common.get(site)) is not None:
            return range(part.first, part.first + part.held)
        report = self.reports.get(site)
        return [hold.hold_id for hold in report.held] if report is not None else []

    def visit_directly(self, site: str) -> None:
        """Nobody passes the agent on to `site` any more: it gets a visit of its own."""
        self.stops = {
            first: tuple(each for each in near if each != site)
            for first, near in self.stops.items()
        }
        self.stops.setdefault(site, ())

    def believed(self, report: SiteReport) -> SiteReport:
        """`report` without whatever was not asked of that site: others' resources, other amounts."""
        asked = {(ask.term, ask.resource): ask for ask in self.asks[report.site]}
        return msgspec.structs.replace(
            report,
            held=tuple(hold for hold in report.held if self._fits(hold, asked)),
            offered=tuple(
                offered for offered in report.offered if (offered.term, offered.resource) in asked
            ),
        )

    def common_starts(self, excluded: Collection[int], *, chosen: bool) -> tuple[int, ...]:
        """So few starts that every site can hold them all, the best first chosen; ascending.

        At these what was offered serves every term. With `chosen`, only what the agent has chosen
        counts, at the sites where it ran well: what it leaves out it does not want.
        """
        offered = {}
        for site, report in self.reports.items():
            found = starts_of(report, self.starts)
            if chosen and report.code == "ok":
                wanted = {*report.wished, *(hold.common for hold in report.held)}
                found = [each for each in found if each[2] in wanted]
            offered[site] = found
        wished = {site: report.wished for site, report in self.reports.items()}
        count_max = max(1, HELD_MAX // max(len(asks) for asks in self.asks.values()))
        return common_starts(self.needs, offered, wished, excluded, count_max)

    def _ranked(self, site: str) -> Iterable[tuple[int, HeldChoice]]:
        held = self.reports[site].held
        if (part := self.common.get(site)) is None:
            return enumerate(held)
        return ((hold.hold_id - part.first, hold) for hold in held)

    def _fits(self, hold: HeldChoice, asked: Mapping[tuple[int, str], Ask]) -> bool:
        ask = asked.get((hold.term, hold.resource))
        return (
            ask is not None
            and self.starts.first <= hold.common <= self.starts.last
            and hold.units == ask.units
            and hold.start == hold.common + ask.offset_s
            and hold.end == hold.start + ask.length_s
        )


def planned_tour(
    request: Request,
    directory: Directory,
    shunned: Collection[str],
    only: tuple[int, ...],
    wall_s: int,
) -> Tour | None:
    """A round of visits for `request`; None where an agent cannot help.

    That is when too few resources could serve, when a site of a named one cannot be reached, or when
    no start is left: the ordinary planner then says so.
    """
    demand = demand_of(request, directory.resources)
    asks = _asks(request, demand, directory, shunned)
    window = _window(request, directory, asks, wall_s)
    if not asks or demand.beat is None or window is None:
        return None
    starts = _starts(window, _beat(demand, directory.resources), asks, only)
    if starts is None:
        return None
    return Tour(_needs(request, demand), starts, asks, grouped(asks, directory))


def grouped(sites: Collection[str], directory: Directory) -> dict[str, tuple[str, ...]]:
    """Return the `sites` to visit, and the others to which each passes the agent on.

    The one that reaches most of those that are left goes first; of equals, the first by name.
    """
    left = set(sites)
    stops: dict[str, tuple[str, ...]] = {}
    while left:
        near = {site: left & directory.near(site) for site in sorted(left)}
        first = max(near, key=lambda site: len(near[site]))
        stops[first] = tuple(sorted(near[first])[:NEAR_MAX])
        left -= {first, *stops[first]}
    return stops


def left_out(reports: Iterable[SiteReport]) -> NoCommonTime:
    """The error for starts that there are, but none that the agent has chosen at every site."""
    refusals = tuple(
        Refusal(where=report.site, code=RefusalCode.NOT_CHOSEN, detail=_choice_told(report))
        for report in sorted(reports, key=lambda each: each.site)
        if report.code == "ok" and report.offered
    )
    return NoCommonTime(
        "the agent chose none of the common starts",
        remedy="let the agent choose more starts, give a wider window, or ask without the agent",
        refusals=refusals,
    )


def failed_visits(reports: Iterable[SiteReport]) -> tuple[Refusal, ...]:
    """A refusal for each site at which the agent did not choose, and why."""
    return tuple(
        Refusal(
            where=report.site,
            code=RefusalCode.NOT_CHOSEN,
            detail=f"the agent failed here: {report.code}"
            + (f" in line {report.line}" if report.line else "")
            + (f": {report.detail[:300]}" if report.detail else ""),
        )
        for report in sorted(reports, key=lambda each: each.site)
        if report.code != "ok"
    )


def must_run(why: str, refusals: tuple[Refusal, ...] = ()) -> Conflict:
    """The error of a request whose agent must run everywhere, and has not."""
    return Conflict(
        f"the agent must run, but {why}; nothing was booked",
        remedy="try it with `kalends agent run`, or ask without --agent-must-run",
        refusals=refusals,
    )


def _choice_told(report: SiteReport) -> str:
    if not report.wished:
        return "the agent chose none of the slots on offer here"
    count = len(report.wished)
    return (
        f"the agent chose {count} start{'' if count == 1 else 's'} here, none of them at all sites"
    )


def _asks(
    request: Request, demand: Demand, directory: Directory, shunned: Collection[str]
) -> dict[str, tuple[Ask, ...]]:
    """Return for each site what each term could use; nothing if too few sites of a term answer."""
    terms = request.alternatives[0].terms
    could: list[tuple[int, str]] = []
    for number, term in enumerate(terms):
        if term.resource:
            if term.resource not in directory.resources or not _up(term.resource, directory):
                return {}
            could.append((number, term.resource))
    for pick in demand.picks:
        names = [
            name
            for name in pick.names
            if _up(name, directory)
            and name not in shunned
            and split_resource(name)[0] not in shunned
        ]
        if len(names) < pick.wanted:
            return {}
        could += [(pick.number, name) for name in names]
    asks: dict[str, list[Ask]] = {}
    for number, name in could:
        stage = stage_of(request, terms[number])
        of_site = asks.setdefault(split_resource(name)[0], [])
        if len(of_site) < limits.CLAIMS_MAX:
            of_site.append(Ask(number, name, stage.length_s, stage.units, stage.offset_s))
    return {site: tuple(asks[site]) for site in sorted(asks)}


def _needs(request: Request, demand: Demand) -> tuple[Need, ...]:
    """Named terms stand for themselves; attribute terms that overlap in time share no resource."""
    terms = request.alternatives[0].terms
    named = [Need(number, 1, -1 - number) for number, term in enumerate(terms) if term.resource]
    return (*named, *(Need(pick.number, pick.wanted, pick.group) for pick in demand.picks))


def _window(
    request: Request, directory: Directory, asks: Mapping[str, tuple[Ask, ...]], wall_s: int
) -> tuple[int, int] | None:
    """The first and last common start that can be chosen; None when there is none."""
    lead_s, _ = span(request)
    first, last = start_window(request)
    first = max(first, wall_s - lead_s, 0)
    if not request.not_after:
        horizons_s = [
            directory.resources[ask.resource].horizon_s
            for of_site in asks.values()
            for ask in of_site
        ]
        last = min(last, first + min(OPEN_WINDOW_S, max(horizons_s, default=0)))
    return (first, last) if first <= last else None


def _beat(demand: Demand, infos: Mapping[str, ResourceInfo]) -> Beat:
    """The starts on the grain of everything named, and of all that could be picked, where they meet."""
    beat = demand.beat or Beat(1, 0)
    of_picks = {
        own
        for pick in demand.picks
        for name in pick.names
        if (own := beat_of(pick.stage, grain_of(infos[name]))) is not None
    }
    return reduce(lambda joint, own: joint.both(own) or joint, sorted(of_picks), beat)


def _starts(
    window: tuple[int, int],
    beat: Beat,
    asks: Mapping[str, tuple[Ask, ...]],
    only: tuple[int, ...],
) -> Starts | None:
    """Starts on `beat`, so far apart that no site has more offers than a visit may bring."""
    first, last = window
    most = max(1, limits.OFFERS_MAX // max(len(of_site) for of_site in asks.values()))
    if beat.modulus > last - first:
        step_s, begin = beat.modulus, beat.next(first)
    else:
        step_s = round_step_s(beat.modulus, last - first, most)
        begin = Beat(step_s, beat.remainder % step_s).next(first)
        if begin > last:
            begin = beat.next(first)
    if begin > last:
        return None
    step_s = min(step_s, limits.WINDOW_S_MAX)
    return Starts(begin, last, step_s, tuple(start for start in only if begin <= start <= last))


def _up(name: str, directory: Directory) -> bool:
    return directory.is_up(split_resource(name)[0])
