"""What the messages of a schedule tell of the slots of each resource, all of them together.

A slot is an instant: whatever is claimed covers it or does not. Of each resource those instants are
looked at that most requests wanted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kalends.contract import messages as m
from kalends.contract.common_times import report_in
from kalends.core.scripts import Ask, HeldChoice
from tests.simulation.line_books import PAUSE_MS
from tests.simulation.listening import TICK_BITS

RUN_MS_MAX: Final = 25_000 + PAUSE_MS
"""An agent's run, and the visits that are passed on, end before; the site may stand still meanwhile."""

AWAKE_MS: Final = 2_000
"""So soon after a site has begun to speak again it has done what was due while it stood still."""

LINE_MS: Final = 150_000
"""A place in a line, and room that is kept for it, last no longer after they were last asked for."""

INSTANTS_MAX: Final = 6
"""Slots of one resource that are looked at."""


@dataclass(slots=True)
class Exchange:
    """A message that reached a site, and its answer. A stale one is answered, but by no time."""

    site: str
    invoked: int
    message: Any
    answer: Any = None
    responded: int = -1


class Push(NamedTuple):
    """Said by the site unasked, of what it did after `since`."""

    site: str
    since: int
    moment: int
    message: Any


class Crash(NamedTuple):
    site: str
    moment: int


class Slot(NamedTuple):
    """An instant of a resource of capacity 1."""

    resource: str
    at: int

    def within(self, resource: str, start: int, end: int) -> bool:
        return resource == self.resource and start <= self.at < end


class Knowledge:
    """Of `log`, about resources of capacity 1 (`singles`)."""

    def __init__(self, log: Sequence[Exchange | Push | Crash], singles: frozenset[str]) -> None:
        self._singles = singles
        self.spans: dict[str, dict[tuple[str, str, int, int], None]] = defaultdict(dict)
        """By resource: site, request, start and end of all that was ever wanted."""
        self.slots: dict[tuple[str, str], list[Slot]] = defaultdict(list)
        """By site and request."""
        self.site_slots: dict[str, dict[Slot, None]] = defaultdict(dict)
        self.by_resource: dict[str, list[Slot]] = defaultdict(list)
        self.ids: dict[tuple[str, int], tuple[str, int, int]] = {}
        """By site and hold id: its resource, start and end."""
        self.visits: dict[tuple[str, str, int], m.Visit] = {}
        self._asks: dict[tuple[str, str, int], tuple[Ask, ...]] = {}
        self.unreported: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """When agents may have been held something that is not reported, by resource."""
        self.replaces: dict[str, str] = {}
        self.waits: dict[str, list[int]] = defaultdict(list)
        self._said = _moments_said(log)
        for entry in log:
            self._learn(entry)
        for resource, spans in sorted(self.spans.items()):
            self._choose(resource, spans)

    def _learn(self, entry: Exchange | Push | Crash) -> None:
        if isinstance(entry, Crash):
            return
        site = entry.site
        match entry.message:
            case m.Visit() as visit:
                self.visits[site, visit.rid, visit.att] = visit
                if visit.replaces:
                    self.replaces[visit.rid] = visit.replaces
                for want in visit.wants:
                    self._wanted(site, visit.rid, want.resource, want.start, want.end)
                if visit.queue:
                    self._note_waits(entry.invoked, visit.wants)
            case m.Dispatch() as dispatch:
                self._asks[site, dispatch.rid, dispatch.att] = dispatch.asks
                told = isinstance(entry, Exchange) and entry.answer is not None
                until = entry.responded if told else self._run_over(site, entry.invoked)
                for resource in {ask.resource for ask in dispatch.asks}:
                    self.unreported[resource].append((entry.invoked, until))
            case m.Await() as waits:
                self._note_waits(entry.invoked, waits.wants)
            case m.Grant() | m.Visited() as told:
                self._learn_held(site, told)
        if isinstance(entry, Exchange):
            if isinstance(entry.answer, m.Visited):
                self._learn_held(site, entry.answer)
            elif isinstance(entry.answer, m.Report):
                self._learn_chosen(site, entry.answer)
        elif isinstance(entry.message, m.Report):
            self._learn_chosen(site, entry.message)

    def _run_over(self, site: str, began: int) -> int:
        """When a run has surely ended of which nothing was reported: the site has spoken since."""
        over = began + (RUN_MS_MAX << TICK_BITS)
        said = self._said.get(site, [])
        awake = bisect_left(said, over)
        return (said[awake] if awake < len(said) else over) + (AWAKE_MS << TICK_BITS)

    def _learn_held(self, site: str, told: m.Grant | m.Visited) -> None:
        visit = self.visits.get((site, told.rid, told.att))
        for held in told.held if visit is not None else ():
            want = visit.wants[held.index]
            self.ids[site, held.hold_id] = (want.resource, want.start, want.end)

    def _learn_chosen(self, site: str, report: m.Report) -> None:
        asks = self._asks.get((site, report.rid, report.att), ())
        for held in own_report(site, report, asks):
            self._wanted(site, report.rid, held.resource, held.start, held.end)
            self.ids[site, held.hold_id] = (held.resource, held.start, held.end)

    def _wanted(self, site: str, rid: str, resource: str, start: int, end: int) -> None:
        if resource in self._singles:
            self.spans[resource][site, rid, start, end] = None

    def _choose(self, resource: str, spans: Iterable[tuple[str, str, int, int]]) -> None:
        """The instants that most requests wanted; most are wanted where some span begins."""
        wanted: dict[frozenset[tuple[str, str, int, int]], int] = {}
        for at in sorted({start for _, _, start, _ in spans}):
            covering = frozenset(span for span in spans if span[2] <= at < span[3])
            wanted.setdefault(covering, at)
        ranked = sorted(
            wanted, key=lambda all_: (-len({rid for _, rid, _, _ in all_}), wanted[all_])
        )
        for covering in ranked[:INSTANTS_MAX]:
            slot = Slot(resource, wanted[covering])
            self.by_resource[resource].append(slot)
            for site, rid in sorted({(site, rid) for site, rid, _, _ in covering}):
                self.slots[site, rid].append(slot)
                self.site_slots[site][slot] = None

    def _note_waits(self, moment: int, wants: Iterable[m.Want]) -> None:
        for want in wants:
            self.waits[want.resource].append(moment)

    def for_others(self, resource: str, entry: Exchange) -> bool:
        """Whether room may be kept for who waits, or held for an agent that has not reported yet."""
        waits = self.waits[resource]
        first = bisect_left(waits, entry.invoked - (LINE_MS << TICK_BITS))
        if first < len(waits) and waits[first] <= entry.responded:
            return True
        return any(
            since <= entry.responded and entry.invoked <= until
            for since, until in self.unreported[resource]
        )

    def ids_in(self, slot: Slot, site: str, hold_ids: Iterable[int]) -> frozenset[int]:
        return frozenset(
            hold_id
            for hold_id in hold_ids
            if (span := self.ids.get((site, hold_id))) is not None and slot.within(*span)
        )


def _moments_said(log: Sequence[Exchange | Push | Crash]) -> dict[str, list[int]]:
    """When each site is known to have spoken, in order."""
    said: dict[str, list[int]] = defaultdict(list)
    for entry in log:
        if isinstance(entry, Push):
            said[entry.site].append(entry.moment)
        elif isinstance(entry, Exchange) and entry.responded >= 0:
            said[entry.site].append(entry.responded)
    return {site: sorted(moments) for site, moments in said.items()}


def own_report(site: str, report: m.Report, asks: Sequence[Ask]) -> tuple[HeldChoice, ...]:
    """What `site` holds for a visit in which it was asked for `asks`; a hub keeps only what is common."""
    if report.common is None:
        return next((each.held for each in report.sites if each.site == site), ())
    own = report_in(report.common, 0, asks)
    return own.held if own is not None else ()
