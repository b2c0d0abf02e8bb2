"""Windows in a request's text: two clock times that recur daily in a zone, or two times in full."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.language.scanner import Scanner
from kalends.core.language.values import format_weight
from kalends.core.requests import Alternative, Term
from kalends.core.times import parse_time
from kalends.core.windows import Daily, TimeWindow, check_window
from kalends.core.zone_names import zone_named

_KEYWORDS: Final = ("between", "prefer", "weight", "for")
"""Words that may stand behind a window: none is a zone."""

_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?![0-9:A-Za-z.-])")
_FULL = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?(Z|[+-][0-9]{2}:[0-9]{2})?"
    r"(?![0-9:A-Za-z.-])"
)
_ZONE = re.compile(
    rf"(?!(?:{'|'.join(_KEYWORDS)})(?![A-Za-z0-9_]))[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*"
)


def read_window(scanner: Scanner, zone: str) -> TimeWindow:
    """Return the next window; clock times without a zone of their own are in `zone` ("": there is none)."""
    begin = scanner.skip_spaces()
    first = _read_time(scanner, "a time of day, or a time in full")
    last = _read_time(scanner, "the second time")
    if (first.re is _CLOCK) is not (last.re is _CLOCK):
        raise scanner.error(
            "one of these times has a day, the other has none",
            remedy="write 08:00 12:00 for every day, or two times with their days",
            at=begin,
        )
    zone = _read_zone(scanner, zone, begin) if _needs_zone(first) or _needs_zone(last) else "UTC"
    try:
        made = _window(first, last, zone)
        check_window(made, "window")
    except InvalidInput as error:
        raise scanner.error(error.detail, remedy=error.remedy, at=begin) from error
    return made


def format_windows(part: Term | Alternative) -> str:
    """Format as `` between 08:00 12:00 UTC prefer 08:00 09:00 UTC weight 2``; empty without any."""
    demanded = [f" between {_text(window)}" for window in part.windows]
    preferred = [
        f" prefer {_text(each.window)} weight {format_weight(each.weight)}"
        for each in part.preferences
    ]
    return "".join(demanded + preferred)


def _read_time(scanner: Scanner, what: str) -> re.Match[str]:
    match = scanner.take(_FULL) or scanner.take(_CLOCK)
    if match is None:
        remedy = "write two times with a space between them: 08:00 12:00, or 2026-03-02T08:00 and its end"
        raise scanner.expected(what, remedy)
    return match


def _needs_zone(time: re.Match[str]) -> bool:
    return time.re is _CLOCK or time[1] is None


def _read_zone(scanner: Scanner, zone: str, begin: int) -> str:
    at = scanner.skip_spaces()
    named = scanner.take(_ZONE)
    if named is None and not zone:
        raise scanner.error(
            "these times have no zone",
            remedy="name it behind them: 08:00 12:00 Europe/Berlin",
            at=begin,
        )
    if named is None:
        return zone
    try:
        return zone_named(named[0]).key
    except InvalidInput as error:
        raise scanner.error(error.detail, remedy=error.remedy, at=at) from error


def _window(first: re.Match[str], last: re.Match[str], zone: str) -> TimeWindow:
    if first.re is _CLOCK:
        start, end = (f"{int(time[1]):02}:{time[2]}" for time in (first, last))
        return Daily(start, end, zone)
    return Interval(*(parse_time(time[0], 0, zone) for time in (first, last)))


def _text(window: TimeWindow) -> str:
    if isinstance(window, Daily):
        return f"{window.start} {window.end} {window.zone}"
    return " ".join(_in_utc(time_s) for time_s in window)


def _in_utc(time_s: int) -> str:
    at = datetime.fromtimestamp(time_s, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}Z" if at.second else f"{at:%Y-%m-%dT%H:%M}Z"
