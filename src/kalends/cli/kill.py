"""``kalends kill``: end jobs."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.jobs import shown_jobs
from kalends.client.inputs.job_texts import JobName
from kalends.core.errors import KalendsError, Refusal


@click.command(
    "kill",
    cls=ServerCommand,
    examples=("kalends kill sdsc/sp2/17 sdsc/sp2/18", "kalends kill --array sdsc/sp2/31"),
)
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--array", is_flag=True, help="End all jobs of their arrays.")
@pass_settings
def command(settings: Settings, jobs: tuple[str, ...], array: bool) -> None:
    """End jobs: withdraw those that wait, end those that run.

    A running job gets SIGTERM. Some seconds later, all of its processes are killed.
    """
    names = [shown_jobs.job_named(settings, job) for job in jobs]
    views, errors = [], {}
    for name in names:
        try:
            with shown_jobs.client_at(settings, name.machine) as client:
                views.append(client.kill_job(*name, array=array))
        except KalendsError as error:
            errors[name] = error
    if not (errors and settings.json):
        output.answer(
            settings,
            "jobs",
            views,
            lambda: [f"{view.machine}/{view.job} {view.phase}" for view in views],
        )
    if errors:
        raise _error_of(errors, len(names))


def _error_of(errors: dict[JobName, KalendsError], asked: int) -> KalendsError:
    """Return one error that lists all `errors`, of the class of the first; all other jobs have ended."""
    first = next(iter(errors.values()))
    if asked == 1:
        return first
    return type(first)(
        f"{len(errors)} of {asked} jobs could not be ended; the others have ended",
        remedy=first.remedy,
        retry_after_s=first.retry_after_s,
        refusals=tuple(
            Refusal(where=f"{name.machine}/{name.number}", code=error.code, detail=error.detail)
            for name, error in errors.items()
        ),
    )
