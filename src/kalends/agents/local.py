"""The agents' world without a site: printed calendars, and the calls that a site would make.

What ``kalends calendar RESOURCE --json`` prints is what an agent would be shown; jobs made from it
hold what a site's hold, save that the broker may lay the grid of starts a little differently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from kalends.agents.runs import ScriptRun
from kalends.agents.world.feasible_starts import round_step_s
from kalends.agents.world.offers import Offer, offers
from kalends.agents.world.views import Asker, choose_arguments, recall_arguments
from kalends.agents.world.visible_calendar import Shown
from kalends.agents.world.zones import zones_of
from kalends.contract.calls import CalendarView
from kalends.core import limits
from kalends.core.attributes import described, matches
from kalends.core.conversion import convert
from kalends.core.errors import InvalidInput
from kalends.core.grains import grain_of
from kalends.core.identifiers import split_resource
from kalends.core.language import format_alternatives
from kalends.core.progressions import Beat
from kalends.core.requests import Request, span
from kalends.core.scripts import Ask, Starts

HELD_MAX: Final = 16
"""Maximum number of slots held by a visit, by default."""

_REMEDY: Final = "give the output of kalends calendar RESOURCE --json"


def load_calendars(text: str) -> dict[str, Shown]:
    """Return the calendars in `text`: one printed calendar, several one behind the other, or a list of them.

    Raises `InvalidInput` (`where` is the calendar's place, from 0) for anything else, and for a
    resource that is there twice.
    """
    shown: dict[str, Shown] = {}
    for place, envelope in enumerate(_envelopes(text)):
        where = f"calendars[{place}]"
        if not isinstance(envelope, dict) or envelope.get("kind") != "calendar":
            raise InvalidInput(
                "not output of `kalends calendar --json`", where=where, remedy=_REMEDY
            )
        if envelope.get("version") != 1:
            raise InvalidInput(
                "print it again: this program reads version 1 of calendars",
                where=where,
                remedy=_REMEDY,
            )
        view = convert(envelope.get("data"), CalendarView)
        split_resource(view.resource.name)
        if view.resource.name in shown:
            raise InvalidInput(
                f"{view.resource.name} occurs twice", where=where, remedy="give it once"
            )
        times = [time_s for start, end, _ in view.free for time_s in (start, end)]
        if times != sorted(times) or not all(0 <= each <= limits.TIME_S_MAX for each in times):
            raise InvalidInput(
                "its free steps are not in order, or not between the years 1970 and 3000",
                where=where,
                remedy=_REMEDY,
            )
        shown[view.resource.name] = Shown(view.resource, view.free, view.slots, prices=view.prices)
    if not shown:
        raise InvalidInput("the calendar is missing", where="calendars", remedy=_REMEDY)
    return shown


def by_site(shown: Mapping[str, Shown]) -> dict[str, dict[str, Shown]]:
    """Group `shown` by site, in order of their names: a script runs once at each."""
    sites: dict[str, dict[str, Shown]] = {}
    for name in sorted(shown):
        sites.setdefault(split_resource(name)[0], {})[name] = shown[name]
    return sites


def job_of(
    source: str, shown: Mapping[str, Shown], request: Request, user: str, round: int,
    inbox: Sequence[Any], wall_s: int,
) -> tuple[ScriptRun, list[Offer]]:  # fmt: skip
    """Return the call of ``choose`` for `request` at the one site of `shown`, and the slots it is shown.

    Raises `InvalidInput` where `shown` is of several sites, or has nothing that the request asks for.
    """
    site = _site_of(shown)
    seen = _as_seen(shown, user)
    asks = asks_of(request, seen)
    starts = starts_of(request, seen, asks, wall_s)
    found = offers(seen, asks, starts, limits.OFFERS_MAX)
    asked = {ask.resource: seen[ask.resource] for ask in asks}
    text = format_alternatives(request.alternatives)
    arguments = choose_arguments(
        site, user, asked, found, asks, starts, text, request.arguments, round, HELD_MAX, wall_s
    )
    first = max(0, min(starts.first + ask.offset_s for ask in asks))
    last = max(starts.last + ask.offset_s + ask.length_s for ask in asks)
    zones = zones_of(asked, first, last, request.arguments)
    return ScriptRun(user, source, "choose", arguments, tuple(inbox), zones), found


def recall_job_of(
    source: str, shown: Mapping[str, Shown], request: Request, user: str,
    held: Iterable[Offer], recalled: int, asker: Asker, inbox: Sequence[Any], wall_s: int,
) -> ScriptRun:  # fmt: skip
    """Return the call of ``recall`` when `asker` wants the slot `recalled` of all that are `held`.

    Raises `InvalidInput` for a slot that is not held.
    """
    site = _site_of(shown)
    holds = {offer.id: offer.held_as(offer.id + 1) for offer in held}
    if recalled not in holds:
        raise InvalidInput(
            f"slot {recalled} is not held by the script",
            where="slot",
            remedy=f"those held are {', '.join(str(number) for number in sorted(holds)) or 'none'}",
        )
    seen = _as_seen(shown, user)
    asked = {ask.resource: seen[ask.resource] for ask in asks_of(request, seen)}
    arguments = recall_arguments(site, asked, holds.values(), recalled + 1, asker, HELD_MAX, wall_s)
    first = min(hold.start for hold in holds.values())
    last = max(hold.end for hold in holds.values())
    zones = zones_of(asked, first, last, request.arguments)
    return ScriptRun(user, source, "recall", arguments, tuple(inbox), zones)


def asks_of(request: Request, shown: Mapping[str, Shown]) -> tuple[Ask, ...]:
    """Return the demands of the request's first alternative on the resources that are `shown`.

    Raises `InvalidInput` where it asks nothing of them.
    """
    asks = []
    for number, term in enumerate(request.alternatives[0].terms):
        for name in sorted(shown):
            info = shown[name].info
            suits = (
                name == term.resource
                if term.resource
                else (info.capacity >= term.units and matches(described(info), term.attributes))
            )
            if suits:
                length_s = term.duration_s or request.duration_s
                asks.append(
                    Ask(term=number, resource=name, length_s=length_s, units=term.units,
                        offset_s=term.offset_s)
                )  # fmt: skip
    if not asks:
        raise InvalidInput(
            f"the request needs nothing of {', '.join(sorted(shown))}",
            where="request",
            remedy="give the calendar of a resource in the request",
        )
    return tuple(asks[: limits.CLAIMS_MAX])


def starts_of(
    request: Request, shown: Mapping[str, Shown], asks: Sequence[Ask], wall_s: int
) -> Starts:
    """Return the grid of common starts: on everyone's grain, as round and as fine as a broker's.

    A request without an end is looked at for as long as its calendars reach.
    """
    lead_s, tail_s = span(request)
    known = max((step[1] for ask in asks for step in shown[ask.resource].free), default=wall_s)
    first = max(request.not_before - lead_s, wall_s - lead_s, 0)
    last = max((request.not_after or known) - tail_s, first)
    grains = ((ask, grain_of(shown[ask.resource].info)) for ask in asks)
    beats = (
        Beat(grain.seconds, (-grain.phase_s - ask.offset_s) % grain.seconds)
        for ask, grain in grains
    )
    beat = reduce(lambda joint, own: joint.both(own) or joint, beats, Beat(1, 0))
    most = max(1, limits.OFFERS_MAX // len(asks))
    step_s = round_step_s(beat.modulus, last - first, most)
    begin = Beat(step_s, beat.remainder % step_s).next(first)
    if begin > last:
        begin = min(beat.next(first), last)
    return Starts(first=begin, last=last, step_s=min(step_s, limits.WINDOW_S_MAX))


def _as_seen(shown: Mapping[str, Shown], user: str) -> dict[str, Shown]:
    return {name: here._replace(user=user) for name, here in shown.items()}


def _site_of(shown: Mapping[str, Shown]) -> str:
    sites = by_site(shown)
    if len(sites) != 1:
        raise InvalidInput(
            f"calendars of {len(sites)} sites: {', '.join(sites)}",
            where="calendars",
            remedy="a script runs at each site alone: give the calendars of one site",
        )
    return next(iter(sites))


def _envelopes(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    at = 0
    text = text.strip()
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            # Numbers of 5,000 digits are a bare ValueError.
            raise InvalidInput("not JSON", where="calendars", remedy=_REMEDY) from error
        yield from value if isinstance(value, list) else [value]
        while at < len(text) and text[at].isspace():
            at += 1
