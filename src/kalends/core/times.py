"""Times and windows as people write them, in a named zone, and back in full.

=========================== ====================================================================
written                     understood as
=========================== ====================================================================
``2026-03-02T09:00+01:00``  ISO 8601; the seconds may be left out, ``Z`` is UTC, ``24:00`` is allowed
``2026-03-02 09:00``        the same on the clocks of the zone
``2026-03-02``              the first moment of that day in the zone
``now`` ``now+2h``          the moment given, moved by a duration
``today 08:00``             also ``tomorrow`` and ``yesterday``; without a time: the first moment
``mon 09:00``               the first Monday 09:00 still to come; ``next monday`` is never today
``09:00``                   today, or tomorrow when that has passed
``1772442000``              nine to eleven digits: seconds since 1970, UTC
=========================== ====================================================================

Everyday forms (``in 2h``, ``9am``, ``30 nov``, ``next week``) are in `kalends.core.spoken_times`.
A zone's name may follow (``tomorrow 08:00 Europe/Zurich``); an abbreviation such as PST only if the reader's
own clocks show it then. The texts of `format_time` are also read. A local time that the clocks skip in
spring is refused, naming the gap; one that they show twice in autumn is the first of the two (the
first still to come, if a form says so), and `format_time` shows which of the two it is.
Everything is integer seconds UTC inside; `now_s` is always handed in.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from kalends.core import limits
from kalends.core.durations import format_duration, parse_duration, parse_offset
from kalends.core.errors import InvalidInput
from kalends.core.full_times import (
    WEEKDAYS,
    check_time,
    format_time,
    in_zone,
    instants,
    read_in_full,
    shown,
)
from kalends.core.intervals import Interval
from kalends.core.spoken_times import written
from kalends.core.zone_names import candidates_text, zone_named

__all__ = [
    "check_time",
    "format_duration",
    "format_time",
    "in_zone",
    "parse_duration",
    "parse_end",
    "parse_offset",
    "parse_time",
    "parse_window",
    "weekday_named",
    "zone_named",
]

_TEXT_MAX: Final = 200
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}

_CLOCK: Final = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]0+)?)?"
_OFFSET: Final = r"(z|[+-][0-9]{2}(?::?[0-9]{2})?)"
_ISO = re.compile(rf"([0-9]{{4,6}}-[0-9]{{2}}-[0-9]{{2}})(?:(?:t| +){_CLOCK}(?: *{_OFFSET})?)?")
_NOW = re.compile(r"now(?: *([+-].*))?")
_DAY = re.compile(rf"(next +)?([a-z]+)(?: +(?:at +)?{_CLOCK})?")
_TIME_OF_DAY = re.compile(_CLOCK)
_ZONE_BEHIND = re.compile(r"(.*\S)\s+(UTC|GMT|[A-Z][A-Za-z_]*(?:/[A-Za-z0-9_+-]+)+)")
_ABBREVIATION_BEHIND = re.compile(r"(.*\S)\s+([A-Za-z]{2,5})")
_OF_NOW = re.compile(
    r"\b(now|today|tomorrow|yesterday|next (week|month))\b|^\s*([+-]|in )", re.IGNORECASE
)
_NEXT_WEEKDAY = re.compile(r"\bnext +([a-z]+)", re.IGNORECASE)
_REMEDY: Final = (
    "write 2026-03-02 09:00, 2026-03-02T09:00Z, in 2h, tomorrow 9am, mon 09:00, 30 nov or 09:00"
)


def parse_time(
    text: str, now_s: int, zone: str | ZoneInfo, *, where: str = "time", exact: bool = False
) -> int:
    """Return the time in seconds UTC that `text` means at `now_s` in `zone`, by the table of the module.

    Raises `InvalidInput` (at `where`) for a text that cannot be understood, for a local time that the clocks
    skip, and with `exact` for a day without a time of day.
    """
    reading = _ClockTime(now_s, zone_named(zone), where, exact)
    if len(text) > _TEXT_MAX:
        raise InvalidInput("too long for a time", where=where, remedy=_REMEDY)
    stripped = text.strip()
    if (in_full := read_in_full(stripped)) is not None:
        return check_time(in_full, where=where)
    named_zone = _ZONE_BEHIND.fullmatch(stripped)
    if named_zone is not None:
        stripped = named_zone.group(1)
        reading = reading._replace(zone=zone_named(named_zone.group(2)))
    words = written(stripped.lower(), reading.today)
    if words.isascii() and words.isdigit():
        return reading.seconds(words)
    if match := _NOW.fullmatch(words):
        return check_time(
            now_s + parse_offset(match[1] or "0s", where=where, furthest_s=limits.WINDOW_S_MAX),
            where=where,
        )
    if match := _ISO.fullmatch(words):
        if match[5] and named_zone is not None:
            raise InvalidInput(
                f"{text!r} has both an offset and a zone", where=where, remedy="write one of them"
            )
        return check_time(reading.iso(match), where=where)
    if match := _TIME_OF_DAY.fullmatch(words):
        clock = reading.clock(match.groups())
        return check_time(reading.to_come(reading.today, 1, clock), where=where)
    if (match := _DAY.fullmatch(words)) and (
        match[2] in _DAYS or weekday_named(match[2]) is not None
    ):
        return check_time(reading.day(match), where=where)
    if (match := _ABBREVIATION_BEHIND.fullmatch(stripped)) and (meant := candidates_text(match[2])):
        return _by_abbreviation(match[1], match[2], meant, reading)
    raise InvalidInput(f"{text!r} is not a time", where=where, remedy=_REMEDY)


def parse_end(
    text: str, start_s: int, now_s: int, zone: str | ZoneInfo, *, where: str = "window"
) -> int:
    """Return the end that `text` means for a period that begins at `start_s`, in seconds UTC.

    A text without a date (``17:00``, ``fri``, ``3 jan``) means the first such time from the start on; with
    ``next``, the first that is not today, so that ``next mon 10:00 .. next mon 12:00`` is one morning. A text
    relative to the present (``now+2h``, ``tomorrow 17:00``) means the same as in `parse_time`, which raises.
    """
    if (match := _NEXT_WEEKDAY.search(text)) and weekday_named(match[1].lower()) is not None:
        without_next = text[: match.start()] + text[match.start(1) :]
        end_s = parse_time(without_next, start_s, zone, where=where)
        if end_s >= parse_time("tomorrow", now_s, zone, where=where):
            return end_s
    return parse_time(text, now_s if _OF_NOW.search(text) else start_s, zone, where=where)


def parse_window(text: str, now_s: int, zone: str | ZoneInfo, *, where: str = "window") -> Interval:
    """Parse ``START .. END``, ``START for DURATION``, a day (``tomorrow``, ``2026-03-02``) or ``next week``.

    END is read as `parse_end` says, so that ``fri 22:00 .. 06:00`` ends on Saturday. A day lasts as long as
    the zone's clocks make it.
    Raises `InvalidInput` as `parse_time` does, and when END is not after START.
    """
    before, dots, after = text.partition("..")
    if dots:
        start = parse_time(before, now_s, zone, where=where)
        end = parse_end(after, start, now_s, zone, where=where)
    elif len(parts := re.split(r"\s+for\s+", text)) == 2:
        start = parse_time(parts[0], now_s, zone, where=where)
        end = start + parse_duration(parts[1], where=where, longest_s=limits.WINDOW_S_MAX)
    else:
        start, end = _whole_day(text, now_s, zone, where)
    if end <= start:
        raise InvalidInput(
            f"the window ends at {format_time(end, zone)}, not after its start "
            f"at {format_time(start, zone)}",
            where=where,
            remedy="write START .. END with the earlier time first",
        )
    return Interval(start, check_time(end, where=where))


def weekday_named(word: str) -> int | None:
    """Return 0 for ``mon`` or a longer beginning of ``monday``, to 6 for Sunday; None for other words."""
    for number, name in enumerate(WEEKDAYS):
        if len(word) >= 3 and name.startswith(word):
            return number
    return None


class _ClockTime(NamedTuple):
    """The context of a text: the present, the zone, the place for errors, and whether a day is enough."""

    now_s: int
    zone: ZoneInfo
    where: str
    exact: bool = False

    @property
    def today(self) -> date:
        return datetime.fromtimestamp(self.now_s, self.zone).date()

    def seconds(self, digits: str) -> int:
        if len(digits) < 9:
            raise InvalidInput(f"{digits!r} is only a number", where=self.where, remedy=_REMEDY)
        return check_time(int(digits), where=self.where)

    def iso(self, match: re.Match[str]) -> int:
        day = self.calendar_day(match[1])
        if match[2] is None:
            self.check_day_will_do(day)
            return self.first_moment(day)
        local = _midnight(day) + self.clock(match.groups()[1:4])
        if match[5] is None:
            return self.resolve(local)
        return int(local.replace(tzinfo=UTC).timestamp()) - self.offset(match[5])

    def day(self, match: re.Match[str]) -> int:
        upcoming, word = match[1], match[2]
        clock = None if match[3] is None else self.clock(match.groups()[2:5])
        weekday = weekday_named(word)
        if weekday is not None:
            ahead = (weekday - self.today.weekday()) % 7 or (7 if upcoming else 0)
            if clock is None:
                self.check_day_will_do(self.today + timedelta(ahead or 7))
            return self.to_come(self.today + timedelta(ahead), 7, clock)
        if upcoming:
            raise InvalidInput(f"'next {word}' is not a day", where=self.where, remedy=_REMEDY)
        day = self.today + timedelta(_DAYS[word])
        if clock is None:
            self.check_day_will_do(day)
        return self.at(day, clock)[0]

    def check_day_will_do(self, day: date) -> None:
        """Refuse `day` alone where a time of day is needed."""
        if self.exact:
            now = datetime.fromtimestamp(self.now_s, self.zone)
            example = f"{day} 09:00" if (day, 9) > (now.date(), now.hour) else "now+1h"
            raise InvalidInput(
                f"{day:%a %Y-%m-%d} is a day without a time of day",
                where=self.where,
                remedy=f"write '{example}', or '{day} 00:00' for midnight",
            )

    def to_come(self, day: date, step_days: int, clock: timedelta | None) -> int:
        """Return the first instant at `clock` not before now, on `day` or `step_days` later."""
        skipped_already = (
            clock is not None
            and not instants(_midnight(day) + clock, self.zone)
            and _gap(_midnight(day) + clock, self.zone).instant < self.now_s
        )
        for instant in () if skipped_already else self.at(day, clock):
            if instant >= self.now_s:
                return instant
        return self.at(day + timedelta(step_days), clock)[0]

    def at(self, day: date, clock: timedelta | None) -> list[int]:
        if clock is None:
            return [self.first_moment(day)]
        local = _midnight(day) + clock
        return instants(local, self.zone) or [self.resolve(local)]

    def resolve(self, local: datetime) -> int:
        """Return the first instant at which the zone's clocks show `local`; raises if they never do."""
        found = instants(local, self.zone)
        if not found:
            gap = _gap(local, self.zone)
            raise InvalidInput(
                f"{local:%Y-%m-%d %H:%M:%S} does not exist in {self.zone.key}: the clocks go "
                f"from {gap.start:%Y-%m-%d %H:%M} straight to {gap.end:%Y-%m-%d %H:%M}",
                where=self.where,
                remedy=f"write a time outside this gap, e.g. {gap.end:%Y-%m-%d %H:%M}",
            )
        return found[0]

    def first_moment(self, day: date) -> int:
        """Return the start of `day`: midnight, or the end of the gap if the clocks skip midnight."""
        midnight = _midnight(day)
        if not instants(midnight, self.zone):
            gap = _gap(midnight, self.zone)
            if gap.end.date() == day:
                return gap.instant
        return self.resolve(midnight)

    def calendar_day(self, text: str) -> date:
        year = int(text.split("-")[0])
        if not 1970 <= year <= 3000:
            raise InvalidInput(
                f"the year {year} is not between 1970 and 3000",
                where=self.where,
                remedy="check the year",
            )
        try:
            return date.fromisoformat(text)
        except ValueError as error:
            raise InvalidInput(
                f"{text} is not a day of the calendar", where=self.where, remedy="check the day"
            ) from error

    def clock(self, parts: tuple[str | None, ...]) -> timedelta:
        hours, minutes, seconds = (int(part or 0) for part in parts)
        whole = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes > 59 or seconds > 59 or whole > timedelta(hours=24):
            raise InvalidInput(
                f"{hours:02}:{minutes:02}:{seconds:02} is not a time of day",
                where=self.where,
                remedy="write 00:00 to 24:00",
            )
        return whole

    def offset(self, text: str) -> int:
        digits = text.lstrip("+-z").replace(":", "").ljust(4, "0")
        hours, minutes = int(digits[:2]), int(digits[2:])
        if hours > 15 or minutes > 59:
            raise InvalidInput(
                f"{text} is not an offset from UTC", where=self.where, remedy="write +01:00 or Z"
            )
        return (-1 if text.startswith("-") else 1) * (hours * 3_600 + minutes * 60)


def _by_abbreviation(text: str, abbreviation: str, meant: str, reading: _ClockTime) -> int:
    """Return the time `text` if the clocks of the zone show `abbreviation` then; raises if not."""
    time_s = parse_time(text, reading.now_s, reading.zone, where=reading.where, exact=reading.exact)
    shown = datetime.fromtimestamp(time_s, reading.zone).tzname() or ""
    if shown.upper() != abbreviation.upper():
        raise InvalidInput(
            f"{abbreviation} stands for several time zones, or for a part of the year",
            where=reading.where,
            remedy=f"write the zone's name instead: {meant}",
        )
    return time_s


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)


class _Gap(NamedTuple):
    """Local times ``[start, end)`` that the clocks skip when they change at `instant`."""

    instant: int
    start: datetime
    end: datetime


def _gap(local: datetime, zone: ZoneInfo) -> _Gap:
    """Return the gap that `local` lies in, by bisection between the readings with either offset."""
    low = int(local.replace(tzinfo=zone, fold=1).timestamp())
    high = int(local.replace(tzinfo=zone, fold=0).timestamp())
    while high - low > 1:
        middle = (low + high) // 2
        if shown(middle, zone) < local:
            low = middle
        else:
            high = middle
    return _Gap(high, shown(low, zone) + timedelta(seconds=1), shown(high, zone))


def _whole_day(text: str, now_s: int, zone: str | ZoneInfo, where: str) -> Interval:
    start = parse_time(text, now_s, zone, where=where)
    named_zone = _ZONE_BEHIND.fullmatch(text.strip())
    reading = _ClockTime(now_s, zone_named(named_zone[2] if named_zone else zone), where)
    local = datetime.fromtimestamp(start, reading.zone)
    if ":" in text or reading.first_moment(local.date()) != start or "now" in text.lower():
        raise InvalidInput(
            f"{text!r} has a start but no end",
            where=where,
            remedy="write START .. END, START for DURATION, or a whole day such as tomorrow",
        )
    days = 7 if " ".join(text.lower().split()).startswith("next week") else 1
    return Interval(start, reading.first_moment(local.date() + timedelta(days)))
