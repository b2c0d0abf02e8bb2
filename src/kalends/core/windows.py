"""Windows of a user's own: an interval, or two clock times that recur every day in a named zone.

A stage lies within a window if it lies within one occurrence; windows that touch count as one. A clock time
is the first instant at which the clock shows it or a later time, as in owners' opening hours: the night in
which clocks go back is an hour longer, and a window that clocks skip is not there on that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval, joined
from kalends.core.local_clocks import first_shown, shown_by
from kalends.core.zone_names import zone_named

_DAY_S: Final = 86_400

_SHOWN_MAX: Final = 2
"""Windows that an error shows."""

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


class Daily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The times from `start` to `end` on the clocks of `zone`, every day: ``Daily("20:00", "06:00", "UTC")``.

    An `end` before `start` is on the next day; ``24:00`` is the end of a day.
    """

    start: Annotated[str, Meta(max_length=5)]
    end: Annotated[str, Meta(max_length=5)]
    zone: Annotated[str, Meta(min_length=1, max_length=64)]


TimeWindow: TypeAlias = Interval | Daily
"""``Interval(start, end)`` in seconds UTC occurs once."""


def clock_s(text: str, where: str) -> int:
    """Return the seconds from midnight of ``08:00`` or ``24:00``; raises `InvalidInput` at `where`."""
    if text == "24:00":
        return _DAY_S
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a time of day", where=where, remedy="write 08:00")
    return int(match[1]) * 3_600 + int(match[2]) * 60


def check_window(window: TimeWindow, where: str) -> None:
    """Raise `InvalidInput` for a window without a second, or outside of 1970 to 3000."""
    if not isinstance(window, Daily):
        start, end = window
        if not 0 <= start < end <= limits.TIME_S_MAX:
            raise InvalidInput(
                "the window ends when it begins, or before"
                if start >= end
                else "the window is not between the years 1970 and 3000",
                where=where,
                remedy="give a start and a later end, in seconds UTC",
            )
        return
    try:
        zone_named(window.zone)
    except InvalidInput as error:
        raise InvalidInput(error.detail, where=f"{where}.zone", remedy=error.remedy) from error
    start, end = clock_s(window.start, f"{where}.start"), clock_s(window.end, f"{where}.end")
    if start in (end, _DAY_S):
        raise InvalidInput(
            f"a window from {window.start} to {window.end} has no length",
            where=where,
            remedy="write 00:00 24:00 for the whole day",
        )


@lru_cache(maxsize=64)
def occurrences(window: TimeWindow, start: int, end: int) -> tuple[Interval, ...]:
    """Return the occurrences of a checked `window` that overlap ``[start, end)``, whole and in order."""
    if not isinstance(window, Daily):
        once = Interval(*window)
        return (once,) if once.overlaps(Interval(start, end)) else ()
    zone = zone_named(window.zone)
    opens_s, closes_s = clock_s(window.start, "start"), clock_s(window.end, "end")
    if closes_s <= opens_s:
        closes_s += _DAY_S
    # Clocks skip at most one whole day, and show an hour or two twice.
    first = (shown_by(max(start, 0), zone) - closes_s) // _DAY_S - 1
    last = shown_by(min(end, limits.TIME_S_MAX), zone) // _DAY_S + 1
    found = (
        Interval(
            first_shown(day * _DAY_S + opens_s, zone), first_shown(day * _DAY_S + closes_s, zone)
        )
        for day in range(first, last + 1)
    )
    return tuple(each for each in found if max(each.start, start) < min(each.end, end))


def opened(windows: Iterable[TimeWindow], start: int, end: int) -> list[Interval]:
    """Return when any of `windows` is open that overlaps ``[start, end)``; those that touch are one."""
    return joined(each for window in windows for each in occurrences(window, start, end))


def both(ones: Iterable[TimeWindow], others: Iterable[TimeWindow]) -> tuple[TimeWindow, ...] | None:
    """Return windows that are open when one of `ones` and one of `others` are; None: no windows say that.

    Clock times of one zone have a common part, and so have intervals; a mixture has none to write.
    """
    found: dict[TimeWindow, None] = {}
    theirs = list(others)
    for one in ones:
        for other in theirs:
            common = _common(one, other)
            if common is None:
                return None
            found.update(dict.fromkeys(common))
    return tuple(found)


def described(windows: Sequence[TimeWindow]) -> str:
    """Format the first few as ``08:00-12:00 (Europe/Berlin)``, or as intervals in UTC."""
    told = " or ".join(_described(window) for window in windows[:_SHOWN_MAX])
    return told + " or others" * (len(windows) > _SHOWN_MAX)


def _described(window: TimeWindow) -> str:
    if isinstance(window, Daily):
        return f"{window.start}-{window.end} ({window.zone})"
    # Imported here: only errors show an interval.
    from kalends.core.full_times import format_time

    start, end = window
    return f"{format_time(start, 'UTC')} to {format_time(end, 'UTC')}"


def _common(one: TimeWindow, other: TimeWindow) -> list[TimeWindow] | None:
    if isinstance(one, Daily) and isinstance(other, Daily):
        return _common_daily(one, other) if one.zone == other.zone else None
    if isinstance(one, Daily) or isinstance(other, Daily):
        return None
    start, end = max(one[0], other[0]), min(one[1], other[1])
    return [Interval(start, end)] if start < end else []


def _common_daily(one: Daily, other: Daily) -> list[TimeWindow]:
    """Return the common times of two days' windows: at most two pieces of each day."""
    opens, closes = _from_midnight(one)
    found: list[TimeWindow] = []
    for shift_s in (-_DAY_S, 0, _DAY_S):
        start, end = (at + shift_s for at in _from_midnight(other))
        start, end = max(start, opens), min(end, closes)
        if start < end:
            found.append(Daily(_clock(start % _DAY_S), _clock(end % _DAY_S or _DAY_S), one.zone))
    return found


def _from_midnight(window: Daily) -> tuple[int, int]:
    opens, closes = clock_s(window.start, "start"), clock_s(window.end, "end")
    return opens, closes if closes > opens else closes + _DAY_S


def _clock(second: int) -> str:
    return f"{second // 3_600:02}:{second // 60 % 60:02}"
