"""``kalends queue``: list jobs and when they start."""

from __future__ import annotations

from typing import Literal

import click

from kalends.cli import _jobs, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "queue",
    cls=ServerCommand,
    examples=("kalends queue sdsc/sp2", "kalends queue sdsc/sp2 --over --mine"),
)
@click.argument("machine")
@click.option("--mine", is_flag=True, help="List only your own jobs.")
@click.option("--over", is_flag=True, help="List jobs that are over, newest first.")
@click.option("--count", default=100, show_default=True, type=click.IntRange(1, 10_000),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
@pass_settings
def command(settings: Settings, machine: str, mine: bool, over: bool, count: int) -> None:
    """List the jobs that wait or run on a machine.

    Waiting jobs show the start that is expected, with ~ before it.
    """
    state: Literal["", "over"] = "over" if over else ""
    zone = settings.time_zone()
    with _jobs.settings_at(settings, machine).connect() as client:
        found = client.jobs(machine, state=state, everyone=not mine, count=count)
    _output.answer(
        settings,
        "jobs",
        found,
        lambda: [*_jobs.machine_lines(found.machines), "", *_jobs.listing(found.jobs, zone)],
    )
