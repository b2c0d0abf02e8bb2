"""Durations as people write them (``90s``, ``1.5h``, ``2d``, ``1h30m``, ``01:30:00``, ``PT2H``) and back.

A duration always has a unit: a bare number could be seconds, minutes or hours, and is refused. So
are months and years, which differ in length, and ``HH:MM``, which others read as minutes and
seconds. Arithmetic is exact; a text that does not give whole seconds is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kalends.core import limits
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from fractions import Fraction

_SECONDS: Final = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}

_SPELLINGS: Final = {
    **{unit: unit for unit in _SECONDS},
    **dict.fromkeys(("week", "weeks"), "w"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
}

_TEXT_MAX: Final = 64
"""Characters of a duration: the longest sensible one is far shorter."""

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)[ ]*([A-Za-z]*)[ ]*")
_ISO = re.compile(
    r"p(?:([0-9]+)w)?(?:([0-9]+)d)?(?:t(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?)?", re.IGNORECASE
)
_CLOCK = re.compile(r"([0-9]+):([0-5][0-9]):([0-5][0-9])")
_HOURS_OR_MINUTES = re.compile(r"[0-9]+:[0-9]+")
_REMEDY: Final = "write a number with a unit: 90s, 15m, 1.5h, 2d, 1w, 1h30m, or HH:MM:SS"


def parse_duration(
    text: str, *, where: str = "duration", longest_s: int = limits.DURATION_S_MAX
) -> int:
    """Return the seconds in `text`: at least one, at most `longest_s`.

    Raises `InvalidInput` (at `where`) for anything else, saying what to write instead.
    """
    length_s = _length(text.strip(), where)
    if length_s == 0:
        raise InvalidInput("a duration is at least one second", where=where, remedy=_REMEDY)
    if length_s > longest_s:
        raise InvalidInput(
            f"{_shown(text)} is longer than {format_duration(longest_s)}, the maximum",
            where=where,
            remedy="shorten it",
        )
    return length_s


def parse_offset(text: str, *, where: str = "offset", furthest_s: int = limits.OFFSET_S_MAX) -> int:
    """Return the seconds of a signed duration: ``-10m`` is 600 earlier, ``2h`` later, ``0s`` none.

    Raises `InvalidInput` as `parse_duration` does.
    """
    stripped = text.strip()
    sign = -1 if stripped.startswith("-") else 1
    length_s = _length(stripped.removeprefix("-" if sign < 0 else "+").lstrip(), where)
    if length_s > furthest_s:
        raise InvalidInput(
            f"{_shown(text)} is further than {format_duration(furthest_s)}",
            where=where,
            remedy="put such distant stages in separate requests",
        )
    return sign * length_s


def format_duration(length_s: int) -> str:
    """Return the shortest exact text of a duration: 5400 is ``1h30m``; whole days stay days, not weeks.

    >>> format_duration(90061)
    '1d1h1m1s'
    """
    if length_s == 0:
        return "0s"
    rest, text = abs(length_s), "-" if length_s < 0 else ""
    for unit in "dhms":
        amount, rest = divmod(rest, _SECONDS[unit])
        text += f"{amount}{unit}" if amount else ""
    return text


def _length(text: str, where: str) -> int:
    if len(text) > _TEXT_MAX:
        raise InvalidInput(f"{_shown(text)} is not a duration", where=where, remedy=_REMEDY)
    if (written := _ISO.fullmatch(text)) and any(written.groups()):
        text = "".join(f"{n}{unit}" for n, unit in zip(written.groups(), "wdhms", strict=True) if n)
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part) for part in clock.groups())
        return hours * 3_600 + minutes * 60 + seconds
    if ":" in text:
        raise InvalidInput(
            f"{text} could mean hours and minutes, or minutes and seconds"
            if _HOURS_OR_MINUTES.fullmatch(text)
            else f"{_shown(text)} is not HH:MM:SS with minutes and seconds below 60",
            where=where,
            remedy="write HH:MM:SS, e.g. 01:30:00, or units, e.g. 1h30m",
        )
    return _sum_of_parts(text, where)


def _sum_of_parts(text: str, where: str) -> int:
    total: int | Fraction
    total, position, smallest = 0, 0, 2 * _SECONDS["w"]
    while match := _PART.match(text, position):
        number, spelling = match.groups()
        seconds = _SECONDS[_unit(number, spelling, text, where)]
        if seconds >= smallest:
            raise InvalidInput(
                f"the parts of {_shown(text)} are out of order",
                where=where,
                remedy="write each unit once, larger ones first, e.g. 1h30m",
            )
        total += _exact(number) * seconds
        position, smallest = match.end(), seconds
    if position == 0 or position < len(text):
        raise InvalidInput(f"{_shown(text)} is not a duration", where=where, remedy=_REMEDY)
    if total.denominator != 1:
        raise InvalidInput(
            f"{_shown(text)} is not a whole number of seconds",
            where=where,
            remedy="round it to seconds",
        )
    return total.numerator


def _exact(number: str) -> int | Fraction:
    if number.isdecimal():
        return int(number)
    # Imported here because most durations are whole numbers, and commands are short.
    from fractions import Fraction

    return Fraction(number)


def _unit(number: str, spelling: str, text: str, where: str) -> str:
    if not spelling and f"{number}," in text:
        raise InvalidInput(
            f"{_shown(text)} has a comma", where=where, remedy="write a decimal point: 1.5h"
        )
    if not spelling:
        raise InvalidInput(
            f"{_shown(text)} has no unit",
            where=where,
            remedy=f"add one: {number}s, {number}m, {number}h or {number}d",
        )
    unit = _SPELLINGS.get(spelling)
    if unit is None:
        months = spelling.lower() in {"mo", "month", "months", "y", "yr", "year", "years"}
        raise InvalidInput(
            f"{spelling!r} in {_shown(text)} is not a unit of time",
            where=where,
            remedy="months and years differ in length: write days, e.g. 30d"
            if months
            else "units are w, d, h, m and s, in lower case",
        )
    return unit


def _shown(text: str) -> str:
    """Return `text` in quotes for an error, cut if it is too long to read."""
    return repr(text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "...")
