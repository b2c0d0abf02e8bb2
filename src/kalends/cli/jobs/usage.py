"""``kalends usage``: what jobs and reservations used of a machine, as sums and as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from kalends.cli.console import output, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.jobs import job_options, shown_jobs
from kalends.cli.jobs.tables import opened, write_table
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id

if TYPE_CHECKING:
    from kalends.cli.console.settings import Settings
    from kalends.client.sync import SyncClient
    from kalends.contract.history_calls import (
        HistoryPage,
        HistoryRow,
        PastBy,
        SlotPage,
        SlotRow,
        SlotsUsed,
    )
    from kalends.contract.job_calls import UsageView


NEW_FILE = click.Path(path_type=Path, dir_okay=False)

PAGE_JOBS: Final = 2_000

JOB_COLUMNS: Final = (
    "job", "user", "project", "reservation", "priority", "submitted", "started", "over", "nodes", "limit_s",
    "nodes_had", "node_seconds", "credit_seconds", "cpu_s", "memory_bytes",
    "stood_s", "end", "status", "attempt", "array", "index",
)  # fmt: skip
"""Fields of `HistoryRow`, as the columns of a table."""

TIMES: Final = frozenset({"submitted", "started", "over"})

PAGE_SLOTS: Final = 1_000

HOURS: Final = ("RESERVED", "JOBS", "USED", "UNUSED")
"""Columns of node-hours; the column of jobs is a count."""

SLOT_COLUMNS: Final = (
    "reservation", "name", "user", "account", "start", "end", "nodes", "reserved_node_seconds", "jobs",
    "used_node_seconds",
)  # fmt: skip


@server_command(
    "usage",
    "kalends usage sdsc/sp2 --everyone --swf october.swf",
    "kalends usage --charges --project dna --csv dna.csv",
)
@job_options.machine_argument
@click.option("--from", "start", default="now-30d", show_default=True, metavar="TIME",
              help="Start of the period: jobs that ended from then on.")  # fmt: skip
@click.option("--to", "end", default="now", show_default=True, metavar="TIME", help="End.")
@click.option("--everyone", is_flag=True, help="Sum up all users; needs the scope audit or admin.")
@click.option("--each", is_flag=True,
              help="Print a row for each reservation in the batch system behind the resource.")  # fmt: skip
@click.option("--charges", is_flag=True, is_eager=True,
              help="Show what was charged to your accounts at each owner, instead of a machine.")  # fmt: skip
@click.option("--project", default="", metavar="NAME", help="With --charges: of this project only.")
@click.option("--csv", "table", type=NEW_FILE, metavar="FILE",
              help="New CSV file with a row for each job, with --each for each reservation, or "
              "with --charges for each entry; - for standard output.")  # fmt: skip
@click.option("--swf", "log", type=NEW_FILE, metavar="FILE",
              help="New workload log of these jobs, for kalends simulate.")  # fmt: skip
def usage(
    settings: Settings,
    machine: str,
    start: str,
    end: str,
    everyone: bool,
    each: bool,
    charges: bool,
    project: str,
    table: Path | None,
    log: Path | None,
) -> None:
    """Sum up the node-seconds that your jobs used, by project.

    For a resource backed by a batch system, shows your reservations there, and their use by your jobs.
    With --charges, shows the credits of each owner that your reservations and jobs have cost.
    """
    if charges:
        # Imported here because most sums are about machines.
        from kalends.cli.jobs.charges import show_charges

        show_charges(settings, start, end, project, table, everyone=everyone)
        return
    if project:
        raise InvalidInput(
            "a project is for the charges of all owners",
            where="--project",
            remedy="add --charges",
        )
    with site_calls.client_at(settings, machine) as client:
        start_s, end_s = client.period_s(start, end)
        if each and log is not None:
            raise InvalidInput(
                "a workload log cannot have reservations",
                where="--swf",
                remedy="leave out --each",
            )
        if each:
            _show_slots(settings, client, machine, start_s, end_s, table, everyone=everyone)
            return
        if table is not None or log is not None:
            _export(client, machine, start_s, end_s, everyone, table, log)
            return
        view = client.job_usage(machine, start=start_s, end=end_s, everyone=everyone)
    output.answer(settings, "usage", view, lambda: _lines(view, settings))


def _lines(view: UsageView, settings: Settings) -> list[str]:
    if view.slots is None:
        return _sums(view)
    of_jobs = _sums(view) if view.rows or view.reserved else []
    return [*of_jobs, *([""] if of_jobs else []), *_slot_sums(view.slots, settings)]


def _sums(view: UsageView) -> list[str]:
    used = [
        (
            row.user,
            row.project or "-",
            row.jobs,
            f"{row.node_seconds / 3600:.2f}",
            f"{row.cpu_s / 3600:.2f}",
            shown_jobs.credits_text(row.credit_seconds),
        )
        for row in view.rows
    ]
    reserved = [
        (
            row.user,
            "(reserved)",
            row.reservations,
            f"{row.node_seconds / 3600:.2f}",
            "-",
            shown_jobs.credits_text(row.credit_seconds),
        )
        for row in view.reserved
    ]
    numbers = ("JOBS", "NODE-HOURS", "CPU-HOURS", "CREDITS")
    return output.rows(("USER", "PROJECT", *numbers), [*used, *reserved], right=numbers)


def _export(
    client: SyncClient,
    machine: str,
    start: int,
    end: int,
    everyone: bool,
    table: Path | None,
    log: Path | None,
) -> None:
    if table == log:
        raise InvalidInput(
            f"both are to be written to {table}",
            where="--swf",
            remedy="give each a file of its own",
        )
    for path, write in ((table, write_csv), (log, write_log)):
        if path is None:
            continue
        with opened(path) as stream:
            count = write(stream, pages(client, machine, start, end, by="over", everyone=everyone))
        if path != Path("-"):
            output.say(f"{path}: {count} jobs")


def pages(
    client: SyncClient, machine: str, start: int, end: int, *, by: PastBy, everyone: bool
) -> Iterator[HistoryPage]:
    """Yield all pages, at least one."""
    page: HistoryPage | None = None
    while page is None or page.more:
        page = client.job_history(
            machine, start=start, end=end, by=by, everyone=everyone, count=PAGE_JOBS, after=page
        )
        yield page


def write_csv(stream: TextIO, found: Iterable[HistoryPage]) -> int:
    """Write a header and a row for each job; return the number of jobs. Times are UTC, or empty for none."""
    cells = ([_cell(row, name) for name in JOB_COLUMNS] for page in found for row in page.rows)
    return write_table(stream, JOB_COLUMNS, cells)


def write_log(stream: TextIO, found: Iterable[HistoryPage]) -> int:
    """Write the jobs as a log in the Standard Workload Format; return the number of jobs."""
    from kalends.simulation.workloads.site_log import write_site_log

    all_pages = list(found)
    rows = [row for page in all_pages for row in page.rows]
    write_site_log(stream, all_pages[-1], rows)
    return len(rows)


def _cell(row: HistoryRow, name: str) -> object:
    value = getattr(row, name)
    if name in TIMES:
        return _time(value) if value else ""
    return "" if value is None else value


def _show_slots(
    settings: Settings, client: SyncClient, machine: str, start: int, end: int, table: Path | None, *,
    everyone: bool,
) -> None:  # fmt: skip
    """Print, or write to the new file `table`, a row for each reservation that ends in ``[start, end)``."""
    found = list(_slot_pages(client, machine, start, end, everyone=everyone))
    rows = [row for page in found for row in page.rows]
    if table is None:
        last = found[-1]
        told = {"system": last.system, "read_until": last.read_until, "problem": last.problem}
        data = {"machine": machine, "slots": rows, **told}
        output.answer(settings, "slots", data, lambda: _each(rows, last, settings))
        return
    with opened(table) as stream:
        write_table(stream, SLOT_COLUMNS, map(_slot_cells, rows))
    if table != Path("-"):
        output.say(f"{table}: {len(rows)} reservations")


def _slot_sums(used: SlotsUsed, settings: Settings) -> list[str]:
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


def _slot_pages(
    client: SyncClient, machine: str, start: int, end: int, *, everyone: bool
) -> Iterator[SlotPage]:
    page: SlotPage | None = None
    while page is None or page.more:
        page = client.slots(
            machine, start=start, end=end, everyone=everyone, count=PAGE_SLOTS, after=page
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


def _slot_cells(row: SlotRow) -> tuple[object, ...]:
    return (
        row.reservation, row.name, row.user, row.account, _time(row.start), _time(row.end), row.nodes,
        row.reserved, row.jobs, row.used,
    )  # fmt: skip


def _time(time_s: int) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
