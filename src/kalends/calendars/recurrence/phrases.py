"""Recurrences, grains and actions in words, for refusals and listings."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from itertools import product
from typing import Final

from kalends.core.repeat import RecurrenceRule

_NAMES: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ONES: Final = {"DAILY": "daily", "WEEKLY": "weekly", "MONTHLY": "monthly", "YEARLY": "yearly"}
_MANY: Final = {"DAILY": "days", "WEEKLY": "weeks", "MONTHLY": "months", "YEARLY": "years"}
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def days(rule: RecurrenceRule, text: str, first: date | None) -> str:
    """Describe the days: ``Mon-Fri``, ``every 2 weeks on Sat``, ``monthly on the last Fri``.

    What has no short name is given as the rule's own `text`.
    """
    if rule.months or rule.year_days or rule.week_numbers or rule.positions:
        return text
    named = [each.weekday for each in rule.weekdays if not each.nth]
    if rule.frequency == "WEEKLY" and not named and first is not None:
        named = [first.weekday()]
    ranked = [each for each in rule.weekdays if each.nth]
    how_often = (
        f"every {rule.interval} {_MANY[rule.frequency]}"
        if rule.interval > 1
        else _ONES[rule.frequency]
    )
    if not rule.names_days and not named:
        return _like_first(rule, how_often, first)
    match bool(named), bool(ranked), bool(rule.month_days):
        case True, False, False:
            weekdays = "daily" if len(named) == 7 else _ranges(named)
            return weekdays if rule.interval == 1 else f"{how_often} on {weekdays}"
        case False, True, False:
            words = (_ordinal(each.nth, f" {_NAMES[each.weekday]}") for each in ranked)
            return f"{how_often} on the {', '.join(words)}"
        case False, False, True if rule.frequency != "DAILY":
            words = (_ordinal(day, " day") for day in rule.month_days)
            return f"{how_often} on the {', '.join(words)} of the month"
    return text


def _like_first(rule: RecurrenceRule, how_often: str, first: date | None) -> str:
    if first is None or rule.frequency == "DAILY":
        return how_often
    if rule.frequency == "YEARLY":
        return f"{how_often} on {first.day} {first:%b}"
    return f"{how_often} on the {_ordinal(first.day, ' day')} of the month"


def times(rule: RecurrenceRule, start: time, duration_s: int) -> str:
    """Describe the times: ``08:00-18:00``, ``22:00-06:00 (next day)``, ``all day``."""
    starts = [
        start.replace(hour=hour, minute=minute)
        for hour, minute in product(rule.hours or (start.hour,), rule.minutes or (start.minute,))
    ]
    if starts == [time()] and duration_s == 86_400:
        return "all day"
    return ", ".join(_span(each, duration_s) for each in starts)


def once(begins: datetime, duration_s: int) -> str:
    """Describe one window: ``Thu 2026-12-24 08:00-18:00``, ``all day from ... to ...``."""
    ends = begins + timedelta(seconds=duration_s)
    day = f"{begins:%a %Y-%m-%d}"
    if begins.time() == ends.time() == time():
        last = f"{ends - timedelta(days=1):%a %Y-%m-%d}"
        return f"all day {day}" if last == day else f"all day from {day} to {last}"
    if ends - timedelta(seconds=1) < datetime.combine(begins.date(), time.max):
        return f"{day} {_span(begins.time(), duration_s)}"
    return f"from {day} {_clock(begins.time())} to {ends:%a %Y-%m-%d} {_clock(ends.time())}"


def every(length_s: int) -> str:
    """Describe ``900`` as ``15 minutes``, ``3600`` as ``hour``, to follow "every" or "whole"."""
    for unit_s, name in _UNITS:
        if length_s % unit_s == 0:
            count = length_s // unit_s
            return name if count == 1 else f"{count} {name}s"
    raise AssertionError(length_s)


def _span(start: time, duration_s: int) -> str:
    begins = datetime.combine(date(2000, 1, 1), start)
    ends = begins + timedelta(seconds=duration_s)
    later = (ends - timedelta(seconds=1)).toordinal() - begins.toordinal()
    until = "24:00" if ends.time() == time() else _clock(ends.time())
    suffix = "" if later == 0 else " (next day)" if later == 1 else f" ({later} days later)"
    return f"{_clock(start)}-{until}{suffix}"


def _clock(at: time) -> str:
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def _ranges(weekdays: list[int]) -> str:
    runs: list[list[int]] = []
    for weekday in sorted(set(weekdays)):
        if runs and runs[-1][-1] == weekday - 1:
            runs[-1].append(weekday)
        else:
            runs.append([weekday])
    return ", ".join(
        _NAMES[run[0]] if len(run) == 1 else f"{_NAMES[run[0]]}-{_NAMES[run[-1]]}" for run in runs
    )


def _ordinal(number: int, thing: str) -> str:
    """Format as ``1st``, ``2nd``, ``last``, ``2nd last``."""
    if number == -1:
        return f"last{thing}"
    count = abs(number)
    ending = "th" if 10 <= count % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{ending}{' last' if number < 0 else ''}{thing}"
