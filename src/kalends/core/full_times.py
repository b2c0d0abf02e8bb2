"""Times in full, ``Mon 2026-03-02 09:00:00 CET (UTC+01:00)``: formatted, parsed, converted to other zones.

Everything is integer seconds UTC inside.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.zone_names import zone_named

WEEKDAYS: Final = (
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
)  # fmt: skip

_IN_FULL = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r" [A-Za-z0-9/_+-]{1,40} \(UTC([+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)\)"
    r"(?:, the (?:first|second) of two)?"
)


def check_time(time_s: float, *, where: str = "time") -> int:
    """Return `time_s` as whole seconds UTC between 1970 and 3000.

    Raises `InvalidInput` for other values: not a number, a fraction, milliseconds.
    """
    if not isinstance(time_s, int | float) or not math.isfinite(time_s):
        raise InvalidInput(f"{time_s} is not a time", where=where, remedy="give seconds since 1970")
    if time_s != math.floor(time_s):
        raise InvalidInput(
            f"{time_s} is not a whole number of seconds", where=where, remedy="round it to seconds"
        )
    if not 0 <= time_s <= limits.TIME_S_MAX:
        milliseconds = 0 <= time_s <= limits.TIME_S_MAX * 1000
        raise InvalidInput(
            f"{int(time_s)} s since 1970 is {'before 1970' if time_s < 0 else 'after the year 3000'}",
            where=where,
            remedy="these look like milliseconds: divide by 1000"
            if milliseconds
            else "give a time between the years 1970 and 3000",
        )
    return int(time_s)


def format_time(time_s: int, zone: str | ZoneInfo) -> str:
    """Format `time_s` in full: ``Mon 2026-03-02 09:00:00 CET (UTC+01:00)``.

    If the clocks show a time twice, the text says which of the two is meant. Raises `InvalidInput` for what
    `check_time` refuses and for an unknown zone.
    """
    named = zone_named(zone)
    local = datetime.fromtimestamp(check_time(time_s), named)
    abbreviation = local.tzname() or named.key
    if not abbreviation.isalpha():
        abbreviation = named.key
    twice = len(instants(local.replace(tzinfo=None, fold=0), named)) > 1
    which = (", the second of two" if local.fold else ", the first of two") if twice else ""
    day = WEEKDAYS[local.weekday()][:3].capitalize()
    return f"{day} {local:%Y-%m-%d %H:%M:%S} {abbreviation} (UTC{local.isoformat()[19:]}){which}"


def date_and_time(local: datetime) -> str:
    """Format as ``2026-07-14 08:00``, with seconds if there are any, without the zone."""
    return f"{local:%Y-%m-%d %H:%M:%S}" if local.second else f"{local:%Y-%m-%d %H:%M}"


def short_time(time_s: int, zone: ZoneInfo) -> str:
    """Format as ``Tue 2026-07-14 08:00``, with seconds if any; a heading names the zone."""
    local = datetime.fromtimestamp(time_s, zone)
    return f"{local:%a} {date_and_time(local)}"


def in_zone(text: str, zone: ZoneInfo) -> str:
    """Return `text` with each time that `format_time` wrote converted to `zone`.

    Servers write times in full, in the zone of their owner or in UTC; people read them in their own zone.
    """
    if "(UTC" not in text:
        return text

    def shown(match: re.Match[str]) -> str:
        try:
            return format_time(_instant(match), zone)
        except (ValueError, InvalidInput):
            return match[0]

    return _IN_FULL.sub(shown, text)


def read_in_full(text: str) -> int | None:
    """Return the time of a `text` that `format_time` wrote; None for any other text."""
    match = _IN_FULL.fullmatch(text)
    try:
        return None if match is None else _instant(match)
    except ValueError:
        return None


def instants(local: datetime, zone: ZoneInfo) -> list[int]:
    """Return when the zone's clocks show `local`: once, twice (in order), or never."""
    guesses = {int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1)}
    return sorted(guess for guess in guesses if shown(guess, zone) == local)


def shown(time_s: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(time_s, zone).replace(tzinfo=None, fold=0)


def _instant(match: re.Match[str]) -> int:
    return int(datetime.fromisoformat(f"{match[1]}T{match[2]}{match[3]}").timestamp())
