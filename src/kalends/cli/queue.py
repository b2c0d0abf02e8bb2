"""``kalends queue``: list jobs and when they start, or draw the schedule."""

from __future__ import annotations

from typing import Literal

import click

from kalends.cli.console import output, screen
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.jobs import job_options, plan_drawing, shown_jobs
from kalends.core.limits import LISTING_MAX

DRAWN_WIDTH_MAX = 80


@click.command(
    "queue",
    cls=ServerCommand,
    examples=("kalends queue sdsc/sp2", "kalends queue sdsc/sp2 --plan"),
)
@job_options.machine_argument
@click.option("--mine", is_flag=True, help="List only your own jobs.")
@click.option("--over", is_flag=True, help="List jobs that have ended, newest first.")
@click.option("--plan", "planned", is_flag=True, help="Draw the schedule: rows are time, columns "
              "are nodes.")  # fmt: skip
@click.option(
    "--watch", is_flag=True, help="Print a line for each change of your jobs, until all have ended."
)
@click.option("--count", default=100, show_default=True, type=WholeNumber(1, LISTING_MAX),
              metavar="N", help="Maximum number of rows.")  # fmt: skip
@pass_settings
def command(
    settings: Settings,
    machine: str,
    mine: bool,
    over: bool,
    planned: bool,
    watch: bool,
    count: int,
) -> None:
    """List the jobs that wait or run on a machine.

    The expected start of a waiting job has ~ before it. The schedule of --plan shows the latest starts,
    which hold if no other job or booking overtakes. With --watch --json each change is one line.
    If there are more jobs than rows, the last line shows how to list them.
    """
    if watch:
        if mine or over or planned:
            raise click.UsageError("--watch excludes --mine, --over and --plan.")
        _watch(settings, machine)
        return
    if planned:
        if mine or over:
            raise click.UsageError("--plan excludes --mine and --over.")
        _draw(settings, machine, count)
        return
    state: Literal["", "over"] = "over" if over else ""
    zone = settings.time_zone()
    with shown_jobs.client_at(settings, machine) as client:
        found = client.jobs(machine, state=state, everyone=not mine, count=count)
    output.answer(
        settings,
        "jobs",
        found,
        lambda: [
            *shown_jobs.machine_lines(found.machines),
            "",
            *shown_jobs.listing(found.jobs, zone),
        ],
    )
    if found.more:
        output.say(_more(machine, count, mine=mine, over=over), error=True)


def _more(machine: str, count: int, *, mine: bool, over: bool) -> str:
    """Return the command that lists the jobs after the first `count`."""
    words = ["kalends queue", machine, *(["--mine"] if mine else []), *(["--over"] if over else [])]
    if count < LISTING_MAX:
        return f"there are more: {' '.join(words)} --count {min(10 * count, LISTING_MAX)}"
    if over:
        return (
            f"there are more: kalends usage {machine} --csv - lists all, by the time of their end"
        )
    return f"there are more than {count:,} jobs" + ("" if mine else f": {' '.join(words)} --mine")


def _watch(settings: Settings, machine: str) -> None:
    zone = settings.time_zone()
    with shown_jobs.client_at(settings, machine) as client:
        for view in client.watch_jobs(machine, until_over=True):
            if settings.json:
                output.print_json("job", view, one_line=True)
                continue
            told = view.end or view.started or view.predicted is not None
            words = (
                shown_jobs.news(None, view, zone)
                if told
                else ": ".join((view.phase, *view.reasons))
            )
            now = short_time(client.time_s("now"), zone)
            output.say(f"{now}  {machine}/{view.job} {words}")


def _draw(settings: Settings, machine: str, count: int) -> None:
    zone = settings.time_zone()
    with shown_jobs.client_at(settings, machine) as client:
        plan = client.machine_plan(machine)
    if settings.json:
        output.print_json("plan", plan)
        return
    terminal = screen.console()
    width = min(terminal.width, DRAWN_WIDTH_MAX)
    load = plan.machine
    output.say(f"{machine}  {load.nodes} nodes, {load.policy}")
    output.say("")
    screen.print_lines(plan_drawing.draw(plan, zone, width=width, count=count), terminal)
