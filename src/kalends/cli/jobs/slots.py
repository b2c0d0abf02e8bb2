"""Reservations of batch systems as ``kalends usage`` shows them: node-hours reserved, used and unused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kalends.cli.console import output
from kalends.cli.console.short_time import short_time
from kalends.core.identifiers import short_id

if TYPE_CHECKING:
    from kalends.cli.console.settings import Settings
    from kalends.client.sync import SyncClient
    from kalends.contract.slot_calls import SlotPage, SlotRow
    from kalends.contract.slot_sums import SlotsUsed

PAGE_ROWS: Final = 1_000
HOURS: Final = ("RESERVED", "JOBS", "USED", "UNUSED")
"""Columns of node-hours; the column of jobs is a count."""

COLUMNS: Final = (
    "reservation", "name", "user", "account", "start", "end", "nodes", "reserved_node_seconds", "jobs",
    "used_node_seconds",
)  # fmt: skip


def show(
    settings: Settings, client: SyncClient, machine: str, start: int, end: int, table: Path | None, *,
    everyone: bool,
) -> None:  # fmt: skip
    """Print, or write to the new file `table`, a row for each reservation that ends in ``[start, end)``."""
    pages = list(_pages(client, machine, start, end, everyone=everyone))
    rows = [row for page in pages for row in page.rows]
    if table is None:
        data = {"machine": machine, "slots": rows, **_told(pages[-1])}
        output.answer(settings, "slots", data, lambda: _each(rows, pages[-1], settings))
        return
    from kalends.cli.jobs.past_jobs import opened

    with opened(table) as stream:
        import csv

        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(map(_cells, rows))
    if table != Path("-"):
        output.say(f"{table}: {len(rows)} reservations")


def sums(used: SlotsUsed, settings: Settings) -> list[str]:
    """Return a row for each user, and one for each of the user's projects in the batch system."""
    lines: list[tuple[object, ...]] = []
    for user in used.users:
        hours = _hours(user.reserved, user.jobs, user.used, known=_known(used))
        lines.append((user.user, "(all)", user.slots, *hours))
        lines += [
            (user.user, each.project or "-", "-", "-", each.jobs, _hour(each.used), "-")
            for each in used.projects
            if each.user == user.user
        ]
    numbers = ("RESERVATIONS", *HOURS)
    return [
        *output.rows(("USER", "PROJECT", *numbers), lines, right=numbers),
        _until(used, settings),
    ]


def _pages(
    client: SyncClient, machine: str, start: int, end: int, *, everyone: bool
) -> Iterator[SlotPage]:
    page: SlotPage | None = None
    while page is None or page.more:
        page = client.slots(
            machine, start=start, end=end, everyone=everyone, count=PAGE_ROWS, after=page
        )
        yield page


def _each(rows: Iterable[SlotRow], page: SlotPage, settings: Settings) -> list[str]:
    zone = settings.time_zone()
    lines = [
        (
            short_id(row.reservation),
            row.user,
            short_time(row.start, zone),
            short_time(row.end, zone),
            row.nodes,
            *_hours(row.reserved, row.jobs, row.used, known=row.start < page.read_until),
            row.name,
        )
        for row in rows
    ]
    numbers = ("NODES", *HOURS)
    header = ("RESERVATION", "USER", "START", "END", *numbers, "NAME THERE")
    return [*output.rows(header, lines, right=numbers), _until(page, settings)]


def _hours(reserved: int, jobs: int, used: int, *, known: bool) -> tuple[object, ...]:
    if not known:
        return (_hour(reserved), "?", "?", "?")
    return (_hour(reserved), jobs, _hour(used), _hour(max(reserved - used, 0)))


def _hour(node_seconds: int) -> str:
    return f"{node_seconds / 3600:.2f}"


def _known(told: SlotsUsed | SlotPage) -> bool:
    return told.read_until > 0


def _until(told: SlotsUsed | SlotPage, settings: Settings) -> str:
    """Return until when the use by jobs is known, and why not later."""
    if not _known(told):
        return f"the use by jobs is not known: {told.system}: {told.problem or 'not read yet'}"
    until = short_time(told.read_until, settings.time_zone())
    why = f"; then: {told.problem}" if told.problem else ""
    return f"in node-hours, with the jobs of {told.system} that ended before {until}{why}"


def _told(page: SlotPage) -> dict[str, object]:
    return {"system": page.system, "read_until": page.read_until, "problem": page.problem}


def _cells(row: SlotRow) -> tuple[object, ...]:
    return (
        row.reservation, row.name, row.user, row.account, _time(row.start), _time(row.end), row.nodes,
        row.reserved, row.jobs, row.used,
    )  # fmt: skip


def _time(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
