"""Helpers for time: amounts of it, and what the clock on the wall of a zone shows.

A run can read no file, so it is given a table for each zone: from when on which offset holds.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kalends.agents.language.intervals import moment
from kalends.agents.language.meter import Meter
from kalends.agents.language.texts import printable
from kalends.agents.language.values import kind

ZoneTables = Mapping[str, Sequence[Sequence[int]]]
"""Offsets of each zone, ``(from_s, offset_s)``, ascending; the first also holds before its time."""

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 86_400
_AMOUNT_MAX: Final = 1_000_000_000
_CLOCK: Final = re.compile(r"([01][0-9]|2[0-4]):([0-5][0-9])")


def amount(value: Any, unit_s: int) -> int:
    """Return a number of units in whole seconds. Raises `TypeError` or `ValueError`."""
    if type(value) not in (int, float):
        raise TypeError(f"an amount of time is a number, not {kind(value)}")
    if not -_AMOUNT_MAX <= value <= _AMOUNT_MAX or value * unit_s != int(value * unit_s):
        raise ValueError(
            "an amount of time is a whole number of seconds, and not above 30,000 years"
        )
    return int(value * unit_s)


class ZoneClock(NamedTuple):
    """One zone: from each of `changes_s` on, local time is UTC plus the offset at the same index."""

    changes_s: Sequence[int]
    offsets_s: Sequence[int]

    @classmethod
    def of(cls, table: Sequence[Sequence[int]]) -> ZoneClock:
        return cls([from_s for from_s, _ in table], [offset_s for _, offset_s in table])

    def local_s(self, time_s: int) -> int:
        """Return the local time at `time_s`, counted as if the zone were UTC."""
        number = bisect_right(self.changes_s, time_s)
        return time_s + self.offsets_s[max(0, number - 1)]


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.

    Counts in eras of 400 years that begin in March, so that a leap day is the last of its year: H.
    Hinnant, "chrono-compatible low-level date algorithms".
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return era * 400 + year_of_era + (month <= 2), month, day


def clock_minutes(text: Any) -> int:
    """Return the minutes since midnight of "09:30"; "24:00" ends the day. Raises `ValueError`."""
    match = _CLOCK.fullmatch(text) if type(text) is str else None
    if match is None or text > "24:00":
        raise ValueError('a time of day is written "09:30"')
    return int(match[1]) * 60 + int(match[2])


def clock_helpers(meter: Meter, zones: ZoneTables) -> dict[str, Callable[..., Any]]:
    """Return all helpers about time, for the `zones` that this run knows."""

    clocks = {zone: ZoneClock.of(table) for zone, table in zones.items() if table}

    def local(time_s: Any, zone: Any) -> int:
        meter.charge(4)
        clock = clocks.get(zone) if type(zone) is str else None
        if clock is None:
            name = printable(zone, 60) if type(zone) is str else kind(zone)
            raise ValueError(f"no resource here is in the time zone {name}")
        return clock.local_s(moment(time_s))

    def weekday(t: Any, zone: Any = "UTC", /) -> int:
        return (local(t, zone) // DAY_S + 3) % 7  # 1970-01-01 was a Thursday.

    def time_of_day(t: Any, zone: Any = "UTC", /) -> int:
        return local(t, zone) % DAY_S // MINUTE_S

    def local_date(t: Any, zone: Any = "UTC", /) -> str:
        meter.charge(8)
        year, month, day = date_of(local(t, zone) // DAY_S)
        return f"{year:04}-{month:02}-{day:02}"

    return {
        "minutes": lambda n, /: amount(n, MINUTE_S),
        "hours": lambda n, /: amount(n, HOUR_S),
        "days": lambda n, /: amount(n, DAY_S),
        "clock": lambda text, /: clock_minutes(text),
        "weekday": weekday,
        "time_of_day": time_of_day,
        "local_date": local_date,
    }
