"""Recurrence rules of RFC 5545 (section 3.3.10) on the local calendar: which days, at which times.

Supported are DAILY, WEEKLY, MONTHLY and YEARLY with every BYxxx part that the RFC allows them, except
BYSECOND. Rules that repeat within the hour or by the hour are refused: a daily rule with BYHOUR and
BYMINUTE says the same with a bound on how much it can yield.

Days are found by testing each day of a period (day, week, month or year), so the work is bounded by
the window asked for, even for a rule that never matches, such as 30 February. That is why this is
not python-dateutil's rrule, which searches such a rule to the year 9999; the tests compare the two.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import product
from typing import Final, Literal, TypeVar, cast

import msgspec

from kalends.core.errors import InvalidInput

Frequency = Literal["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]

TEXT_MAX: Final = 512
COUNT_MAX: Final = 1_000
"""Occurrences of a rule with COUNT: they are counted when the rule is made."""

INTERVAL_MAX: Final = 1_000
TIMES_PER_DAY_MAX: Final = 24
"""BYHOUR times BYMINUTE: bounds what ten years of one rule can yield."""

WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_NUMBER = re.compile(r"[+-]?[0-9]{1,4}")
_UNTIL = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z)?)?")


_Moment = TypeVar("_Moment")


class NthWeekday(msgspec.Struct, frozen=True):
    """A weekday: `weekday` 0 is Monday; `nth` 0 is every one, 2 the second, -1 the last of the period."""

    nth: int
    weekday: int


class RecurrenceRule(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed rule; empty tuples stand for absent parts. Made by `parse_repeat`."""

    frequency: Frequency
    interval: int = 1
    count: int = 0
    until: date | datetime | None = None
    """The inclusive end; a date means that whole day, a datetime without zone is local."""
    months: tuple[int, ...] = ()
    week_numbers: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    weekdays: tuple[NthWeekday, ...] = ()
    hours: tuple[int, ...] = ()
    minutes: tuple[int, ...] = ()
    positions: tuple[int, ...] = ()
    week_start: int = 0

    @property
    def names_days(self) -> bool:
        return bool(self.weekdays or self.month_days or self.year_days or self.week_numbers)

    @property
    def needs_first_day(self) -> bool:
        """Whether the rule means nothing without a day to count from."""
        return self.interval > 1 or self.count > 0 or self.lacks_days

    @property
    def lacks_days(self) -> bool:
        """Whether it takes its days from the one that it counts from."""
        return self.frequency != "DAILY" and not self.names_days

    def occurrences(
        self, anchor: date, time_of_day: time, first: date, last: date
    ) -> Iterator[datetime]:
        """Yield local times on the days `first` to `last`, none before `anchor`, in order.

        `anchor` is the day to count from, and what the rule does not say is taken from it and from
        `time_of_day`. COUNT and UNTIL are left to the caller.
        """
        times = self.times(time_of_day)
        base, lowest = self._period_of(anchor), self._period_of(max(first, anchor))
        skipped = -(-(lowest - base) // self.interval) * self.interval
        for period in range(base + skipped, self._period_of(last) + 1, self.interval):
            days = [day for day in self._days_of(period) if self.has(day, anchor)]
            moments = [datetime.combine(day, at) for day in days for at in times]
            for moment in self.at_positions(moments):
                if max(first, anchor) <= moment.date() <= last:
                    yield moment

    def times(self, time_of_day: time) -> list[time]:
        """Return the times of each day, in order: `time_of_day`, or what BYHOUR and BYMINUTE make of it."""
        return [
            time_of_day.replace(hour=hour, minute=minute)
            for hour, minute in product(
                self.hours or (time_of_day.hour,), self.minutes or (time_of_day.minute,)
            )
        ]

    def _period_of(self, day: date) -> int:
        """Return the number of the day, week, month or year that `day` lies in."""
        match self.frequency:
            case "DAILY":
                return day.toordinal()
            case "WEEKLY":
                return (day.toordinal() - 1 - self.week_start) // 7
            case "MONTHLY":
                return day.year * 12 + day.month - 1
            case "YEARLY":
                return day.year

    def _days_of(self, period: int) -> Iterator[date]:
        match self.frequency:
            case "DAILY":
                first, count = period, 1
            case "WEEKLY":
                first, count = period * 7 + 1 + self.week_start, 7
            case "MONTHLY":
                year, month = period // 12, period % 12 + 1
                first, count = date(year, month, 1).toordinal(), monthrange(year, month)[1]
            case "YEARLY":
                first, count = date(period, 1, 1).toordinal(), _year_length(period)
        return (date.fromordinal(ordinal) for ordinal in range(first, first + count))

    def at_positions(self, moments: list[_Moment]) -> list[_Moment]:
        """Return the `moments` of one period, in order, that BYSETPOS leaves."""
        if not self.positions:
            return moments
        count = len(moments)
        chosen = {at - 1 if at > 0 else count + at for at in self.positions}
        return [moments[index] for index in sorted(chosen) if 0 <= index < count]

    def has(self, day: date, anchor: date) -> bool:
        """Return whether `day` matches the BYxxx parts; INTERVAL and BYSETPOS are not looked at."""
        if self.months and day.month not in self.months:
            return False
        if not self.names_days:
            return self._is_like(day, anchor)
        return (
            self._has_weekday(day)
            and _counted(self.month_days, day.day, monthrange(day.year, day.month)[1])
            and _counted(self.year_days, _day_of_year(day), _year_length(day.year))
            and self._has_week_number(day)
        )

    def _is_like(self, day: date, anchor: date) -> bool:
        """Return whether `day` repeats `anchor`, as for a rule that names no days."""
        match self.frequency:
            case "DAILY":
                return True
            case "WEEKLY":
                return day.weekday() == anchor.weekday()
            case "MONTHLY":
                return day.day == anchor.day
            case "YEARLY":
                return day.day == anchor.day and (bool(self.months) or day.month == anchor.month)

    def _has_weekday(self, day: date) -> bool:
        if not self.weekdays:
            return True
        if self.frequency == "YEARLY" and not self.months:
            at, length = _day_of_year(day), _year_length(day.year)
        else:
            at, length = day.day, monthrange(day.year, day.month)[1]
        ranks = (0, (at - 1) // 7 + 1, -((length - at) // 7 + 1))
        weekday = day.weekday()
        return any(each.weekday == weekday and each.nth in ranks for each in self.weekdays)

    def _has_week_number(self, day: date) -> bool:
        """Return whether the week number fits; a week belongs to the year of its fourth day."""
        if not self.week_numbers:
            return True
        fourth = day + timedelta(3 - (day.weekday() - self.week_start) % 7)
        at = _day_of_year(fourth)
        number = (at - 1) // 7 + 1
        return _counted(self.week_numbers, number, number + (_year_length(fourth.year) - at) // 7)


def parse_repeat(text: str) -> RecurrenceRule:
    """Return the rule that `text` says, such as ``FREQ=WEEKLY;BYDAY=MO,TU``; raises `InvalidInput`."""
    if type(text) is not str or len(text) > TEXT_MAX:
        raise _wrong("a recurrence rule is a text of at most 512 characters")
    parts: dict[str, str] = {}
    for part in text.upper().removeprefix("RRULE:").split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise _wrong(f"{part!r} is not NAME=VALUE")
        if name in parts:
            raise _wrong(f"{name} is given twice")
        parts[name] = value
    rule = RecurrenceRule(
        frequency=_frequency(parts.pop("FREQ", "")),
        interval=_number(parts.pop("INTERVAL", "1"), "INTERVAL", 1, INTERVAL_MAX),
        count=_number(parts.pop("COUNT"), "COUNT", 1, COUNT_MAX) if "COUNT" in parts else 0,
        until=_until(parts.pop("UNTIL")) if "UNTIL" in parts else None,
        months=_numbers(parts.pop("BYMONTH", ""), "BYMONTH", 1, 12),
        week_numbers=_numbers(parts.pop("BYWEEKNO", ""), "BYWEEKNO", -53, 53),
        year_days=_numbers(parts.pop("BYYEARDAY", ""), "BYYEARDAY", -366, 366),
        month_days=_numbers(parts.pop("BYMONTHDAY", ""), "BYMONTHDAY", -31, 31),
        weekdays=_weekdays(parts.pop("BYDAY", "")),
        hours=_numbers(parts.pop("BYHOUR", ""), "BYHOUR", 0, 23),
        minutes=_numbers(parts.pop("BYMINUTE", ""), "BYMINUTE", 0, 59),
        positions=_numbers(parts.pop("BYSETPOS", ""), "BYSETPOS", -366, 366),
        week_start=_week_start(parts.pop("WKST", "MO")),
    )
    if "DTSTART" in parts:
        raise _wrong("DTSTART is not part of a rule", 'write first = "2026-03-02" next to it')
    if parts:
        raise _wrong(f"{min(parts)[:32]} is not supported")
    _check_parts(rule)
    return rule


def _check_parts(rule: RecurrenceRule) -> None:
    """Refuse rules that RFC 5545 forbids or that would yield too much."""
    yearly = rule.frequency == "YEARLY"
    if rule.count and rule.until is not None:
        raise _wrong("COUNT and UNTIL exclude each other")
    if rule.week_numbers and not (yearly and rule.weekdays):
        raise _wrong("BYWEEKNO needs FREQ=YEARLY and BYDAY")
    if rule.year_days and not yearly:
        raise _wrong("BYYEARDAY needs FREQ=YEARLY")
    if rule.month_days and rule.frequency == "WEEKLY":
        raise _wrong("BYMONTHDAY does not go with FREQ=WEEKLY")
    nth_max = 53 if yearly else 5 if rule.frequency == "MONTHLY" else 0
    if rule.week_numbers:
        nth_max = 0
    if any(abs(each.nth) > nth_max for each in rule.weekdays):
        raise _wrong("a numbered BYDAY such as 2MO or -1FR counts within a month or a year")
    if rule.positions and not (rule.names_days or rule.months or rule.hours or rule.minutes):
        raise _wrong("BYSETPOS needs another BY part to choose from")
    if max(len(rule.hours), 1) * max(len(rule.minutes), 1) > TIMES_PER_DAY_MAX:
        raise _wrong(f"more than {TIMES_PER_DAY_MAX} times a day")


def _frequency(text: str) -> Frequency:
    if text in ("DAILY", "WEEKLY", "MONTHLY", "YEARLY"):
        return cast(Frequency, text)
    if text in ("SECONDLY", "MINUTELY", "HOURLY"):
        raise _wrong(f"FREQ={text} is too often", "write FREQ=DAILY;BYHOUR=8,10,12")
    raise _wrong("FREQ is missing or unknown", "use DAILY, WEEKLY, MONTHLY or YEARLY")


def _number(text: str, name: str, low: int, high: int) -> int:
    number = int(text) if _NUMBER.fullmatch(text) else None
    if number is None or not low <= number <= high or (low < 0 and number == 0):
        raise _wrong(f"{name}={text[:32]} is not a number from {low} to {high}")
    return number


def _numbers(text: str, name: str, low: int, high: int) -> tuple[int, ...]:
    """Return the numbers sorted, without repeats; 0 is refused if negative numbers count from the end."""
    words = text.split(",") if text else []
    return tuple(sorted({_number(word, name, low, high) for word in words}))


def _weekdays(text: str) -> tuple[NthWeekday, ...]:
    found: set[tuple[int, int]] = set()
    for word in text.split(",") if text else []:
        match = _WEEKDAY.fullmatch(word)
        if match is None:
            raise _wrong(f"BYDAY={word[:32]} is not a weekday", "write MO, 2MO or -1FR")
        nth = _number(match[1], "BYDAY", -53, 53) if match[1] else 0
        found.add((WEEKDAYS.index(match[2]), nth))
    return tuple(NthWeekday(nth, weekday) for weekday, nth in sorted(found))


def _week_start(text: str) -> int:
    if text not in WEEKDAYS:
        raise _wrong(f"WKST={text[:32]} is not a weekday")
    return WEEKDAYS.index(text)


def _until(text: str) -> date | datetime:
    match = _UNTIL.fullmatch(text)
    if match is None or not 1970 <= int(match[1][:4]) <= 3000:
        raise _wrong(
            f"UNTIL={text[:32]} is not a time from 1970 to 3000",
            "write 20261231 or 20261231T235959Z",
        )
    try:
        local = datetime.strptime(match[1] + (match[2] or "000000"), "%Y%m%d%H%M%S")
    except ValueError as error:
        raise _wrong(f"UNTIL={text[:32]} is not in the calendar") from error
    if match[2] is None:
        return local.date()
    return local.replace(tzinfo=UTC) if match[3] else local


def _counted(wanted: tuple[int, ...], at: int, length: int) -> bool:
    """Return whether number `at` of `length` is wanted, counted from either end.

    All are when none is named.
    """
    return not wanted or at in wanted or at - length - 1 in wanted


def _day_of_year(day: date) -> int:
    return day.toordinal() - date(day.year, 1, 1).toordinal() + 1


def _year_length(year: int) -> int:
    return 366 if isleap(year) else 365


def _wrong(detail: str, remedy: str = "see RFC 5545, section 3.3.10") -> InvalidInput:
    return InvalidInput(detail, where="rrule", remedy=remedy)
