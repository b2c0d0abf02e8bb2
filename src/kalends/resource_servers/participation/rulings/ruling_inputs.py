"""The input of an owner's script: plain data, made by the site from its own calendar.

Keys and lists come in one fixed order: the same site makes the same bytes, so that a recorded run is repeated
exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kalends.agents.world.views import Plain
from kalends.calendars import Booking, ResourceCalendar, weeks
from kalends.contract.fields import Want
from kalends.core.intervals import Interval
from kalends.core.principals import Principal
from kalends.core.times import zone_named
from kalends.resource_servers.participation.claims.buffers import unbuffered
from kalends.resource_servers.participation.claims.claim_sets import Claim

AROUND_S: Final = 7 * 86_400
"""Bookings this long before and after the slots are shown."""

TAKEN_MAX: Final = 200
"""Bookings shown, those that begin first."""


def ruling_arguments(
    calendar: ResourceCalendar,
    principal: Principal,
    wants: Sequence[Want],
    replaced: Iterable[Claim],
    rid: str,
    now_s: int,
) -> tuple[Plain, Plain, Plain]:
    """Return ``request``, ``calendar`` and ``usage`` of ``decide`` for `wants` on this resource.

    What the request `rid` holds itself is left out. What it `replaced` is shown as its own, and not counted.
    """
    name = calendar.info.name
    old = [each for each in replaced if each.resource == name]
    request = {
        "user": principal.user,
        "groups": sorted(principal.groups),
        "now": now_s - now_s % 60,
        "slots": [_slot(each) for each in wants],
        "replaces": [_slot(each) for each in old],
    }
    first, last = min(each.start for each in wants), max(each.end for each in wants)
    ours = {each.hold_id for each in old}
    near = [
        each
        for each in unbuffered(calendar.calendar.listing(max(first - AROUND_S, 0), last + AROUND_S))
        if each.reservation != rid and each.id not in ours
    ]
    info = calendar.info
    shown = {
        "resource": name,
        "capacity": info.capacity,
        "grain": info.grain_s,
        "zone": info.zone,
        "taken": [
            {**_slot(each), "state": each.state, "holder": each.holder} for each in near[:TAKEN_MAX]
        ],
    }
    week = next(weeks(first, first + 1, zone_named(info.zone)))
    return request, shown, _usage(near, principal.user, week)


def _usage(near: Sequence[Booking], user: str, week: Interval) -> Plain:
    """Return the unit-hours of the week in which the first slot begins, and the user's slots near it."""
    own = [each for each in near if each.holder == user]
    return {
        "user": {"near": len(own), "week_hours": _hours(own, week)},
        "all": {"near": len(near), "week_hours": _hours(near, week)},
    }


def _hours(bookings: Iterable[Booking], week: Interval) -> float:
    return sum(_unit_s(bookings, week)) / 3_600


def _unit_s(bookings: Iterable[Booking], week: Interval) -> Iterator[int]:
    for each in bookings:
        yield each.units * max(0, min(each.end, week.end) - max(each.start, week.start))


def _slot(each: Any) -> Plain:
    return {"start": each.start, "end": each.end, "units": each.units}
