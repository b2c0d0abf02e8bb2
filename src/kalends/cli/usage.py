"""``kalends usage``: node-seconds used on a machine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.jobs import job_options, shown_jobs, slots
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.client.sync import SyncClient
    from kalends.contract.job_calls import UsageView

NEW_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "usage",
    cls=ServerCommand,
    examples=(
        "kalends usage sdsc/sp2 --everyone --swf october.swf",
        "kalends usage centre/cluster --each --from 2026-10-01 --to 2026-11-01",
    ),
)
@job_options.machine_argument
@click.option("--from", "start", default="now-30d", show_default=True, metavar="TIME",
              help="Start of the period: jobs that ended from then on.")  # fmt: skip
@click.option("--to", "end", default="now", show_default=True, metavar="TIME", help="End.")
@click.option("--everyone", is_flag=True, help="Sum up all users; needs the scope audit or admin.")
@click.option("--each", is_flag=True,
              help="Print a row for each reservation in the batch system behind the resource.")  # fmt: skip
@click.option("--csv", "table", type=NEW_FILE, metavar="FILE",
              help="New CSV file with a row for each job, or with --each for each reservation; "
              "- for standard output.")  # fmt: skip
@click.option("--swf", "log", type=NEW_FILE, metavar="FILE",
              help="New workload log of these jobs, for kalends simulate.")  # fmt: skip
@pass_settings
def command(
    settings: Settings,
    machine: str,
    start: str,
    end: str,
    everyone: bool,
    each: bool,
    table: Path | None,
    log: Path | None,
) -> None:
    """Sum up the node-seconds that your jobs used, by project.

    For a resource backed by a batch system, shows your reservations there, and their use by your jobs.
    """
    with shown_jobs.client_at(settings, machine) as client:
        start_s, end_s = client.period_s(start, end)
        if each and log is not None:
            raise InvalidInput(
                "a workload log cannot have reservations",
                where="--swf",
                remedy="leave out --each",
            )
        if each:
            slots.show(settings, client, machine, start_s, end_s, table, everyone=everyone)
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
    return [*of_jobs, *([""] if of_jobs else []), *slots.sums(view.slots, settings)]


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
    from kalends.cli.jobs import past_jobs

    if table == log:
        raise InvalidInput(
            f"both are to be written to {table}",
            where="--swf",
            remedy="give each a file of its own",
        )
    fetch = partial(past_jobs.pages, client, machine, start, end, by="over", everyone=everyone)
    for path, write in ((table, past_jobs.write_csv), (log, past_jobs.write_log)):
        if path is None:
            continue
        with past_jobs.opened(path) as stream:
            count = write(stream, fetch())
        if path != Path("-"):
            output.say(f"{path}: {count} jobs")
