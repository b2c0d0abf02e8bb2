"""The bookings in a file of another system: rows of a table (CSV), or events of a calendar (iCalendar)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from kalends.client.imports.tables import Row, read_table
from kalends.client.inputs.busy_times import Occurrence, events_in, named, understood
from kalends.client.inputs.request_builder import period_s
from kalends.core.errors import InvalidInput, TooLarge
from kalends.core.identifiers import IN_WORDS, USER_PATTERN

NEEDED: Final = ("resource", "user", "start", "end")
PERHAPS: Final = ("note", "groups", "id")
"""The columns of a table: `groups` are separated by blanks, `id` is that of the other system."""

HORIZON_S: Final = 2 * 366 * 86_400
"""Occurrences of a calendar are read so far ahead: no owner's horizon is longer by default."""

NOTE_CHARACTERS_MAX: Final = 200

_LATER_S: Final = 400 * 86_400
"""No day of the week, of the month or of the year is the same so much later."""

_NAME = re.compile(USER_PATTERN)


class BookingRow(NamedTuple):
    """A booking as the file has it. `key` is the same in each import of it, whatever else is in the file."""

    where: str
    key: str
    user: str
    groups: tuple[str, ...]
    request: str
    start: int
    end: int
    note: str


class BadRow(NamedTuple):
    """A row that cannot be booked: its error names the column."""

    where: str
    error: InvalidInput


@dataclass(frozen=True)
class Names:
    """Users and resources of another system, and their names here.

    ``@kit.example`` stands for all users at that domain: with the name here "" they are called by what is
    before the ``@``, and with ``@name`` they have that end.
    """

    here: Mapping[str, str]

    def of(self, there: str) -> str:
        """Return the name here; "" if there is no rule for it."""
        if found := self.here.get(there) or self.here.get(there.lower()):
            return found
        person, at, domain = there.rpartition("@")
        end = self.here.get(f"@{domain.lower()}") if at else None
        return "" if end is None else f"{person}{end}"


def read_names(path: Path) -> Names:
    """Return the names in a table with the columns ``there`` and ``here``. Raises as `read_table`."""
    rows = read_table(path, ("there", "here")).rows
    return Names({_lowered(row.cells["there"]): row.cells["here"] for row in rows})


def _lowered(there: str) -> str:
    return there.lower() if "@" in there else there


def read_bookings(
    path: Path, *, zone: ZoneInfo, now_s: int, names: Names | None = None, resource: str = ""
) -> tuple[list[BookingRow | BadRow], tuple[str, ...]]:
    """Return the bookings in `path`, a calendar if it ends with ``.ics``; and the columns that were not read.

    Times without a zone are those of `zone`. `resource` is what events without a place are for. Raises
    `InvalidInput` and `TooLarge` for the file as a whole.
    """
    names = names or Names({})
    if path.suffix.lower() == ".ics":
        return list(_of_calendar(path, zone, now_s, names, resource)), ()
    table = read_table(path, NEEDED, PERHAPS)
    return [_of_row(row, zone, now_s, names) for row in table.rows], table.ignored


def _of_row(row: Row, zone: ZoneInfo, now_s: int, names: Names) -> BookingRow | BadRow:
    where, cells = f"line {row.line}", row.cells
    for column in NEEDED:
        if not cells[column]:
            return _bad(where, column, "the cell is empty")
    try:
        start, end = period_s(cells["start"], cells["end"], now_s=now_s, zone=zone)
        lasting = _is_lasting(cells, (start, end), now_s, zone)
    except InvalidInput as error:
        error.where = "start" if error.where == "period[0]" else "end"
        return BadRow(where, error)
    if not lasting:
        return _bad(
            where, "start", f"{cells['start']!r} to {cells['end']!r} has no date with a year"
        )
    request = names.of(cells["resource"]) or cells["resource"]
    user = names.of(cells["user"]) or cells["user"]
    groups = tuple(cells["groups"].split())
    for column, name in (("user", user), *(("groups", each) for each in groups)):
        if not _NAME.fullmatch(name):
            return _bad(where, column, f"{name!r}: {IN_WORDS[USER_PATTERN]}")
    key = _key("id", cells["id"]) if cells["id"] else _key("row", request, user, start, end)
    note = cells["note"][:NOTE_CHARACTERS_MAX]
    return BookingRow(where, key, user, groups, request, start, end, note)


def _is_lasting(
    cells: Mapping[str, str], period: tuple[int, int], now_s: int, zone: ZoneInfo
) -> bool:
    """Return whether the times are the same in a later import: those without a date are not."""
    try:
        return period == period_s(cells["start"], cells["end"], now_s=now_s + _LATER_S, zone=zone)
    except InvalidInput:
        return False


def _of_calendar(
    path: Path, zone: ZoneInfo, now_s: int, names: Names, resource: str
) -> Iterator[BookingRow | BadRow]:
    try:
        for event, occurrences in events_in(path, now_s, now_s + HORIZON_S, zone):
            where = named(event)
            try:
                with understood(where):
                    yield from _of_event(event, occurrences, where, names, resource)
            except InvalidInput as error:
                error.where = "VEVENT"
                yield BadRow(where, error)
    except TooLarge as error:
        error.where, error.remedy = str(path), "export fewer events: those of this year only"
        raise
    except InvalidInput as error:
        error.where = str(path)
        raise


def _of_event(
    event: Any, occurrences: Iterator[Occurrence], where: str, names: Names,
    resource: str,
) -> Iterator[BookingRow | BadRow]:  # fmt: skip
    organiser = str(event.get("ORGANIZER", ""))
    address = organiser[7:] if organiser.lower().startswith("mailto:") else organiser
    place = str(event.get("LOCATION", "")).strip()
    user, request = names.of(address), names.of(place) or resource
    if not user:
        missing = f"--names has no name for {address}" if address else "the event has no organiser"
        yield _bad(where, "ORGANIZER", missing)
    elif not _NAME.fullmatch(user):
        yield _bad(where, "ORGANIZER", f"{user!r}: {IN_WORDS[USER_PATTERN]}")
    elif not request:
        missing = f"--names has no resource for {place!r}" if place else "the event has no place"
        yield _bad(where, "LOCATION", f"{missing}, and there is no --resource")
    else:
        repeats = any(each in event for each in ("RRULE", "RDATE", "RECURRENCE-ID"))
        for by_rule, (start, end) in occurrences:
            which = by_rule if repeats else ""
            key = _key("uid", str(event.get("UID", "")) or (request, user, start), which)
            note = str(event.get("SUMMARY", "")).strip()[:NOTE_CHARACTERS_MAX]
            yield BookingRow(where, key, user, (), request, start, end, note)


def _bad(where: str, column: str, detail: str) -> BadRow:
    return BadRow(where, InvalidInput(detail, where=column, remedy="correct the row"))


def _key(*parts: object) -> str:
    """Return a key of one call that is made of `parts`, and of nothing else."""
    return f"import-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"
