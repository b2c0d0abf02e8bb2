"""``kalends usage``: what was used on a machine."""

from __future__ import annotations

import click

from kalends.cli import _jobs, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "usage",
    cls=ServerCommand,
    examples=(
        "kalends usage sdsc/sp2 --from 2026-10-01 --to 2026-11-01",
        "kalends usage sdsc/sp2 --everyone",
    ),
)
@click.argument("machine")
@click.option("--from", "start", default="now-30d", show_default=True, metavar="TIME",
              help="Begin: jobs that ended from then on.")  # fmt: skip
@click.option("--to", "end", default="now", show_default=True, metavar="TIME", help="End.")
@click.option("--everyone", is_flag=True, help="Sum up all users; needs the scope audit or admin.")
@pass_settings
def command(settings: Settings, machine: str, start: str, end: str, everyone: bool) -> None:
    """Sum up the node-seconds that your jobs used, by project."""
    with _jobs.settings_at(settings, machine).connect() as client:
        view = client.job_usage(
            machine, start=client.time_s(start), end=client.time_s(end), everyone=everyone
        )
    _output.answer(
        settings,
        "usage",
        view,
        lambda: _output.rows(
            ("USER", "PROJECT", "JOBS", "NODE-HOURS", "CPU-HOURS"),
            [
                (
                    row.user,
                    row.project or "-",
                    row.jobs,
                    f"{row.node_seconds / 3600:.2f}",
                    f"{row.cpu_s / 3600:.2f}",
                )
                for row in view.rows
            ],
            right=("JOBS", "NODE-HOURS", "CPU-HOURS"),
        ),
    )
