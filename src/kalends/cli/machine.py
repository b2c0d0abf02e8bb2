"""``kalends machine``: draw a machine and its nodes, or list the gaps in which a job starts at once."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli.console import output, screen
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.jobs import job_options, nodes_drawing, shown_jobs
from kalends.contract.job_calls import Jobs, MachineGaps
from kalends.core.durations import format_duration
from kalends.core.limits import LISTING_MAX
from kalends.core.number_ranges import numbers_text

DRAWN_WIDTH_MAX = 80


@click.command(
    "machine",
    cls=ServerCommand,
    examples=("kalends machine sdsc/sp2", "kalends machine sdsc/sp2 --gaps"),
)
@job_options.machine_argument
@click.option(
    "--gaps", is_flag=True, help="List sizes and lengths of jobs that would start at once."
)
@pass_settings
def command(settings: Settings, machine: str, gaps: bool) -> None:
    """Show a machine: its nodes, its policy, and which job has which nodes.

    Nodes are drawn in the machine's topology: a mesh as one plane, a torus as several.
    """
    if gaps:
        zone = settings.time_zone()
        with shown_jobs.client_at(settings, machine) as client:
            fitting, now = client.machine_gaps(machine), client.time_s("now")
        output.answer(settings, "gaps", fitting, lambda: _gap_lines(fitting, now, zone))
        return
    with shown_jobs.client_at(settings, machine) as client:
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
        width = min(terminal.width, DRAWN_WIDTH_MAX)
        screen.print_lines(nodes_drawing.draw_nodes(load, found.jobs, width=width), terminal)
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
            for sign, job in zip(nodes_drawing.signs_of(found.jobs), found.jobs, strict=True)
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
