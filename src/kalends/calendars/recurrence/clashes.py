"""Whether two recurring series are ever open at once, to the second, until the year 3000.

The answer is exact, because nothing is tried out. Three facts:

1. A window is open at an instant exactly when the latest time that the clock of its zone has shown
   by then (`zone_clocks`) lies between the window's local start and its local end.
2. So both series are open together for the first time at the first instant looked at, or where a
   local start is reached: by a clock that runs on to it, or by one that jumps over it. Clocks jump
   only where their stretches begin, and there both series are simply looked at.
3. Where one clock runs and the other stands, at most a few hours twice a year, the few starts
   are looked at too. Where both run, they stay a fixed time apart, and for each such distance a
   start at one time of day lies within the windows that start at another exactly when they started
   n days before, for a few n that are computed: one ``&`` of the shifted sets of days (`day_sets`)
   tells all days on which this is so, in a thousand years. Those that fall into a stretch with that
   distance are clashes, and there are no others.

Coprime intervals, leap days and positions thus need no case of their own, and "never" is an empty
set, not a search that was given up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from kalends.calendars.recurrence.day_sets import DailyStarts, text_of, within
from kalends.calendars.recurrence.recurrence import Recurrence
from kalends.calendars.recurrence.zone_clocks import DAY_S, FIRST_S, Stretch, stretch_at
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval

_NEAR_S = 3 * 366 * DAY_S
"""Distance within which most clashes occur: three years are searched before the rest."""

_ALWAYS = Recurrence("FREQ=DAILY", "00:00", DAY_S, "UTC")


class _Both(NamedTuple):
    """The state of both `clocks` in ``[start, end)``."""

    start: int
    end: int
    clocks: tuple[Stretch, Stretch]

    def ahead_s(self, side: int) -> int:
        """Return how far a running clock is ahead of UTC."""
        clock = self.clocks[side]
        return clock.shown - clock.start


def first_clash(one: Recurrence, other: Recurrence, not_before: int = 0) -> Interval | None:
    """Return the first time at or after `not_before` (seconds UTC) when `one` and `other` are both open.

    It begins with the first such second, and ends when the first of the two windows open then ends
    (of windows of one series that overlap, the one that lasts longest counts), or with the year
    2999. None: they are never open together; touching is no clash. Raises `InvalidInput` for a
    `not_before` that is no whole number of seconds from 1970 to 3000.
    """
    if type(not_before) is not int or not 0 <= not_before <= limits.TIME_S_MAX:
        raise InvalidInput(
            f"{not_before!r} is not a time from 1970 to 3000",
            where="not_before",
            remedy="give whole seconds since 1970",
        )
    if not one.starts() or not other.starts():
        return None
    reaches = [_reach(each) for each in (one, other)]
    begin = max(not_before, *(first for first, _ in reaches))
    end = min(limits.TIME_S_MAX, *(last for _, last in reaches))
    near = min(begin + _NEAR_S, end)
    for start, stop in ((begin, near), (near, end)):
        if start < stop:
            found = _first_clash_in(one, other, start, stop)
            if found is not None:
                return found
    return None


def first_clash_of_any(
    ones: Sequence[Recurrence], others: Sequence[Recurrence], not_before: int = 0
) -> Interval | None:
    """Return the first of all clashes of one of `ones` with one of `others`; of equals the longest."""
    clashes = (first_clash(one, other, not_before) for one, other in product(ones, others))
    found = [clash for clash in clashes if clash is not None]
    return min(found, key=lambda clash: (clash.start, -clash.end), default=None)


def is_ever_open(recurrences: Sequence[Recurrence]) -> bool:
    """Return whether any has a window that is not empty from 1970 to 3000: no 30th of February has."""
    return any(first_clash(each, _ALWAYS) is not None for each in recurrences)


class _Part:
    """The starts of a series from `day` on; bit 0 is that day, and times count from the first of all."""

    def __init__(self, recurrence: Recurrence, day: int, last_day: int) -> None:
        keep = (1 << (last_day - day)) - 1
        self.length_s = recurrence.duration_s
        self.starts = [
            DailyStarts(days >> day & keep, tuple(day * DAY_S + at_s for at_s in times_s))
            for days, times_s in recurrence.starts()
        ]
        self._texts = [(text_of(days), times_s) for days, times_s in self.starts]

    def is_open(self, shown: int) -> bool:
        """Return whether a window is open when its clock has shown `shown`."""
        return self.latest_start(shown) is not None

    def latest_start(self, shown: int) -> int | None:
        """Return the local start of the last window that is open when its clock has shown `shown`."""
        low, high = shown - self.length_s + 1, shown + 1
        found = [
            day * DAY_S + at_s
            for days, times_s in self._texts
            for at_s in times_s
            if (day := days.rfind("1", *_days_between(at_s, low, high))) >= 0
        ]
        return max(found, default=None)

    def first_start(self, low: int, high: int) -> int | None:
        """Return the first local start in ``[low, high)``."""
        found = [
            day * DAY_S + at_s
            for days, times_s in self._texts
            for at_s in times_s
            if (day := days.find("1", *_days_between(at_s, low, high))) >= 0
        ]
        return min(found, default=None)

    def starts_while_open(self, other: _Part, apart_s: int) -> Iterator[tuple[int, str]]:
        """Yield times of day with the days on which a window starts then while one of `other` is open.

        This clock runs `apart_s` ahead of the other's.
        """
        for (days, times_s), (other_days, other_times_s) in product(self.starts, other.starts):
            shared: dict[tuple[int, int], str] = {}
            for at_s, other_at_s in product(times_s, other_times_s):
                since_s = at_s - apart_s - other_at_s
                low, high = (since_s - other.length_s) // DAY_S + 1, since_s // DAY_S
                if low > high:
                    continue
                if (low, high) not in shared:
                    shared[low, high] = text_of(days & within(other_days, low, high))
                yield at_s, shared[low, high]


def _days_between(at_s: int, low: int, high: int) -> tuple[int, int]:
    """Return the days (half-open) whose time of day `at_s` lies in the local times ``[low, high)``."""
    return max(-((at_s - low) // DAY_S), 0), max(-((at_s - high) // DAY_S), 0)


def _reach(recurrence: Recurrence) -> tuple[int, int]:
    """Bounds in seconds UTC of all windows: clocks are less than a day off and skip at most one."""
    every = 0
    for days, _ in recurrence.starts():
        every |= days
    first, last = (every & -every).bit_length() - 1, every.bit_length() - 1
    opens, closes = FIRST_S + (first - 1) * DAY_S, FIRST_S + (last + 3) * DAY_S
    return opens, closes + recurrence.duration_s


def _first_clash_in(one: Recurrence, other: Recurrence, begin: int, end: int) -> Interval | None:
    longest_s = max(one.duration_s, other.duration_s)
    day = max((begin - FIRST_S - longest_s) // DAY_S - 2, 0)
    last_day = (end - FIRST_S) // DAY_S + 3
    parts = _Part(one, day, last_day), _Part(other, day, last_day)
    stretches = list(_stretches(one, other, begin, end))
    looked = _first_look(stretches, *parts)
    started = _first_start(stretches, *parts, end if looked is None else looked)
    found = looked if started is None else started
    if found is None:
        return None
    ends = [limits.TIME_S_MAX]
    (both,) = (each for each in stretches if each.start <= found < each.end)
    for recurrence, part, clock in zip((one, other), parts, both.clocks, strict=True):
        latest = part.latest_start(clock.shown_at(found))
        assert latest is not None
        ends.append(recurrence.closing(latest))
    return Interval(found, min(ends))


def _first_look(stretches: list[_Both], one: _Part, other: _Part) -> int | None:
    """Return the first clash that is there when a stretch begins, or that begins while one clock stands."""
    for start, end, (clock, other_clock) in stretches:
        shown, other_shown = clock.shown_at(start), other_clock.shown_at(start)
        is_open = one.is_open(shown)
        other_is_open = (is_open or not other_clock.runs) and other.is_open(other_shown)
        if is_open and other_is_open:
            return start
        local = None
        if is_open and other_clock.runs and not clock.runs:
            local = other.first_start(other_shown, other_shown + end - start)
        if other_is_open and clock.runs and not other_clock.runs:
            local, other_shown = one.first_start(shown, shown + end - start), shown
        if local is not None:
            return start + local - other_shown
    return None


def _first_start(stretches: list[_Both], one: _Part, other: _Part, before: int) -> int | None:
    """Return the first start of either, before `before`, while the other is open and both clocks run."""
    by_distance = defaultdict[int, list[_Both]](list)
    for both in stretches:
        if both.start < before and all(clock.runs for clock in both.clocks):
            by_distance[both.ahead_s(0) - both.ahead_s(1)].append(both)
    first = before
    for apart_s, together in by_distance.items():
        for side, at_s, days in (
            *((0, *each) for each in one.starts_while_open(other, apart_s)),
            *((1, *each) for each in other.starts_while_open(one, -apart_s)),
        ):
            for both in together:
                if both.start >= first:
                    break
                ahead_s = both.ahead_s(side)
                between = _days_between(at_s, both.start + ahead_s, both.end + ahead_s)
                day = days.find("1", *between)
                if day >= 0:
                    first = min(first, day * DAY_S + at_s - ahead_s)
                    break
    return first if first < before else None


def _stretches(one: Recurrence, other: Recurrence, begin: int, end: int) -> Iterator[_Both]:
    """Yield the states of both clocks from `begin` to `end`."""
    clock, other_clock = one.clock(), other.clock()
    index, other_index = stretch_at(clock, begin), stretch_at(other_clock, begin)
    while begin < end:
        now, other_now = clock[index], other_clock[other_index]
        until = min(now.end, other_now.end, end)
        yield _Both(begin, until, (now, other_now))
        index += now.end == until
        other_index += other_now.end == until
        begin = until
