"""Checks of the sites' messages: each answer is judged where it arrives, before it is used.

A site belongs to somebody else. It is believed about its own resources, as far as it was asked, and as
long as what it says can be true. An answer that cannot be is worth a refusal by that site: the request
goes on without it, the operator gets an alarm, and nobody else notices. How long texts and lists may be
is said by the types (`kalends.contract.messages`); here is what a type cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec.structs import replace

from kalends.contract import messages as m
from kalends.contract.common_times import complaint_about as complaint_about_common
from kalends.contract.messages import Want
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.identifiers import split_resource
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest

COMPLAIN_EVERY_MS: Final = 60_000
"""The least time between two alarms of one complaint about one site: it may repeat itself for ever."""

COMPLAINTS_MAX: Final = 1_000
"""Complaints remembered; beyond it all are forgotten, and told again."""

CLOCKS_DIFFER_S: Final = 60
"""By so much what a site says may contradict what its clock showed."""

IN_WORDS: Final = "its answer is invalid"


class SiteQuestion(NamedTuple):
    """The questions of one query to one site."""

    site: str
    wants: tuple[Want, ...]
    needs: tuple[m.RoomNeed, ...] = ()


class AnswerChecks:
    """Judges what sites say; `alarm` and `lose` are called about a site that says what cannot be."""

    def __init__(self, *, alarm: Callable[[str], None], lose: Callable[[str, str], None]) -> None:
        self._alarm = alarm
        self._lose = lose
        self._told_ms: dict[tuple[str, str], int] = {}
        """The complaints that were made, and when (monotonic)."""

    def heard(self, site: str, message: m.Message, now: Moment) -> m.Message | None:
        """Return `message` as far as it can be true; None: nothing follows from it.

        Where an answer that cannot be true was waited for, the site has refused.
        """
        complaint = complaint_about(site, message)
        if not complaint:
            return self._passed_on(site, message, now) if isinstance(message, m.Report) else message
        self.complain(site, complaint, now)
        refusals = (bad_answer(site),)
        match message:
            case m.Hello():
                self._lose(site, "its description of itself is invalid")
            case m.Visited():
                return replace(message, held=(), refusals=refusals, ahead=-1)
            case m.Bid():
                return replace(message, offers=(), refusals=refusals)
            case m.Voted():
                return replace(message, vote="no", refusals=refusals)
            case m.Locked():
                return replace(message, refusals=refusals)
            case m.Report():
                return replace(message, sites=(refused_report(site),), common=None)
        return None

    def view(self, site: str, view: m.View, asked: SiteQuestion, now: Moment) -> m.View:
        """Return `view`, or where it cannot be an answer to `asked` the refusal of all of it."""
        complaint = complaint_about_view(site, view, asked)
        if not complaint:
            return view
        self.complain(site, complaint, now)
        return refused_view(view, asked)

    def complain(self, site: str, complaint: str, now: Moment) -> None:
        """Raise an alarm about what `site` says, unless the same was raised a moment ago."""
        told_ms = self._told_ms.get((site, complaint))
        if told_ms is not None and now.monotonic_ms - told_ms < COMPLAIN_EVERY_MS:
            return
        if len(self._told_ms) >= COMPLAINTS_MAX:
            self._told_ms.clear()
        self._told_ms[site, complaint] = now.monotonic_ms
        self._alarm(f"{site} {complaint}")

    def _passed_on(self, site: str, report: m.Report, now: Moment) -> m.Report:
        """Return `report`; sites near by refuse in it where what is passed on of them cannot be true."""
        without = without_sense(report)
        for near, complaint in without.items():
            self.complain(near, f"{complaint}, as {site} passes it on", now)
        sites = tuple(
            refused_report(part.site) if part.site in without else part for part in report.sites
        )
        return replace(report, sites=sites)


def bad_answer(where: str) -> Refusal:
    """The refusal that an answer without sense is worth; `where` is the site, or its resource."""
    return Refusal(where=where, code=RefusalCode.BAD_ANSWER, detail=IN_WORDS)


def complaint_about(site: str, message: m.Message) -> str:
    """Return what is wrong with `message` of `site` alone, whatever it answers; "" for nothing."""
    match message:
        case m.Hello():
            return _of_hello(site, message)
        case m.Visited() | m.Voted() | m.Locked():
            return _of_refusals(site, message.refusals)
        case m.Bid():
            return _of_refusals(site, message.refusals) or _of_places(site, message.offers)
        case m.Report():
            return _of_report(site, message)
        case m.Awaited():
            dear = (message.dear,) if message.dear is not None else ()
            return _of_offers(site, message.offered) or _of_refusals(site, dear)
        case m.OwnerSays():
            own = all(is_of(site, name) for name in message.resources)
            return "" if own else "speaks for another owner"
        case m.PartNews():
            return "" if is_of(site, message.machine) else "reports another site's jobs"
        case m.SlotLoss():
            return "" if is_of(site, message.resource) else "reports another site's nodes"
        case m.Reclaim():
            if not all(is_of(site, name) for name in message.resources):
                return "reclaims a resource of another owner"
            return (
                ""
                if message.start < message.end
                else "reclaims a period that ends before it starts"
            )
    return ""


def complaint_about_view(site: str, view: m.View, asked: SiteQuestion) -> str:
    """Return what is wrong with `view`, which answers `asked`; "" for nothing."""
    if site != asked.site:
        return "answers a question to another site"
    if len(view.views) != len(asked.wants):
        return "answers more, or fewer, questions than it was asked"
    lists = {each.terms: each for each in view.prices}
    if len(lists) < len(view.prices):
        return "shows two price lists of one name"
    for of_one, want in zip(view.views, asked.wants, strict=True):
        if found := _of_prices(of_one, lists, want):
            return found
        if of_one.resource != want.resource:
            return "answers about another resource than it was asked for"
        if of_one.refusal is not None and (found := _of_refusals(site, (of_one.refusal,))):
            return found
        if any(each.need >= len(asked.needs) for each in of_one.barred):
            return "refuses a resource that it was not asked for"
        if found := _of_refusals(site, [each.refusal for each in of_one.barred]):
            return found
        if found := _of_times(of_one, want):
            return found
    return ""


def complaint_about_places(
    offers: Sequence[m.PlaceOffer], jobs: Mapping[str, JobRequest], now_s: int
) -> str:
    """Return what is wrong with `offers` for the job that each machine was asked for; "" for nothing.

    `now_s` is the time by the site's own clock: a broker whose clock is ahead blames no site for that.
    """
    if not {each.machine for each in offers} <= jobs.keys():
        return "offers a place on a machine that it was not asked for"
    for each in offers:
        job = jobs[each.machine]
        if each.nodes < min(job.sizes or (job.nodes,)):
            return "offers fewer nodes than were asked for"
        if each.end - each.start != job.limit_on(job.nodes):
            return "offers another time than was asked for"
        if each.start_by not in (0, each.start) or each.late_start < each.start:
            return "offers a place at several times"
        if each.start < now_s - CLOCKS_DIFFER_S:
            return "offers a place in the past"
        if each.late_start + each.end - each.start > limits.TIME_S_MAX:
            return "offers a place after the last possible time"
    return ""


def complaint_about_holds(held: Sequence[m.HeldSlot], wants: Sequence[Want]) -> str:
    """What is wrong with `held`, which answers a visit for `wants`: each of them once; "" for nothing."""
    if sorted(slot.index for slot in held) != list(range(len(wants))):
        return "holds more, or less, than it was asked for"
    if len({slot.hold_id for slot in held}) != len(held):
        return "holds two slots with one number"
    return ""


def refused_view(view: m.View, asked: SiteQuestion) -> m.View:
    """The answer to `asked` that stands in for a `view` without sense: nothing is shown."""
    views = tuple(
        m.FreeSteps(resource=want.resource, until=want.end, refusal=bad_answer(want.resource))
        for want in asked.wants
    )
    return m.View(query_id=view.query_id, epoch=view.epoch, views=views)


def without_sense(report: m.Report) -> dict[str, str]:
    """Sites of which `report` passes on what makes no sense, and what is wrong with it.

    Whether they have said so, or the site that passes it on, nobody can tell: its own part stands.
    """
    found = {part.site: _of_part(part) for part in report.sites[1:]}
    return {site: complaint for site, complaint in found.items() if complaint}


def refused_report(site: str) -> m.SiteReport:
    """The part of a report that stands in for one of `site` without sense: nothing is held."""
    return m.SiteReport(site, code="killed", detail=IN_WORDS, refusals=(bad_answer(site),))


def is_of(site: str, resource: str) -> bool:
    """Whether `resource` is one of `site`'s: it carries its name."""
    return split_resource(resource)[0] == site


def _of_hello(site: str, hello: m.Hello) -> str:
    if hello.site != site:
        return "says that it is another site"
    names = [info.name for info in hello.resources]
    if not all(is_of(site, name) for name in names):
        return "says that it has another site's resources"
    return "" if len(set(names)) == len(names) else "has two resources of one name"


def _of_refusals(site: str, refusals: Iterable[Refusal]) -> str:
    own = f"{site}/"
    for each in refusals:
        if each.where != site and not each.where.startswith(own):
            return "refuses in the name of another site"
        if max(len(each.where), len(each.rule)) > limits.RULE_CHARS_MAX or (
            max(len(each.code), len(each.detail)) > limits.REFUSAL_CHARS_MAX
        ):
            return "refuses with a text that is too long"
    return ""


def _of_report(site: str, report: m.Report) -> str:
    told = report.sites if report.common is None else report.common.sites
    names = [each.site for each in told]
    if names[:1] != [site]:
        return "reports about another site before itself"
    if len(set(names)) != len(names):
        return "reports twice about one site"
    if report.common is not None:
        return (
            "reports about each site and about all"
            if report.sites
            else complaint_about_common(report.common)
        )
    return _of_part(report.sites[0])


def _of_part(part: m.SiteReport) -> str:
    if found := _of_refusals(part.site, part.refusals):
        return found
    resources = (*(hold.resource for hold in part.held), *(o.resource for o in part.offered))
    if not all(is_of(part.site, resource) for resource in resources):
        return "holds, or offers, another site's resources"
    if len({hold.hold_id for hold in part.held}) != len(part.held):
        return "holds two slots with one number"
    return ""


def _of_offers(site: str, offered: Iterable[m.Freed]) -> str:
    for each in offered:
        if not is_of(site, each.resource):
            return "offers another site's resources"
        if each.start >= each.end:
            return "offers a period that ends before it starts"
    return ""


def _of_places(site: str, offers: Sequence[m.PlaceOffer]) -> str:
    if not all(is_of(site, each.machine) for each in offers):
        return "offers another site's machines"
    if len({each.hold_id for each in offers}) < len(offers):
        return "holds two places with one number"
    if len({each.machine for each in offers}) < len(offers):
        return "offers two places on one machine"
    return ""


def _of_prices(of_one: m.FreeSteps, lists: Mapping[str, m.PriceList], want: Want) -> str:
    """A price list has no gaps, and reaches over the time for which something is free."""
    if not of_one.terms:
        return ""
    if of_one.terms not in lists or not (steps := lists[of_one.terms].steps):
        return "prices a resource by a list that it does not show"
    if any(before[1] != after[0] for before, after in pairwise(steps)):
        return "shows a price list with gaps"
    if any(start >= end for start, end, _ in steps):
        return "shows a price list out of order"
    if steps[0][0] > want.start or (of_one.steps and steps[-1][1] < of_one.until):
        return "prices another time than it was asked for"
    return ""


def _of_times(of_one: m.FreeSteps, want: Want) -> str:
    """Steps lie in order within what was asked, and before `until`; slots and hopes touch it."""
    if of_one.until > max(want.end, want.start):
        return "answers for a time that it was not asked for"
    for start, end, _ in of_one.steps:
        if not want.start <= start < end <= of_one.until:
            return "shows free time that it was not asked for"
    if any(before[1] > after[0] for before, after in pairwise(of_one.steps)):
        return "shows free times out of order"
    touched = (
        *((slot.start, slot.end) for slot in of_one.slots),
        *((start, end) for start, end, _ in of_one.waiting),
    )
    if not all(start < end and start < want.end and want.start < end for start, end in touched):
        return "lists resources that it was not asked for"
    return ""
