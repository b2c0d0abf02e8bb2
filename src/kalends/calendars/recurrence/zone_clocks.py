"""The most that the clock of a zone has shown by any instant, from 1968 to 3000.

A local time is the first instant at which the clock shows it or a later time. So whether a local
time has come is told by the latest time that the clock has shown so far: it runs with the clock,
jumps with it in spring, and stands in autumn while the clock goes through an hour again. It never
goes back, which makes windows on local clocks ordinary intervals of what it shows.

The changes of a zone are found by asking for its offset at every local noon, then by bisection; two
changes between one noon and the next are found unless they cancel. The tables of the time zone
database end before the year 2100. Beyond, a zone follows a rule that looks only at which weekdays
the dates of a year fall on, so one year of each kind tells them all.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

DAY_S: Final = 86_400
FIRST_DAY: Final = date(1968, 1, 1)
"""Day 0. Earlier than any window that reaches 1970."""

FIRST_S: Final = -731 * DAY_S
"""The seconds UTC at which day 0 begins in UTC."""

YEARS: Final = range(1968, 3001)
_FIRST_YEAR_BY_RULE: Final = 2100
_NOON: Final = time(12)


class Stretch(NamedTuple):
    """A stretch ``[start, end)`` (seconds UTC) in which the clock `runs` on from `shown`, or stands.

    `shown` counts the local seconds from the midnight with which `FIRST_DAY` begins.
    """

    start: int
    end: int
    shown: int
    runs: bool

    def shown_at(self, time_s: int) -> int:
        return self.shown + (time_s - self.start if self.runs else 0)


def year_kind(year: int) -> tuple[int, bool, bool]:
    """Return the kind of a year; years of one kind have the same dates on the same weekdays."""
    return date(year, 1, 1).weekday(), isleap(year - 1), isleap(year)


def stretch_at(clock: tuple[Stretch, ...], time_s: int) -> int:
    """Return the index of the stretch of `clock` that `time_s` lies in."""
    return bisect_right(clock, time_s, key=lambda stretch: stretch.start) - 1


@lru_cache(maxsize=64)
def clock_of(zone: ZoneInfo) -> tuple[Stretch, ...]:
    """Return all stretches of the clock of `zone`, in order and without gaps; some 15 ms for a new zone."""
    return tuple(_stretches(_changes(zone)))


def _stretches(changes: list[tuple[int, int]]) -> Iterator[Stretch]:
    latest = changes[0][0] + changes[0][1] - 1
    for (start, offset_s), (end, _) in pairwise(changes):
        if start + offset_s <= latest:
            resumes = min(latest + 1 - offset_s, end)
            yield Stretch(start, resumes, latest - FIRST_S, runs=False)
            start = resumes
        if start < end:
            yield Stretch(start, end, start + offset_s - FIRST_S, runs=True)
            latest = end + offset_s - 1


def _changes(zone: ZoneInfo) -> list[tuple[int, int]]:
    """Return when offsets begin, and the offsets; the last entry is the end of the table."""
    found = [(FIRST_S, _offset_s(zone, FIRST_S))]
    by_kind: dict[tuple[int, bool, bool], list[tuple[int, int]]] = {}
    for year in YEARS:
        begins = int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
        if year < _FIRST_YEAR_BY_RULE:
            changes = _changes_in(zone, year, begins)
        else:
            kind = year_kind(year)
            if kind not in by_kind:
                by_kind[kind] = _changes_in(zone, year, begins)
            changes = by_kind[kind]
        found.extend((begins + after_s, offset_s) for after_s, offset_s in changes)
    last = int(datetime(YEARS[-1] + 1, 1, 1, tzinfo=UTC).timestamp())
    return [*(each for each in found if FIRST_S <= each[0] < last), (last, 0)]


def _changes_in(zone: ZoneInfo, year: int, begins: int) -> list[tuple[int, int]]:
    """Return changes from the last noon before `year` to its last, in seconds after `begins`."""
    noon = datetime.combine(date(year - 1, 12, 31), _NOON)
    offsets = [zone.utcoffset(noon + timedelta(day)) for day in range(366 + isleap(year))]
    found: list[tuple[int, int]] = []
    for day, (before, after) in enumerate(pairwise(offsets)):
        if before != after:
            at = begins + day * DAY_S - DAY_S // 2
            low, offset_s = at - _seconds(before), _seconds(before)
            if _offset_s(zone, low) != offset_s:
                low -= DAY_S  # This noon was skipped, as part of a whole day.
            while offset_s != _seconds(after):
                low, offset_s = _next_change(zone, low, at + DAY_S - _seconds(after), offset_s)
                found.append((low - begins, offset_s))
    return found


def _next_change(zone: ZoneInfo, low: int, high: int, offset_s: int) -> tuple[int, int]:
    times = range(low, high)
    change = low + bisect_left(times, True, key=lambda at: _offset_s(zone, at) != offset_s)
    return change, _offset_s(zone, change)


def _offset_s(zone: ZoneInfo, time_s: int) -> int:
    return _seconds(datetime.fromtimestamp(time_s, zone).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(seconds=1)
