"""``kalends kill``: end jobs."""

from __future__ import annotations

import click

from kalends.cli import _jobs, _output
from kalends.cli._settings import ServerCommand, Settings, pass_settings


@click.command(
    "kill",
    cls=ServerCommand,
    examples=("kalends kill sdsc/sp2/17", "kalends kill sdsc/sp2/17 sdsc/sp2/18"),
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@pass_settings
def command(settings: Settings, jobs: tuple[str, ...]) -> None:
    """End jobs: withdraw those that wait, end those that run.

    A running job is asked to end, and ended with all of its processes some seconds later.
    """
    names = [_jobs.job_named(job) for job in jobs]
    views = []
    for name in names:
        with _jobs.settings_at(settings, name.machine).connect() as client:
            views.append(client.kill_job(*name))
    _output.answer(
        settings,
        "jobs",
        views,
        lambda: [f"{view.machine}/{view.job} {view.phase}" for view in views],
    )
