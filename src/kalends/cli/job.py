"""``kalends job``: show one job; hold or release it."""

from __future__ import annotations

import click

from kalends.cli import _jobs, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "job",
    cls=ServerCommand,
    examples=("kalends job sdsc/sp2/17", "kalends job sdsc/sp2/17 --hold"),
)
@click.argument("job")
@click.option("--hold", is_flag=True, help="Keep it back until it is released.")
@click.option("--release", is_flag=True, help="Let it wait for nodes again.")
@pass_settings
def command(settings: Settings, job: str, hold: bool, release: bool) -> None:
    """Show one job, also after its end."""
    if hold and release:
        raise click.UsageError("--hold excludes --release.")
    name = _jobs.job_named(job)
    zone = settings.time_zone()
    with _jobs.settings_at(settings, name.machine).connect() as client:
        if hold:
            view = client.hold_job(*name)
        elif release:
            view = client.release_job(*name)
        else:
            view = client.job(*name)
    _output.answer(settings, "job", view, lambda: _jobs.details(view, zone))
