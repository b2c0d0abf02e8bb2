"""Bookings that prevent an owner from making a resource smaller, or removing it.

What is promised there and not over is never broken: the change is refused, and names who has to go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kalends.calendars import AccessList, Booking, ResourceCalendar
from kalends.calendars.covers import Lack, fewest
from kalends.core.errors import Conflict
from kalends.core.identifiers import short_id, split_resource
from kalends.core.limits import UNITS_MAX
from kalends.core.resources import ResourceInfo
from kalends.core.times import format_time

NAMED_MAX: Final = 10
"""Bookings that a refusal names; the others it counts."""


def in_the_way(bookings: Iterable[Booking], capacity: int, now_s: int) -> list[Booking]:
    """Return the fewest bookings without which the others fit into `capacity` from now on, by start."""
    coming = sorted(
        (each for each in bookings if each.end > now_s), key=lambda each: (each.start, each.id)
    )
    changes = [(each.end, 0, place) for place, each in enumerate(coming)]
    changes += [(max(each.start, now_s), 1, place) for place, each in enumerate(coming)]
    there: dict[int, int] = {}
    lacks = []
    for _, begins, place in sorted(changes):
        if not begins:
            del there[place]
            continue
        there[place] = coming[place].units
        lack = sum(there.values()) - capacity
        if lack > 0:
            lacks.append(Lack(lack, dict(there)))
    return [coming[place] for place in sorted(fewest(lacks).places)]


def too_small(info: ResourceInfo, standing: Sequence[Booking]) -> Conflict:
    """Return why the resource cannot have the capacity of `info`, for what is `standing` in the way."""
    return Conflict(
        f"{info.name} cannot have {info.capacity} units yet: {_named(standing, info.zone)}",
        where=f"site.resources.{split_resource(info.name)[1]}.capacity",
        remedy="restore its earlier capacity, and reclaim the units to remove, from their last day: "
        f"kalends admin reclaim {info.name} --units N --at TIME --for 366d; reduce the capacity after that",
    )


def still_booked(name: str, zone: str, standing: Sequence[Booking]) -> Conflict:
    """Return why the resource `name` cannot be taken away, for what is `standing` there."""
    return Conflict(
        f"{name} is still booked, but no longer configured: {_named(standing, zone)}",
        where=f"site.resources.{split_resource(name)[1]}",
        remedy="configure it as before, and reclaim it from its last day: "
        f"kalends admin reclaim {name} --at TIME --for 366d; remove it after that",
    )


def retired(name: str) -> ResourceCalendar:
    """Return a calendar for what is over of a resource that is no more: nobody sees it, or can book there."""
    info = ResourceInfo(name=name, capacity=UNITS_MAX, grain_s=1)
    return ResourceCalendar(info, AccessList([]))


def _named(standing: Sequence[Booking], zone: str) -> str:
    named = [
        f"{short_id(each.reservation)} of {each.holder or 'the owner'} ({each.state}, {each.units} unit"
        f"{'s' * (each.units > 1)} from {format_time(each.start, zone)}"
        f" to {format_time(each.end - each.gap_s, zone)})"
        for each in standing[:NAMED_MAX]
    ]
    more = len(standing) - len(named)
    return ", ".join([*named, f"and {more} more"] if more else named)
