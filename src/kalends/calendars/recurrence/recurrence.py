"""Windows that recur on local clocks: opening hours, and when an access rule applies.

The rule for clock changes: *a local time is the first instant at which the local clock shows it or
a later time.* So a time that the clocks skip in spring is the instant of the change, and one that
they show twice in autumn is the first of the two. A window starts and ends by this rule, and its end
is its local start plus its duration on the wall clock: 08:00 for ten hours ends at 18:00 on every
day of the year, midnight for 24 hours is the whole local day, be it 23 or 25 hours long, and windows
that touch on the clock touch in time. A window that lies wholly in skipped time is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Final

from kalends.calendars.recurrence import phrases
from kalends.calendars.recurrence.day_sets import DailyStarts, starts_of
from kalends.calendars.recurrence.zone_clocks import FIRST_DAY, Stretch, clock_of
from kalends.core import limits
from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.intervals import Interval
from kalends.core.local_clocks import instant
from kalends.core.repeat import parse_repeat
from kalends.core.times import zone_named

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
COUNTED_YEARS_MAX: Final = 10
"""The occurrences of a rule with COUNT must end within this time of its first day."""


class Recurrence:
    """A window of `duration_s` from local time `start` on every day that `rrule` names.

    `rrule` is an RFC 5545 rule without DTSTART; BYHOUR and BYMINUTE take the place of those of
    `start`. `zone` is an IANA name. `first` and `last` are the first and last local days on which a
    window may start; INTERVAL, COUNT, and a rule that names no days (as ``FREQ=WEEKLY``) count from
    `first`. `start`, `first` and `last` may be ISO 8601 texts. An immutable value.

    Raises `InvalidInput` for a rule, zone, time or duration that cannot be.
    """

    __slots__ = (
        "_rule",
        "_until",
        "_zone",
        "duration_s",
        "first",
        "last",
        "rrule",
        "start",
        "zone",
    )

    def __init__(
        self,
        rrule: str,
        start: time | str,
        duration_s: int,
        zone: str,
        first: date | str | None = None,
        last: date | str | None = None,
    ) -> None:
        self._rule = parse_repeat(rrule)
        self.rrule = rrule
        self.start = _time_of_day(start)
        if type(duration_s) is not int or not 1 <= duration_s <= limits.DURATION_S_MAX:
            length = format_duration(duration_s) if type(duration_s) is int else repr(duration_s)
            raise InvalidInput(
                f"a window of {length}",
                where="duration_s",
                remedy=f"give whole seconds from 1s to {format_duration(limits.DURATION_S_MAX)}",
            )
        self.duration_s = duration_s
        if type(zone) is not str:
            raise InvalidInput(
                f"{zone!r} is not a time zone", where="zone", remedy="write Europe/Zurich"
            )
        self._zone = zone_named(zone)
        self.zone = zone
        self.first = _day(first, "first")
        self.last = _day(last, "last")
        if self.first is None and self._rule.needs_first_day:
            raise InvalidInput(
                f"{rrule} has no first day to count from",
                where="first",
                remedy='give it, as first = "2026-03-02"'
                + (", or name the days with BYDAY or BYMONTHDAY" * self._rule.lacks_days),
            )
        self._until = self._last_start()

    def windows(self, start: int, end: int) -> list[Interval]:
        """Return the windows that overlap ``[start, end)`` (seconds UTC), by start; they may overlap."""
        found = []
        length = timedelta(seconds=self.duration_s)
        # Local dates differ from UTC dates by at most a day, skipped days by another.
        first = date.fromordinal(_EPOCH_DAY + (start - self.duration_s) // 86_400 - 2)
        last = date.fromordinal(_EPOCH_DAY + end // 86_400 + 2)
        for local in self._starts(first, last):
            if local > self._until:
                break
            opens, closes = instant(local, self._zone), instant(local + length, self._zone)
            if max(opens, start) < min(closes, end):
                found.append(Interval(opens, closes))
        return found

    def starts(self) -> tuple[DailyStarts, ...]:
        """Return every local start there is up to the year 3000: its time of day and its days."""
        return starts_of(self._rule, self.first or FIRST_DAY, self.start, self._until)

    def clock(self) -> tuple[Stretch, ...]:
        """The most that the zone's clock has shown, by the stretches in which it runs or stands."""
        return clock_of(self._zone)

    def closing(self, local_s: int) -> int:
        """Return when (seconds UTC) the window closes that starts `local_s` after local day 0."""
        midnight = datetime.combine(FIRST_DAY, time())
        return instant(midnight + timedelta(seconds=local_s + self.duration_s), self._zone)

    def describe(self) -> str:
        """Describe in words: ``Mon-Fri 08:00-18:00 America/Los_Angeles``.

        A window that comes only once is ``all day from Thu 2026-12-24 to Fri 2027-01-01 Europe/Berlin``.
        """
        once = self._only_start()
        if once is not None:
            return f"{phrases.once(once, self.duration_s)} {self.zone}"
        days = phrases.days(self._rule, self.rrule, self.first)
        times = phrases.times(self._rule, self.start, self.duration_s)
        since = f" from {self.first}" if self.first else ""
        until = f" until {self._until.date()}" if self._until != datetime.max else ""
        return f"{days} {times} {self.zone}{since}{until}"

    def __repr__(self) -> str:
        return f"<Recurrence {self.describe()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recurrence) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (self.rrule, self.start, self.duration_s, self.zone, self.first, self.last)

    def _starts(self, first: date, last: date) -> Iterator[datetime]:
        return self._rule.occurrences(self.first or FIRST_DAY, self.start, first, last)

    def _only_start(self) -> datetime | None:
        """Return the local start of the one window that there is; None if there are more, or none."""
        if self._until == datetime.max:
            return None
        starts = self._starts(self.first or FIRST_DAY, self._until.date())
        first = list(islice((start for start in starts if start <= self._until), 2))
        return first[0] if len(first) == 1 else None

    def _last_start(self) -> datetime:
        """Return the latest local start that `last`, UNTIL and COUNT allow."""
        bounds = [datetime.max]
        if self.last is not None:
            bounds.append(datetime.combine(self.last, time.max))
        until = self._rule.until
        if isinstance(until, datetime):
            local = until.astimezone(self._zone) if until.tzinfo is UTC else until
            bounds.append(local.replace(tzinfo=None, fold=0))
        elif until is not None:
            bounds.append(datetime.combine(until, time.max))
        if self._rule.count and self.first is not None:
            bounds.append(self._counted_start(self.first, self._rule.count))
        return min(bounds)

    def _counted_start(self, first: date, count: int) -> datetime:
        horizon = first.replace(year=first.year + COUNTED_YEARS_MAX, day=min(first.day, 28))
        start = next(islice(self._starts(first, horizon), count - 1, None), None)
        if start is None:
            raise InvalidInput(
                f"the {count} occurrences do not end within {COUNTED_YEARS_MAX} years of {first}",
                where="rrule",
                remedy="write UNTIL=20301231 instead of COUNT",
            )
        return start


def _time_of_day(start: time | str) -> time:
    try:
        parsed = time.fromisoformat(start) if isinstance(start, str) else start
    except ValueError as error:
        raise _not_a_time(start) from error
    if not isinstance(parsed, time) or parsed.tzinfo is not None or parsed.microsecond:
        raise _not_a_time(start)
    return parsed


def _not_a_time(start: object) -> InvalidInput:
    return InvalidInput(f"{start!r} is not a local time", where="start", remedy="write 08:00")


def _day(day: date | str | None, where: str) -> date | None:
    try:
        parsed = date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError as error:
        raise _not_a_day(day, where) from error
    if parsed is None:
        return None
    if not isinstance(parsed, date) or isinstance(parsed, datetime):
        raise _not_a_day(day, where)
    if not 1970 <= parsed.year <= 3000:
        raise _not_a_day(day, where)
    return parsed


def _not_a_day(day: object, where: str) -> InvalidInput:
    return InvalidInput(
        f"{day} is not a day from 1970 to 3000", where=where, remedy="write 2026-03-02"
    )
