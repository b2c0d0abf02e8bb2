"""``kalends machine``: show a machine and its nodes."""

from __future__ import annotations

import click

from kalends.cli import _jobs, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "machine",
    cls=ServerCommand,
    examples=("kalends machine sdsc/sp2", "kalends machine sdsc/sp2 --json"),
)
@click.argument("machine")
@pass_settings
def command(settings: Settings, machine: str) -> None:
    """Show a machine: its nodes, its policy, and which job has which nodes."""
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
