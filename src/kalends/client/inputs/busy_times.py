"""Times at which a user is busy, from a calendar file (RFC 5545) of theirs.

The file may come from anywhere: its size, the number of its events and the work of its rules are limited.
What cannot be understood is an error, because a busy time that is left out would be booked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from kalends.core.errors import InvalidInput, TooLarge
from kalends.core.repeat import parse_repeat
from kalends.extras import install_command

WHERE: Final = "free-for"

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
OCCURRENCES_MAX: Final = 20_000
RULE_DAYS_MAX: Final = 300_000
"""The days that all rules of a file may run through, from their first events: some seconds of work."""

FREQUENCIES: Final = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
TIMES_OF_DAY: Final = ("BYHOUR", "BYMINUTE", "BYSECOND")

Period = tuple[int, int]
"""A time ``[start, end)`` in seconds UTC."""

Occurrence = tuple[int, Period]
"""The start (seconds UTC) that it has by its rule, also when it was moved; and its time."""


def busy_times(path: Path, start_s: int, end_s: int, zone: ZoneInfo) -> tuple[Period, ...]:
    """Return the times from `start_s` to `end_s` that events of the file take: in order, none overlapping.

    Whole days, and times without a zone, are those of `zone`. Cancelled and transparent events take no time.
    Raises `InvalidInput` for what cannot be read or understood, and `TooLarge`.
    """
    calendar = _parsed(_read(path))
    with understood("an event"):
        found = list(_Expansion(start_s, end_s, zone).periods(calendar.walk()))
    return _merged((max(start, start_s), min(end, end_s)) for start, end in found)


def events_in(
    path: Path, start_s: int, end_s: int, zone: ZoneInfo
) -> Iterator[tuple[Any, Iterator[Occurrence]]]:
    """Yield each event of the file that takes time, with its occurrences from `start_s` to `end_s`.

    Raises as `busy_times`: for the whole file here, and for one event by its occurrences, which `understood`
    has to guard.
    """
    with understood("an event"):
        yield from _Expansion(start_s, end_s, zone).events(_parsed(_read(path)).walk())


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Raise `InvalidInput` for `what` if a value in the file cannot be understood."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise _unclear(f"{what} cannot be understood: {error}") from error


def gaps(busy: Sequence[Period], start_s: int, end_s: int) -> Iterator[Period]:
    """Yield the times between `start_s` and `end_s` that are not `busy`, which is in order."""
    for start, end in busy:
        if start > start_s:
            yield start_s, min(start, end_s)
        start_s = max(start_s, end)
    if start_s < end_s:
        yield start_s, end_s


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # No path has a null character.
        raise InvalidInput(
            f"cannot read {path}: {getattr(error, 'strerror', error)}",
            where=WHERE,
            remedy="name a calendar file (.ics)",
        ) from error
    if len(content) > FILE_BYTES_MAX:
        raise TooLarge(
            f"{path} has more than {FILE_BYTES_MAX >> 20} MiB",
            where=WHERE,
            remedy="export the calendar of this year only",
        )
    return content


def _parsed(content: bytes) -> Any:
    try:
        import icalendar
    except ImportError as error:
        raise InvalidInput(
            "reading calendar files needs a package that is not installed",
            where=WHERE,
            remedy=install_command("ics"),
        ) from error
    try:
        return icalendar.Calendar.from_ical(content)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise _unclear(f"this is not a calendar file: {error}") from error


class _Expansion:
    """The occurrences of all events of a file that overlap a window."""

    def __init__(self, start_s: int, end_s: int, zone: ZoneInfo) -> None:
        self._start_s = start_s
        self._end_s = end_s
        self._zone = zone
        self._left = OCCURRENCES_MAX
        self._days_left = RULE_DAYS_MAX

    def periods(self, components: Iterable[Any]) -> Iterator[Period]:
        components = list(components)
        for component in components:
            if component.name == "VFREEBUSY":
                yield from self._free_busy(component)
        for _, found in self.events(components):
            for _, period in found:
                yield period

    def events(self, components: Iterable[Any]) -> Iterator[tuple[Any, Iterator[Occurrence]]]:
        """Yield each event that takes time, and its occurrences, which raise its faults."""
        events = [each for each in components if each.name == "VEVENT"]
        replaced: dict[str, set[datetime]] = {}
        for event in events:
            if "RECURRENCE-ID" in event:
                if event["RECURRENCE-ID"].params.get("RANGE"):
                    raise _unclear(f"{named(event)} changes all later events (THISANDFUTURE)")
                instead_of = self._aware(event["RECURRENCE-ID"], event)
                replaced.setdefault(str(event.get("UID")), set()).add(instead_of)
        for event in events:
            taken = event.get("STATUS") != "CANCELLED" and event.get("TRANSP") != "TRANSPARENT"
            if event.errors or ("DTSTART" in event and taken):
                yield event, self._event(event, replaced.get(str(event.get("UID")), set()))

    def _free_busy(self, component: Any) -> Iterator[Period]:
        given = component.get("FREEBUSY", [])
        for entry in given if isinstance(given, list) else [given]:
            if entry.params.get("FBTYPE") == "FREE":
                continue
            for each in getattr(entry, "dts", None) or [entry]:
                start, end = _period(each)
                yield from self._overlapping(int(start.timestamp()), int(end.timestamp()))

    def _event(self, event: Any, replaced: set[datetime]) -> Iterator[Occurrence]:
        """Yield the occurrences of an event: by its own clock, so that a weekly one stays at its hour."""
        if event.errors:
            raise _unclear(f"{named(event)}: {event.errors[0][1]}")
        first = event["DTSTART"].dt
        zone = self._aware(event["DTSTART"], event).tzinfo or UTC
        timed = isinstance(first, datetime)
        days, rest = self._length(event)
        local = first.replace(tzinfo=None) if timed else datetime.combine(first, time())
        starts = self._starts(event, local, zone)
        left_out = {self._local(each, event, zone) for each in _dates(event, "EXDATE")}
        if "RECURRENCE-ID" not in event:
            left_out |= {each.astimezone(zone).replace(tzinfo=None) for each in replaced}
        for start in starts:
            if start in left_out:
                continue
            begins = start.replace(tzinfo=zone)
            ends = (start + days).replace(tzinfo=zone).timestamp() + rest.total_seconds()
            moved = event.get("RECURRENCE-ID")
            by_rule = begins if moved is None else self._aware(moved, event)
            for period in self._overlapping(int(begins.timestamp()), int(ends)):
                yield int(by_rule.timestamp()), period

    def _starts(self, event: Any, local: datetime, zone: tzinfo) -> Iterable[datetime]:
        """Return when an event begins by the clocks of `zone`, until the end of the window."""
        starts = {local, *(self._local(each, event, zone) for each in _dates(event, "RDATE"))}
        if "RECURRENCE-ID" in event:
            return [local]
        rules = event.get("RRULE", [])
        for rule in rules if isinstance(rules, list) else [rules]:
            starts.update(self._by_rule(rule, local, zone, event))
        return sorted(starts)

    def _by_rule(self, rule: Any, local: datetime, zone: tzinfo, event: Any) -> Iterator[datetime]:
        frequency = str(rule.get("FREQ", [""])[0]).upper()
        if frequency not in FREQUENCIES:
            raise _unclear(f"{named(event)} repeats {frequency or 'in an unknown way'}")
        if any(len(rule.get(each, [])) > 1 for each in TIMES_OF_DAY):
            raise _unclear(f"{named(event)} repeats several times a day")
        latest = datetime.fromtimestamp(self._end_s, zone).replace(tzinfo=None)
        limit = rule.get("UNTIL", [None])[0]
        if limit is not None:
            until = limit if isinstance(limit, datetime) else datetime.combine(limit, time.max)
            if until.tzinfo is not None:
                until = until.astimezone(zone).replace(tzinfo=None)
            latest = min(latest, until.replace(microsecond=0))
        self._days_left -= max((latest - local).days, 0)
        if self._days_left < 0:
            raise TooLarge(
                "the rules of the file run through too many days",
                where=WHERE,
                remedy="export a calendar without events that began long ago",
            )
        # Ours, for dateutil tries a rule that never applies until the year 9999.
        parts = {key: value for key, value in rule.items() if key not in ("UNTIL", "COUNT")}
        text = type(rule)(parts).to_ical().decode()
        count = rule.get("COUNT", [None])[0]
        made = parse_repeat(text).occurrences(
            local.date(), local.time(), local.date(), latest.date()
        )
        yield from islice((each for each in made if local <= each <= latest), count)

    def _length(self, event: Any) -> tuple[timedelta, timedelta]:
        """Return how long an event lasts: days by the clocks of its zone, and then a time."""
        first = event["DTSTART"].dt
        if "DTEND" in event:
            last = event["DTEND"].dt
            if isinstance(first, datetime) != isinstance(last, datetime):
                raise _unclear(f"{named(event)} begins with a day and ends with a time")
            if not isinstance(first, datetime):
                return timedelta(days=(last - first).days), timedelta()
            # Subtracted in UTC: two times of one zone would be subtracted by its clock.
            ends = self._aware(event["DTEND"], event).astimezone(UTC)
            return timedelta(), ends - self._aware(event["DTSTART"], event).astimezone(UTC)
        if "DURATION" in event:
            found: timedelta = event["DURATION"].dt
            return timedelta(days=found.days), timedelta(seconds=found.seconds)
        return timedelta(days=0 if isinstance(first, datetime) else 1), timedelta()

    def _aware(self, given: Any, event: Any) -> datetime:
        """Return a time of an event with its zone; raises `InvalidInput` for a zone that is not known."""
        found = given.dt if hasattr(given, "dt") else given
        if not isinstance(found, datetime):
            return datetime.combine(found, time(), self._zone)
        if found.tzinfo is None:
            if zone := getattr(given, "params", {}).get("TZID"):
                raise _unclear(f"{named(event)} is in an unknown time zone: {zone}")
            return found.replace(tzinfo=self._zone)
        return found

    def _local(self, given: Any, event: Any, zone: tzinfo) -> datetime:
        return self._aware(given, event).astimezone(zone).replace(tzinfo=None)

    def _overlapping(self, start_s: int, end_s: int) -> Iterator[Period]:
        if start_s < end_s and start_s < self._end_s and end_s > self._start_s:
            self._left -= 1
            if self._left < 0:
                raise TooLarge(
                    f"the file has more than {OCCURRENCES_MAX:,} events in this window",
                    where=WHERE,
                    remedy="ask for a shorter window: --before TIME",
                )
            yield start_s, end_s


def _dates(event: Any, name: str) -> Iterator[Any]:
    given = event.get(name, [])
    for entry in given if isinstance(given, list) else [given]:
        for each in entry.dts:
            if isinstance(each.dt, tuple):
                raise _unclear(f"{named(event)} has periods as dates")
            # The zone stands at the list, not at each of its dates.
            if (
                isinstance(each.dt, datetime)
                and each.dt.tzinfo is None
                and entry.params.get("TZID")
            ):
                raise _unclear(f"{named(event)} is in an unknown time zone")
            yield each


def _period(given: Any) -> tuple[datetime, datetime]:
    start, end = (
        given.dt if isinstance(getattr(given, "dt", None), tuple) else (given.start, given.end)
    )
    if isinstance(end, timedelta):
        end = start + end
    if not isinstance(start, datetime) or start.tzinfo is None:
        raise _unclear("a busy time is not in UTC")
    return start, end


def _merged(periods: Iterable[Period]) -> tuple[Period, ...]:
    merged: list[Period] = []
    for start, end in sorted(periods):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def named(event: Any) -> str:
    """Return words for an event, with the beginning of its title."""
    title = "".join(sign for sign in str(event.get("SUMMARY", "")) if sign.isprintable())[:40]
    return f"the event {title!r}"


def _unclear(detail: str) -> InvalidInput:
    return InvalidInput(
        detail,
        where=WHERE,
        remedy="change or remove it in your calendar, and export the file again",
    )
