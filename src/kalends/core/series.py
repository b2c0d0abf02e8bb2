"""The occurrences of a series: a recurrence rule, counted from a local date and hour, in a zone.

Each occurrence is found on the local calendar and converted by itself, so a series keeps its hour over clock
changes. Its name is the local date and hour that the rule gives, ``2027-03-09T14:00``; it keeps that name
wherever it is moved. A doubled hour is its first, a skipped one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.full_times import WEEKDAYS, instants
from kalends.core.limits import SERIES_MAX, TIME_S_MAX
from kalends.core.repeat import TEXT_MAX, RecurrenceRule, parse_repeat
from kalends.core.requests import DAY_S

YEARS_MAX: Final = 10
"""A rule is looked through for so long: one that never matches ends, too."""

_FREQUENCIES: Final = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_ONE_WORD: Final = {"daily": "day", "weekly": "week", "monthly": "month", "yearly": "year"}
_WORDS: Final = re.compile(
    r"(?:every )?(?:(?P<count>[0-9]{1,3}|other) )?(?P<unit>[a-z]+?)s?(?: on (?P<days>.+))?"
)
_NTH: Final = re.compile(r"(?:the )?(?:(last)|([1-5])(?:st|nd|rd|th)) ([a-z]+)")
_DAY_OF_MONTH: Final = re.compile(r"(?:the )?([1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?")
_HOURS: Final = re.compile(
    r"(?P<first>[0-9]{1,2})(?::(?P<first_minute>[0-5][0-9]))? ?(?:-|\.\.) ?"
    r"(?P<last>[0-9]{1,2})(?::(?P<last_minute>[0-5][0-9]))?"
)
_REMEDY: Final = "write 'week on tue,thu', '2 weeks', 'day', 'month on 15' or 'month on last fri'"


class Occurrence(NamedTuple):
    """`name` is the local time that the rule gives, `start` that instant (seconds UTC)."""

    name: str
    start: int


def rule_of_words(text: str, *, times: int = 0, until: date | None = None) -> str:
    """Return the RFC 5545 rule that words say, such as ``week on tue,thu``; raises `InvalidInput`.

    It ends after `times` occurrences, or with the local day `until`, if one of these is given.
    """
    if not isinstance(text, str) or len(text) > TEXT_MAX:
        raise InvalidInput("a repetition is a short text", where="every", remedy=_REMEDY)
    words = " ".join(text.lower().replace(",", " , ").split()).replace(" ,", ",")
    match = _WORDS.fullmatch(words)
    unit = match and _ONE_WORD.get(match["unit"], match["unit"])
    if match is None or unit not in _FREQUENCIES:
        raise InvalidInput(f"{text!r} is not a repetition", where="every", remedy=_REMEDY)
    parts = [f"FREQ={_FREQUENCIES[unit]}"]
    if match["count"]:
        parts.append(f"INTERVAL={2 if match['count'] == 'other' else match['count']}")
    if match["days"]:
        parts += _days(unit, [day.strip() for day in match["days"].split(",")], text)
    if times:
        parts.append(f"COUNT={times}")
    if until is not None:
        parts.append(f"UNTIL={until:%Y%m%d}")
    return ";".join(parts)


def occurrences(
    rule: str,
    first: datetime,
    zone: ZoneInfo,
    length_s: int,
    skip: Collection[str] = (),
    give_s: int = 0,
) -> tuple[Occurrence, ...]:
    """Return all occurrences of `rule` from the local time `first` on, each `length_s` long, in order.

    Those on the local days `skip` (``2027-04-06``) are left out; COUNT counts them. Raises `InvalidInput` for
    a rule that cannot be or has no end, for too many occurrences or none, for one that the clocks skip or
    that meets the next one, also if each begins up to `give_s` earlier or later, and for a day to skip
    without an occurrence.
    """
    found, named = [], set()
    for local in _local_starts(parse_repeat(rule), first, zone):
        day = local.date().isoformat()
        named.add(day)
        if day not in skip:
            found.append(_at(local, zone))
    strange = sorted({*skip} - named)
    if strange:
        raise InvalidInput(
            f"no occurrence begins on {strange[0]}", where="skip", remedy="give a day of the series"
        )
    if not found:
        raise InvalidInput(
            "the rule has no occurrence",
            where="rule",
            remedy="give another rule, or an earlier start",
        )
    if found[-1].start + length_s > TIME_S_MAX:
        raise InvalidInput(
            "the series ends after the year 3000", where="rule", remedy="let it end earlier"
        )
    for this, following in pairwise(found):
        if this.start + length_s > following.start:
            apart = datetime.fromisoformat(following.name) - datetime.fromisoformat(this.name)
            if apart.total_seconds() >= length_s:
                raise InvalidInput(
                    f"the clocks of {zone.key} skip a part of the occurrence {this.name}, so"
                    f" {format_duration(length_s)} end after the next one begins, at {following.name}",
                    where="rule",
                    remedy=f"make each shorter, or leave out {this.name[:10]} and book it by itself",
                )
            raise InvalidInput(
                f"the occurrence {this.name} lasts {format_duration(length_s)}, until after the next one"
                f" begins, at {following.name}",
                where="rule",
                remedy="make each shorter, or repeat less often",
            )
        if this.start + length_s + 2 * give_s > following.start:
            raise InvalidInput(
                f"the occurrences {this.name} and {following.name} could meet if each may move by"
                f" {format_duration(give_s)}",
                where="give",
                remedy="let each move by less",
            )
    return tuple(found)


def hours_between(text: str) -> tuple[int, int]:
    """Return the begin and the end of ``09:00-18:00`` in seconds of the day; raises `InvalidInput`."""
    match = _HOURS.fullmatch(text.strip()) if isinstance(text, str) else None
    first, last = (
        int(match[name]) * 3_600 + int(match[f"{name}_minute"] or 0) * 60 if match else 0
        for name in ("first", "last")
    )
    if not first < last <= DAY_S:
        raise InvalidInput(
            f"{text!r} are not hours of a day", where="between", remedy="write 09:00-18:00"
        )
    return first, last


def local_day(day: date | str, *, where: str) -> date:
    """Return a day given as itself or as ``2027-05-28``; raises `InvalidInput`."""
    try:
        found = date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError:
        found = None
    if not isinstance(found, date):
        raise InvalidInput(f"{day!r} is not a day", where=where, remedy="write 2027-05-28")
    return found


def name_of(local: datetime) -> str:
    """Return the name of the occurrence at this local time."""
    return local.isoformat(timespec="seconds" if local.second else "minutes")


def _local_starts(rule: RecurrenceRule, first: datetime, zone: ZoneInfo) -> list[datetime]:
    """Return the local times of the rule; those that are to be skipped count."""
    if not (rule.count or rule.until):
        raise InvalidInput(
            "the series has no end",
            where="rule",
            remedy="give its number of times, or its last day",
        )
    most = rule.count or SERIES_MAX + 1
    horizon = first.date() + timedelta(days=366 * YEARS_MAX)
    found: list[datetime] = []
    for local in rule.occurrences(first.date(), first.time(), first.date(), horizon):
        if local < first:
            continue
        if len(found) == most or _is_after(local, rule.until, zone):
            break
        found.append(local)
        if len(found) > SERIES_MAX:
            raise InvalidInput(
                f"the series has more than {SERIES_MAX} occurrences",
                where="rule",
                remedy="end it earlier, and book the rest as another series",
            )
    if rule.count and len(found) < rule.count:
        raise InvalidInput(
            f"the {rule.count} occurrences do not end within {YEARS_MAX} years",
            where="rule",
            remedy="give a smaller number, or a last day",
        )
    return found


def _is_after(local: datetime, until: date | datetime | None, zone: ZoneInfo) -> bool:
    """Whether `local` is later than the end of the rule: a day, a local time, or an instant."""
    if until is None:
        return False
    if not isinstance(until, datetime):
        return local.date() > until
    if until.tzinfo is UTC:
        return local.replace(tzinfo=zone) > until
    return local > until


def _at(local: datetime, zone: ZoneInfo) -> Occurrence:
    shown = instants(local, zone)
    if not shown:
        raise InvalidInput(
            f"the clocks of {zone.key} skip {name_of(local)}",
            where="rule",
            remedy=f"choose another hour, or leave out {local.date()}",
        )
    return Occurrence(name_of(local), shown[0])


def _days(unit: str, words: list[str], text: str) -> list[str]:
    if unit == "week":
        return [f"BYDAY={','.join(_weekday(word, text) for word in words)}"]
    if unit == "month" and all(_DAY_OF_MONTH.fullmatch(word) for word in words):
        numbers = (re.sub(r"[a-z ]", "", word) for word in words)
        return [f"BYMONTHDAY={','.join(numbers)}"]
    ranked = [_NTH.fullmatch(word) for word in words]
    if unit != "month" or None in ranked:
        raise InvalidInput(f"{text!r} is not a repetition", where="every", remedy=_REMEDY)
    named = (f"{-1 if each[1] else each[2]}{_weekday(each[3], text)}" for each in ranked if each)
    return [f"BYDAY={','.join(named)}"]


def _weekday(word: str, text: str) -> str:
    found = [day for day in WEEKDAYS if len(word) >= 2 and day.startswith(word)]
    if len(found) != 1:
        raise InvalidInput(f"{word!r} in {text!r} is not a weekday", where="every", remedy=_REMEDY)
    return found[0][:2].upper()
