"""One preference that requests cannot say, twice: as an agent, and as a program without one.

The earliest of those starts, within working hours from Tuesday to Thursday and not next to lunch, that
leave the most units free. Days and hours are those of the owner's time zone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from itertools import islice, takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from kalends.contract.calls import CalendarView

AGENT: Final = '''\
"""The start that leaves the most units free: working hours, Tuesday to Thursday, clear of lunch."""


def suits(slot, zone):
    begins = time_of_day(slot["start"], zone)
    ends = begins + (slot["end"] - slot["start"]) // minutes(1)
    in_hours = clock("09:00") <= begins and ends <= clock("17:00")
    by_lunch = begins <= clock("13:00") and clock("12:00") <= ends
    return in_hours and not by_lunch and 1 <= weekday(slot["start"], zone) <= 3


def choose(view, request):
    wanted = []
    for slot in view["slots"]:
        if suits(slot, view["resources"][slot["resource"]]["zone"]):
            wanted.append(slot)
    wanted = sorted(wanted, key=lambda slot: (-slot["free"], slot["start"]))
    return [slot["id"] for slot in wanted]
'''

_NINE, _NOON, _ONE, _FIVE = 9 * 60, 12 * 60, 13 * 60, 17 * 60
_TUESDAY, _THURSDAY = 1, 3


class Wish(NamedTuple):
    """`units` for `length_s` within ``[first, last + length_s)``, on each resource."""

    units: int
    length_s: int
    first: int
    last: int


def suits(start: int, length_s: int, zone: ZoneInfo) -> bool:
    local = datetime.fromtimestamp(start, zone)
    begins = local.hour * 60 + local.minute
    ends = begins + length_s // 60
    in_hours = begins >= _NINE and ends <= _FIVE
    by_lunch = begins <= _ONE and ends >= _NOON
    return in_hours and not by_lunch and _TUESDAY <= local.weekday() <= _THURSDAY


def ranked(pieces: Sequence[CalendarView], wish: Wish) -> list[int]:
    """The starts that suit and are free in one calendar, best first: what the agent would answer there.

    `pieces` are views of it, of times that do not overlap; a slot must be free within one of them.
    """
    zone, grain_s = ZoneInfo(pieces[0].resource.zone), pieces[0].resource.grain_s
    best = []
    for start in range(wish.first + -wish.first % grain_s, wish.last + 1, grain_s):
        if suits(start, wish.length_s, zone):
            end = start + wish.length_s
            free = max(_least_free(piece.free, start, end) for piece in pieces)
            if free >= wish.units:
                best.append((-free, start))
    return [start for _, start in sorted(best)]


def working_hours(wish: Wish, zone: ZoneInfo) -> list[tuple[int, int]]:
    """The hours of the wish's days outside of which nothing suits: ``(start, end)`` of each."""
    days = []
    day = datetime.fromtimestamp(wish.first, zone).date()
    while (opens := datetime.combine(day, time(9), zone)).timestamp() <= wish.last:
        closes = datetime.combine(day, time(17), zone)
        if _TUESDAY <= day.weekday() <= _THURSDAY:
            start = max(int(opens.timestamp()), wish.first)
            end = min(int(closes.timestamp()), wish.last + wish.length_s)
            if start < end:
                days.append((start, end))
        day += timedelta(days=1)
    return days


def _least_free(steps: Sequence[tuple[int, int, int]], start: int, end: int) -> int:
    """The units that are free all through ``[start, end)``."""
    first = bisect_right(steps, start, key=lambda step: step[1])
    within = list(takewhile(lambda step: step[0] < end, islice(steps, first, None)))
    covered_s = sum(min(step[1], end) - max(step[0], start) for step in within)
    return min(step[2] for step in within) if covered_s == end - start else 0


def together(rankings: Sequence[Sequence[int]]) -> list[int]:
    """The starts in all `rankings`, best first: least sum of places, then earliest.

    So a broker chooses among what agents hold at several sites
    (`kalends.broker.coordination.agents.agent_choice`).
    """
    places = [{start: place for place, start in enumerate(ranking)} for ranking in rankings]
    shared = set(places[0]).intersection(*places[1:])
    return sorted(shared, key=lambda start: (sum(place[start] for place in places), start))
