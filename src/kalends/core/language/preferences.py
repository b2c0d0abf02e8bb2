"""Preferred times in everyday words, in a named zone, and the absolute windows that they mean.

============================ ==================================================================
written                      a start is preferred
============================ ==================================================================
``mornings``                 06:00-12:00 on the clocks of the zone; ``afternoons`` 12:00-18:00,
                             ``evenings`` 18:00-22:00, ``nights`` 22:00-06:00
``09:00-12:00``              then, every day; ``22:00-06:00`` ends on the day after
``weekdays`` ``fri``         on Monday to Friday, on every Friday; also ``weekends``, ``mon-thu``,
                             ``mon,wed,fri``
``2026-11-27`` ``tomorrow``  on that day
``mon-thu 09:00-12:00``      days and times together, as ``tomorrow afternoon``
``before 2026-12-01``        before then; also ``after mon 09:00`` (see `kalends.core.times`)
``mon 09:00 .. wed 12:00``   between the two
============================ ==================================================================

A weight may follow (``fri -2``); without one it is 1. A time of day means what the clocks show: where
they show an hour twice, both count; what they skip is missing. A night belongs to the day on which it
begins.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval, joined
from kalends.core.requests import Request, TimePreference, span
from kalends.core.times import format_time, parse_time, parse_window, weekday_named

OPEN_WINDOW_S: Final = 56 * 86_400
"""Horizon of preferences in a window without an end: eight weeks."""

_DAY_S: Final = 86_400
_TEXT_MAX: Final = 200
_PROBE_S: Final = 6 * 3_600
"""Interval between probes of the UTC offset; two changes within it are found unless they cancel."""

_TIMES_OF_DAY: Final = {
    "morning": (6 * 3_600, 12 * 3_600),
    "afternoon": (12 * 3_600, 18 * 3_600),
    "evening": (18 * 3_600, 22 * 3_600),
    "night": (22 * 3_600, 30 * 3_600),
}
_DAY_SETS: Final = {"weekday": range(5), "weekend": range(5, 7)}
_RELATIVE_DAYS: Final = {"today": 0, "tomorrow": 1}
_NAMES: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ALL_DAY: Final = (0, _DAY_S)
_EVERY_DAY: Final = frozenset(range(7))
_THURSDAY: Final = 3
"""Day 0, 1970-01-01."""

_WEIGHT = re.compile(r"(.*\S)\s+([+-][0-9]{1,6}(?:\.[0-9]{1,6})?)")
_BARE_NUMBER = re.compile(r"(.*\S)\s+([0-9]+(?:\.[0-9]+)?)")
_CLOCKS = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_REMEDY: Final = (
    "write mornings, weekdays, fri, mon-thu 09:00-12:00, 2026-11-27, tomorrow afternoon, "
    "before 2026-12-01 or START .. END; a weight may follow: fri -2"
)


class Preference(NamedTuple):
    """One parsed phrase: starts on these days, at these times of day, within these bounds.

    `weekdays` (0 is Monday) are any of, `days` a single day, counted from 1970-01-01 (None: any);
    `clock` is seconds from a day's midnight, its end perhaps on the day after; `bounds` seconds UTC.
    """

    weight: float
    zone: ZoneInfo
    weekdays: frozenset[int] = _EVERY_DAY
    day: int | None = None
    clock: tuple[int, int] = _ALL_DAY
    bounds: Interval | None = None

    def windows(self, start: int, end: int) -> list[Interval]:
        """Return where in ``[start, end)`` a start is preferred: sorted, disjoint, not touching."""
        if self.bounds is not None:
            start, end = max(start, self.bounds.start), min(end, self.bounds.end)
        return joined(
            (window.start - offset_s, window.end - offset_s)
            for low, high, offset_s in _stretches(start, end, self.zone)
            for window in self._shown(low + offset_s, high + offset_s)
        )

    def describe(self) -> str:
        """Format in full: ``Mon-Thu 09:00-12:00 (Europe/Berlin)``."""
        if self.bounds is not None:
            return _bounds_words(self.bounds, self.zone)
        if self.day is not None:
            shown = date(1970, 1, 1) + timedelta(self.day)
            days = f"{_NAMES[shown.weekday()]} {shown.isoformat()}"
        else:
            days = _weekdays_words(self.weekdays)
        times = (
            "" if self.clock == _ALL_DAY else f" {_clock(self.clock[0])}-{_clock(self.clock[1])}"
        )
        return f"{days}{times} ({self.zone.key})"

    def _shown(self, low: int, high: int) -> Iterator[Interval]:
        """Yield the windows in seconds that the clocks show, while they run evenly from `low` to `high`."""
        opens_s, closes_s = self.clock
        for day in range((low - closes_s) // _DAY_S, high // _DAY_S + 1):
            chosen = day == self.day if self.day is not None else _weekday(day) in self.weekdays
            opens = max(day * _DAY_S + opens_s, low)
            closes = min(day * _DAY_S + closes_s, high)
            if chosen and opens < closes:
                yield Interval(opens, closes)


def parse_preference(text: str, *, now_s: int, zone: ZoneInfo, where: str = "prefer") -> Preference:
    """Return the preference that `text` means at `now_s` in `zone`, by the table of the module.

    Raises `InvalidInput` (at `where`) for a text that cannot be understood.
    """
    if len(text) > _TEXT_MAX:
        raise InvalidInput("too long for a preference", where=where, remedy=_REMEDY)
    weight, phrase = 1.0, text.strip()
    if weighted := _WEIGHT.fullmatch(phrase):
        phrase, weight = weighted[1], float(weighted[2])
    if weight == 0:
        raise InvalidInput(
            "a weight of 0 prefers nothing", where=where, remedy="leave it out, or give a weight"
        )
    first, _, rest = phrase.partition(" ")
    if ".." in phrase:
        bounds = parse_window(phrase, now_s, zone, where=where)
        return Preference(weight, zone, bounds=bounds)
    if first.lower() in ("before", "after"):
        at = parse_time(rest, now_s, zone, where=where)
        bounds = Interval(0, at) if first.lower() == "before" else Interval(at, limits.TIME_S_MAX)
        return Preference(weight, zone, bounds=bounds)
    return _recurring(phrase, Preference(weight, zone), now_s, where)


def starts(request: Request) -> Interval:
    """Return the common starts that the window of `request` leaves; eight weeks of an open one."""
    spans = [
        span(msgspec.structs.replace(request, alternatives=(alternative,)))
        for alternative in request.alternatives
    ]
    first = request.not_before - max(lead_s for lead_s, _ in spans)
    if not request.not_after:
        return Interval(first, first + OPEN_WINDOW_S)
    return Interval(first, request.not_after - min(tail_s for _, tail_s in spans) + 1)


def expand(preferences: Iterable[Preference], request: Request) -> tuple[TimePreference, ...]:
    """Return the windows of all `preferences` among the starts of `request`, in the order given.

    Raises `InvalidInput` if there are more than a request may have.
    """
    possible = starts(request)
    expanded: list[TimePreference] = []
    for preference in preferences:
        windows = preference.windows(*possible)
        if len(expanded) + len(windows) > limits.PREFERENCES_MAX:
            raise InvalidInput(
                f"{preference.describe()} is {len(windows)} separate times in this window, "
                f"{len(expanded) + len(windows)} with those before; "
                f"at most {limits.PREFERENCES_MAX} can be preferred",
                where="prefer",
                remedy="narrow the window (an earlier latest end), or prefer fewer times",
            )
        expanded += [
            TimePreference(start=window.start, end=window.end, weight=preference.weight)
            for window in windows
        ]
    return tuple(expanded)


def understood(preference: Preference, request: Request) -> str:
    """Describe `preference` in full, with its windows among the starts of `request`."""
    windows = preference.windows(*starts(request))
    told = f"{preference.weight:+g} for a start {preference.describe()}"
    if not windows:
        return f"{told}: never in this window"
    count = "once" if len(windows) == 1 else f"{len(windows)} times"
    first = format_time(windows[0].start, preference.zone)
    last = format_time(windows[-1].end, preference.zone)
    reach = "" if request.not_after else ", within the next 8 weeks, because the window has no end"
    return f"{told}: {count}, from {first} to {last}{reach}"


def _recurring(phrase: str, made: Preference, now_s: int, where: str) -> Preference:
    """Add the days and times of day named by the words of `phrase`, each once, to `made`."""
    if not phrase:
        raise InvalidInput("the preference names no time", where=where, remedy=_REMEDY)
    if bare := _BARE_NUMBER.fullmatch(phrase):
        raise InvalidInput(
            f"{bare[2]!r} is only a number",
            where=where,
            remedy=f"give a weight its sign: {bare[1]} +{bare[2]}",
        )
    days_said = clock_said = False
    for word in phrase.lower().split():
        clock = _times_of_day(word, where)
        if clock is not None and not clock_said:
            made, clock_said = made._replace(clock=clock), True
        elif clock is None and not days_said:
            made, days_said = _on_days(word, made, now_s, where), True
        else:
            raise InvalidInput(
                f"{phrase!r} gives the {'time of day' if clock is not None else 'days'} twice",
                where=where,
                remedy="give two preferences, or a list of days: mon,wed,fri 09:00-12:00",
            )
    return made


def _times_of_day(word: str, where: str) -> tuple[int, int] | None:
    """Return the seconds from midnight that `word` names; None for words about days."""
    if (known := _TIMES_OF_DAY.get(word.removesuffix("s"))) is not None:
        return known
    match = _CLOCKS.fullmatch(word)
    if match is None:
        return None
    hours, minutes, to_hours, to_minutes = map(int, match.groups())
    opens_s, closes_s = hours * 3_600 + minutes * 60, to_hours * 3_600 + to_minutes * 60
    if max(minutes, to_minutes) > 59 or opens_s >= _DAY_S or closes_s > _DAY_S:
        raise InvalidInput(f"{word} is not a time of day", where=where, remedy="write 09:00-12:00")
    if opens_s == closes_s:
        raise InvalidInput(
            f"{word} ends when it begins", where=where, remedy="leave it out to mean the whole day"
        )
    return opens_s, closes_s if closes_s > opens_s else closes_s + _DAY_S


def _on_days(word: str, made: Preference, now_s: int, where: str) -> Preference:
    if (days := _DAY_SETS.get(word.removesuffix("s"))) is not None:
        return made._replace(weekdays=frozenset(days))
    if word in _RELATIVE_DAYS:
        today = datetime.fromtimestamp(now_s, made.zone).date()
        return made._replace(day=_number(today) + _RELATIVE_DAYS[word])
    if _DATE.fullmatch(word):
        return made._replace(day=_number(_calendar_day(word, where)))
    weekdays: set[int] = set()
    for part in word.split(","):
        ends = [_weekday_of(name) for name in part.split("-")]
        first, last = ends[0], ends[-1]
        if first is None or last is None or len(ends) > 2:
            raise _not_understood(word, where)
        weekdays.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return made._replace(weekdays=frozenset(weekdays))


def _not_understood(word: str, where: str) -> InvalidInput:
    known = [f"{name}s" for name in (*_TIMES_OF_DAY, *_DAY_SETS)] + [*_RELATIVE_DAYS]
    near = difflib.get_close_matches(word, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else _REMEDY
    return InvalidInput(f"{word!r} is not a time to prefer", where=where, remedy=remedy)


def _weekday_of(name: str) -> int | None:
    """Return the weekday of ``fri``, ``friday`` and ``fridays``."""
    number = weekday_named(name)
    return weekday_named(name.removesuffix("s")) if number is None else number


def _calendar_day(text: str, where: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise InvalidInput(
            f"{text} is not a day of the calendar", where=where, remedy="check the day"
        ) from error
    if not 1970 <= day.year < 3000:
        raise InvalidInput(
            f"the year {day.year} is not between 1970 and 2999",
            where=where,
            remedy="check the year",
        )
    return day


def _number(day: date) -> int:
    return (day - date(1970, 1, 1)).days


def _weekday(day: int) -> int:
    return (day + _THURSDAY) % 7


def _stretches(start: int, end: int, zone: ZoneInfo) -> Iterator[tuple[int, int, int]]:
    """Yield ``(low, high, offset_s)`` that cover ``[start, end)``, each with one offset."""
    if start >= end:
        return
    low, offset_s = start, _offset_s(start, zone)
    for before, after in pairwise([*range(start, end, _PROBE_S), end - 1]):
        while _offset_s(after, zone) != offset_s:
            seen = range(max(low, before), after + 1)
            change = seen[bisect_left(seen, True, key=lambda at: _offset_s(at, zone) != offset_s)]
            yield low, change, offset_s
            low, offset_s = change, _offset_s(change, zone)
    yield low, end, offset_s


def _offset_s(time_s: int, zone: ZoneInfo) -> int:
    offset = datetime.fromtimestamp(time_s, UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def _bounds_words(bounds: Interval, zone: ZoneInfo) -> str:
    if bounds.start == 0:
        return f"before {format_time(bounds.end, zone)}"
    if bounds.end == limits.TIME_S_MAX:
        return f"from {format_time(bounds.start, zone)}"
    return f"from {format_time(bounds.start, zone)} to {format_time(bounds.end, zone)}"


def _weekdays_words(weekdays: frozenset[int]) -> str:
    if weekdays == _EVERY_DAY:
        return "every day"
    runs: list[list[int]] = []
    for weekday in sorted(weekdays):
        if runs and runs[-1][-1] == weekday - 1:
            runs[-1].append(weekday)
        else:
            runs.append([weekday])
    return ",".join(
        _NAMES[run[0]] if len(run) == 1 else f"{_NAMES[run[0]]}-{_NAMES[run[-1]]}" for run in runs
    )


def _clock(second: int) -> str:
    shown = second if second <= _DAY_S else second - _DAY_S
    return f"{shown // 3_600:02}:{shown // 60 % 60:02}"
