"""All days of a rule at once: one bit for each local day from 1968 to 3000, in a whole number.

A thousand years are 47 kB, so that whether two rules ever share a day is one ``&`` of some
microseconds, and "within the next three days" two shifts.

Which days of a year match the BYxxx parts of a rule depends only on the kind of the year (the
weekday of its first day, and whether it or the year before is a leap year), so one year of each kind
is tested day by day. Rules that look at weekdays alone repeat every week. BYSETPOS chooses within
each period (week, month or year), equal periods alike; INTERVAL keeps every n-th period.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from kalends.calendars.recurrence.zone_clocks import FIRST_DAY, YEARS, year_kind
from kalends.core.repeat import Frequency, RecurrenceRule

DAYS: Final = date(YEARS[-1] + 1, 1, 1).toordinal() - FIRST_DAY.toordinal()
_ALL: Final = (1 << DAYS) - 1


class DailyStarts(NamedTuple):
    """Windows start `times_s` seconds after local midnight on each day n for which bit n is set."""

    days: int
    times_s: tuple[int, ...]


@lru_cache(maxsize=128)
def starts_of(
    rule: RecurrenceRule, anchor: date, time_of_day: time, last_start: datetime
) -> tuple[DailyStarts, ...]:
    """Return every local start of `rule` counted from `anchor`, none before it or after `last_start`.

    The same as `RecurrenceRule.occurrences`; times of day with the same days are together.
    """
    times = rule.times(time_of_day)
    first = _number(anchor)
    times_by_days: dict[int, list[int]] = {}
    for at, matching in zip(times, _matching(rule, anchor, len(times)), strict=True):
        last = _number(last_start.date()) - (at > last_start.time())
        days = matching & _taken(rule, anchor) & _below(last + 1)
        days = days >> first << first
        if days:
            at_s = (at.hour * 60 + at.minute) * 60 + at.second
            times_by_days.setdefault(days, []).append(at_s)
    return tuple(DailyStarts(days, tuple(times_s)) for days, times_s in times_by_days.items())


def bits(text: str) -> int:
    """Return the set that `text` writes, day 0 first: ``"0110"`` are days 1 and 2."""
    return int(text[::-1] or "0", 2)


def text_of(days: int) -> str:
    """Return the opposite of `bits`: in a text, the next day is quickly found."""
    return bin(days)[:1:-1]


def within(days: int, low: int, high: int) -> int:
    """Return the days n of which `days` has any of n + `low` to n + `high`."""
    # Shifted first: what is nearer to the first day than `low` would be lost below it.
    days = days >> low if low >= 0 else days << -low
    reach = 1
    while reach <= high - low:
        step = min(reach, high - low + 1 - reach)
        days |= days >> step
        reach += step
    return days


def _matching(rule: RecurrenceRule, anchor: date, times: int) -> list[int]:
    """Return the matching days for each time of day, before INTERVAL."""
    if rule.positions and rule.frequency == "DAILY":
        chosen = rule.at_positions(list(range(times)))
        days = _named(rule, anchor)
        return [days if at in chosen else 0 for at in range(times)]
    if rule.positions:
        return _at_positions(rule, text_of(_named(rule, anchor) | 1 << DAYS), times)
    return [_named(rule, anchor)] * times


def _named(rule: RecurrenceRule, anchor: date) -> int:
    by_weekday = rule.frequency in ("DAILY", "WEEKLY") and not (rule.months or rule.month_days)
    if by_weekday:
        week = (FIRST_DAY + timedelta(day) for day in range(7))
        return _every(bits("".join("01"[rule.has(day, anchor)] for day in week)), 7)
    years: dict[tuple[int, bool, bool], str] = {}
    texts = []
    for year in YEARS:
        kind = year_kind(year)
        if kind not in years:
            ordinals = range(date(year, 1, 1).toordinal(), date(year + 1, 1, 1).toordinal())
            days = map(date.fromordinal, ordinals)
            years[kind] = "".join("01"[rule.has(day, anchor)] for day in days)
        texts.append(years[kind])
    return bits("".join(texts))


def _at_positions(rule: RecurrenceRule, named: str, times: int) -> list[int]:
    chosen: dict[str, tuple[str, ...]] = {}
    periods = []
    for start, end in pairwise(_borders(rule.frequency, rule.week_start)):
        period = named[start:end]
        if period not in chosen:
            chosen[period] = _chosen(rule, period, times)
        periods.append(chosen[period])
    return [bits("".join(texts)) for texts in zip(*periods, strict=True)]


def _chosen(rule: RecurrenceRule, period: str, times: int) -> tuple[str, ...]:
    """Return for each time of day the days of `period` that BYSETPOS leaves."""
    days = [day for day, named in enumerate(period) if named == "1"]
    moments = set(rule.at_positions([(day, at) for day in days for at in range(times)]))
    return tuple(
        "".join("01"[(day, at) in moments] for day in range(len(period))) for at in range(times)
    )


def _taken(rule: RecurrenceRule, anchor: date) -> int:
    """Return the days of the periods that INTERVAL takes."""
    if rule.interval == 1:
        return _ALL
    first = _number(anchor)
    match rule.frequency:
        case "DAILY":
            return _every(1, rule.interval) << first & _ALL
        case "WEEKLY":
            begins = first - (anchor.weekday() - rule.week_start) % 7
            return _every(0b1111111, 7 * rule.interval) << begins & _ALL
        case "MONTHLY":
            index = (anchor.year - YEARS[0]) * 12 + anchor.month - 1
        case "YEARLY":
            index = anchor.year - YEARS[0]
    periods = enumerate(pairwise(_borders(rule.frequency, rule.week_start)))
    return bits(
        "".join(
            "01"[(number - index) % rule.interval == 0] * (end - start)
            for number, (start, end) in periods
        )
    )


@lru_cache(maxsize=9)
def _borders(frequency: Frequency, week_start: int) -> list[int]:
    """Return the days on which periods begin, and the end; the first week may lack days."""
    if frequency == "WEEKLY":
        return [0, *range((week_start - FIRST_DAY.weekday()) % 7 or 7, DAYS, 7), DAYS]
    months = range(1, 13) if frequency == "MONTHLY" else range(1, 2)
    return [*(_number(date(year, month, 1)) for year in YEARS for month in months), DAYS]


def _every(pattern: int, period: int) -> int:
    """Repeat `pattern` every `period` days."""
    while period < DAYS:
        pattern |= pattern << period
        period *= 2
    return pattern & _ALL


def _below(count: int) -> int:
    return (1 << min(max(count, 0), DAYS)) - 1


def _number(day: date) -> int:
    return day.toordinal() - FIRST_DAY.toordinal()
