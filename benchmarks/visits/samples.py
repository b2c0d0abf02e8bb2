"""A calendar with bookings in it, what an agent is shown of it, and the script that looks through it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from kalends.agents.runs import ScriptRun
from kalends.agents.world import offers, views, visible_calendar, zones
from kalends.calendars import ResourceCalendar
from kalends.calendars.bookings import Booking
from kalends.calendars.rules.access import open_access
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.core.scripts import Ask, Starts

HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
FIRST_S: Final = 1_800_000_000
"""A Friday in 2027, 08:00 UTC: midnight in California."""

CAPACITY: Final = 128
GRAIN_S: Final = 600
UNITS: Final = 16
HELD_MAX: Final = 16
BOOKINGS: Final = 100

FILTER: Final = '''\
"""Free enough, in working hours, clear of lunch, on a day of work: by room, then by time."""


def suits(slot, zone):
    begins = time_of_day(slot["start"], zone)
    ends = begins + (slot["end"] - slot["start"]) // minutes(1)
    if begins < clock("09:00") or ends > clock("17:00"):
        return False
    if begins <= clock("13:00") and ends >= clock("12:00"):
        return False
    return weekday(slot["start"], zone) < 5


def choose(view, request):
    spare = request["arguments"].get("spare", 0)
    wanted = []
    for slot in view["slots"]:
        zone = view["resources"][slot["resource"]]["zone"]
        if slot["free"] - slot["units"] >= spare and suits(slot, zone):
            wanted.append(slot)
    return [slot["id"] for slot in sorted(wanted, key=by("free", "start"))]
'''
"""Twenty lines, as people write them."""


def calendar(
    name: str, bookings: int, seed: int = 1, *,
    grain_s: int = GRAIN_S, zone: str = "America/Los_Angeles", amounts: Sequence[int] = range(1, 9),
) -> ResourceCalendar:  # fmt: skip
    """`bookings` of 1 to 4 hours and some of 128 units, somewhere within ten days of `FIRST_S`."""
    info = ResourceInfo(
        name=name, capacity=CAPACITY, grain_s=grain_s, zone=zone, attributes={"kind": "cluster"}
    )
    made = ResourceCalendar(info, open_access())
    chosen = random.Random(seed)
    for number in range(bookings):
        start = FIRST_S + chosen.randrange(10 * DAY_S // grain_s) * grain_s
        booking = Booking(
            id=number + 1,
            start=start,
            end=start + chosen.randint(1, 4) * HOUR_S,
            units=chosen.choice(amounts),
            state="locked",
            holder="somebody",
            reservation="",
        )
        if made.free(booking.start, booking.end) >= booking.units:
            made.book(booking)
    return made


def choosing(
    source: str,
    here: ResourceCalendar,
    *,
    slots: int,
    user: str = "ada",
    units: int = UNITS,
    length_s: int = HOUR_S,
) -> ScriptRun:
    """`source` is to choose among so many slots of `here`, as a site would ask it."""
    name, step_s = here.info.name, here.info.grain_s
    asks = (Ask(term=0, resource=name, length_s=length_s, units=units),)
    starts = Starts(first=FIRST_S, last=FIRST_S + (slots - 1) * step_s, step_s=step_s)
    end = starts.last + length_s
    seen = visible_calendar.look(here, Principal(user), FIRST_S, end, FIRST_S)
    assert seen is not None
    world = {name: seen}
    found = offers.offers(world, asks, starts, slots)
    arguments = views.choose_arguments(
        name.partition("/")[0], user, world, found, asks, starts, f"{name}:{units}", {}, 1,
        HELD_MAX, FIRST_S,
    )  # fmt: skip
    return ScriptRun(user, source, "choose", arguments, zones=zones.zones_of(world, FIRST_S, end))
