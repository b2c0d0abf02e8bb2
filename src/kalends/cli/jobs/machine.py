"""A machine and its jobs: ``kalends queue`` and ``kalends machine``."""

from __future__ import annotations

from typing import Literal
from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, screen, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.jobs import drawings, job_options, shown_jobs
from kalends.contract.job_calls import Jobs, MachineGaps
from kalends.core.durations import format_duration
from kalends.core.limits import LISTING_MAX
from kalends.core.number_ranges import numbers_text

DRAWN_WIDTH_MAX = 80


@server_command("queue", "kalends queue sdsc/sp2", "kalends queue sdsc/sp2 --plan")
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
def queue(
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
    with site_calls.client_at(settings, machine) as client:
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
    with site_calls.client_at(settings, machine) as client:
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
    with site_calls.client_at(settings, machine) as client:
        plan = client.machine_plan(machine)
    if settings.json:
        output.print_json("plan", plan)
        return
    terminal = screen.console()
    width = min(terminal.width, DRAWN_WIDTH_MAX)
    load = plan.machine
    output.say(f"{machine}  {load.nodes} nodes, {load.policy}")
    output.say("")
    output.print_lines(drawings.draw_plan(plan, zone, width=width, count=count), terminal)


@server_command("machine", "kalends machine sdsc/sp2", "kalends machine sdsc/sp2 --gaps")
@job_options.machine_argument
@click.option(
    "--gaps", is_flag=True, help="List sizes and lengths of jobs that would start at once."
)
def machine(settings: Settings, machine: str, gaps: bool) -> None:
    """Show a machine: its nodes, its policy, and which job has which nodes.

    Nodes are drawn in the machine's topology: a mesh as one plane, a torus as several.
    """
    if gaps:
        zone = settings.time_zone()
        with site_calls.client_at(settings, machine) as client:
            fitting, now = client.machine_gaps(machine), client.time_s("now")
        output.answer(settings, "gaps", fitting, lambda: _gap_lines(fitting, now, zone))
        return
    with site_calls.client_at(settings, machine) as client:
        found = client.jobs(machine, state="running", everyone=True, count=LISTING_MAX)
    if settings.json:
        output.print_json("machine", found)
        return
    for line in shown_jobs.machine_lines(found.machines):
        output.say(line)
    output.say("")
    terminal = screen.console()
    for load in found.machines:
        if load.decides:
            output.say(f"{load.decides} alone schedules the jobs, and chooses their nodes")
            continue
        if load.aside:
            continue
        width = min(terminal.width, DRAWN_WIDTH_MAX)
        output.print_lines(drawings.draw_nodes(load, found.jobs, width=width), terminal)
    output.say("")
    for line in _job_lines(found):
        output.say(line)
    if found.more:
        output.say(f"there are more than {LISTING_MAX:,} jobs on nodes", error=True)


def _job_lines(found: Jobs) -> list[str]:
    return output.rows(
        ("", "JOB", "USER", "STATE", "NODES"),
        [
            (
                sign, f"{job.machine}/{job.job}", job.user, job.phase,
                numbers_text(job.node_numbers),
            )
            for sign, job in zip(drawings.signs_of(found.jobs), found.jobs, strict=True)
        ],
    )  # fmt: skip


def _gap_lines(found: MachineGaps, now: int, zone: ZoneInfo) -> list[str]:
    """Return a row for each gap: a job with at most its nodes and its length starts at once."""
    machine, made = found.machine.machine, short_time(found.made_at, zone)
    if not found.gaps:
        return [f"no job would start on {machine} at once, as of {made}"]
    return [
        f"jobs that would start on {machine} at once, as of {made}",
        *output.rows(
            ("NODES", "FOR", f"UNTIL ({zone.key})"),
            [
                (
                    gap.nodes,
                    format_duration(max(gap.until - now, 0)) if gap.until else "any time",
                    short_time(gap.until, zone) if gap.until else "-",
                )
                for gap in found.gaps
            ],
            right=("NODES",),
        ),
    ]
