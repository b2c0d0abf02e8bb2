"""``kalends job``: show one job; hold, release or watch it."""

from __future__ import annotations

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.short_time import short_time
from kalends.cli.jobs import shown_jobs
from kalends.client.inputs.job_texts import JobName


@click.command(
    "job",
    cls=ServerCommand,
    examples=("kalends job sdsc/sp2/17", "kalends job sdsc/sp2/17 --watch"),
)
@click.argument("job")
@click.option("--hold", is_flag=True, help="Keep the job from starting until it is released.")
@click.option("--release", is_flag=True, help="Return a held job to the queue.")
@click.option("--array", is_flag=True, help="Hold or release all jobs of the array.")
@click.option(
    "--watch", is_flag=True, help="Print a line for each change, until the job has ended."
)
@pass_settings
def command(
    settings: Settings, job: str, hold: bool, release: bool, array: bool, watch: bool
) -> None:
    """Show one job, also after its end.

    With --watch, a waiting job gets a line if its expected start moves by more than a minute and a tenth of
    the wait. With --json each line is one object.
    """
    if hold + release + watch > 1:
        raise click.UsageError("--hold, --release and --watch exclude each other.")
    if array and not (hold or release):
        raise click.UsageError("--array needs --hold or --release.")
    name = shown_jobs.job_named(settings, job)
    if watch:
        _watch(settings, name)
        return
    zone = settings.time_zone()
    with shown_jobs.client_at(settings, name.machine) as client:
        if hold:
            view = client.hold_job(*name, array=array)
        elif release:
            view = client.release_job(*name, array=array)
        else:
            view = client.job(*name)
    output.answer(settings, "job", view, lambda: shown_jobs.details(view, zone))


def _watch(settings: Settings, name: JobName) -> None:
    zone = settings.time_zone()
    with shown_jobs.client_at(settings, name.machine) as client:
        before = None
        for view in client.watch_job(*name):
            if settings.json:
                output.print_json("job", view, one_line=True)
            else:
                now = short_time(client.time_s("now"), zone)
                output.say(f"{now}  {shown_jobs.news(before, view, zone)}")
            before = view
