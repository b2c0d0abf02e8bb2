"""Real calendars for agents, the visit that a site would make of them, and a run of a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from kalends.agents.runs import RunOutcome, ScriptRun
from kalends.agents.sandbox.language_only import LanguageOnly
from kalends.agents.world.offers import Offer, offers
from kalends.agents.world.views import choose_arguments
from kalends.agents.world.visible_calendar import Shown, look
from kalends.agents.world.zones import zones_of
from kalends.calendars import ResourceCalendar, open_access
from kalends.core.principals import Principal
from kalends.core.resources import AttributeValue, ResourceInfo
from kalends.core.scripts import Ask, Starts
from tests.support.bookings import booking

ADA = Principal(user="ada")
DAY_S = 86_400


def at(text: str) -> int:
    """ "2027-01-11 09:30" in UTC, as seconds; that day is a Monday."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


MONDAY = at("2027-01-11 00:00")


class Taken(NamedTuple):
    start: int
    end: int
    units: int = 1
    holder: str = "bob"


def calendar(
    name: str,
    taken: Iterable[Taken] = (),
    *,
    capacity: int = 1,
    grain_s: int = 300,
    zone: str = "UTC",
    attributes: Mapping[str, AttributeValue] | None = None,
) -> ResourceCalendar:
    info = ResourceInfo(
        name=name, capacity=capacity, grain_s=grain_s, zone=zone, attributes=dict(attributes or {})
    )
    made = ResourceCalendar(info, open_access())
    for number, slot in enumerate(taken, start=1):
        made.book(
            booking(
                number, slot.start, slot.end, units=slot.units, state="locked", holder=slot.holder,
                reservation=f"r{number}",
            )
        )  # fmt: skip
    return made


class Visit(NamedTuple):
    """A visit of `ADA` to the site "here", which has looked and made its offers."""

    shown: dict[str, Shown]
    asks: tuple[Ask, ...]
    starts: Starts
    offers: list[Offer]

    def job(
        self, source: str, arguments: Mapping[str, Any] | None = None, **more: Any
    ) -> ScriptRun:
        call = choose_arguments(
            "here", "ada", self.shown, self.offers, self.asks, self.starts, "text",
            arguments or {}, 1, 16, MONDAY,
        )  # fmt: skip
        zones = zones_of(self.shown, self.starts.first, self.starts.last, arguments or {})
        return ScriptRun("ada", source, "choose", call, zones=zones, **more)


def visit(
    calendars: Iterable[ResourceCalendar],
    asks: Sequence[Ask],
    first: int = MONDAY,
    last: int = MONDAY + 7 * DAY_S,
    step_s: int = 1_800,
    count_max: int = 1_000,
) -> Visit:
    starts = Starts(first=first, last=last, step_s=step_s)
    begin = min(ask.offset_s for ask in asks) + first
    end = max(ask.offset_s + ask.length_s for ask in asks) + last
    shown = {}
    for each in calendars:
        here = look(each, ADA, begin, end, MONDAY)
        assert here is not None
        shown[each.info.name] = here
    return Visit(shown, tuple(asks), starts, offers(shown, asks, starts, count_max))


async def run(job: ScriptRun) -> RunOutcome:
    return await LanguageOnly().run(job)


async def chosen(
    source: str, visited: Visit, arguments: Mapping[str, Any] | None = None
) -> list[Offer]:
    """The slots that `source` chooses, in its order."""
    outcome = await run(visited.job(source, arguments))
    assert (outcome.code, outcome.detail) == ("ok", "")
    return [visited.offers[number] for number in outcome.answer]
