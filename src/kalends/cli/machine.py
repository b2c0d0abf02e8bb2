"""``kalends machine``: show a machine and its nodes, or what would start there at once."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click

from kalends.cli import _jobs, _output, _words
from kalends.cli._settings import ServerCommand, Settings, pass_settings
from kalends.contract.job_calls import MachineGaps
from kalends.core.durations import format_duration


@click.command(
    "machine",
    cls=ServerCommand,
    examples=("kalends machine sdsc/sp2", "kalends machine sdsc/sp2 --gaps"),
)
@click.argument("machine")
@click.option("--gaps", is_flag=True, help="Show what a job of yours may ask for to start at once.")
@pass_settings
def command(settings: Settings, machine: str, gaps: bool) -> None:
    """Show a machine: its nodes, its policy, and which job has which nodes."""
    if gaps:
        zone = settings.time_zone()
        with _jobs.settings_at(settings, machine).connect() as client:
            fitting, now = client.machine_gaps(machine), client.time_s("now")
        _output.answer(settings, "gaps", fitting, lambda: _gap_lines(fitting, now, zone))
        return
    with _jobs.settings_at(settings, machine).connect() as client:
        found = client.jobs(machine, state="running", everyone=True)
    _output.answer(
        settings,
        "machine",
        found,
        lambda: [
            *_jobs.machine_lines(found.machines),
            "",
            *_output.rows(
                ("JOB", "USER", "STATE", "NODES"),
                [
                    (
                        f"{job.machine}/{job.job}",
                        job.user,
                        job.phase,
                        _jobs.numbers_text(job.node_numbers),
                    )
                    for job in found.jobs
                ],
            ),
        ],
    )


def _gap_lines(found: MachineGaps, now: int, zone: ZoneInfo) -> list[str]:
    """Return a row for each gap; a job that asks for no more of both starts at once."""
    machine, made = found.machine.machine, _words.short_time(found.made_at, zone)
    if not found.gaps:
        return [f"nothing starts on {machine} at once, as of {made}"]
    return [
        f"what starts on {machine} at once, as of {made}",
        *_output.rows(
            ("NODES", "FOR", f"UNTIL ({zone.key})"),
            [
                (
                    gap.nodes,
                    format_duration(max(gap.until - now, 0)) if gap.until else "any time",
                    _words.short_time(gap.until, zone) if gap.until else "-",
                )
                for gap in found.gaps
            ],
            right=("NODES",),
        ),
    ]
