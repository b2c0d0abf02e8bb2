"""Single jobs: ``kalends job``, ``log`` and ``kill``."""

from __future__ import annotations

import sys
from typing import Literal

import click

from kalends.cli.console import output, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.output import short_time
from kalends.cli.console.settings import Settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.jobs import shown_jobs
from kalends.client.inputs.job_texts import JobName
from kalends.client.methods.job_calls import FOLLOW_WAIT_MS
from kalends.contract.job_calls import JobView
from kalends.core.errors import KalendsError, Refusal


@server_command("job", "kalends job sdsc/sp2/17", "kalends job sdsc/sp2/17 --watch")
@click.argument("job")
@click.option("--hold", is_flag=True, help="Keep the job from starting until it is released.")
@click.option("--release", is_flag=True, help="Return a held job to the queue.")
@click.option("--array", is_flag=True, help="Hold or release all jobs of the array.")
@click.option(
    "--watch", is_flag=True, help="Print a line for each change, until the job has ended."
)
def job(settings: Settings, job: str, hold: bool, release: bool, array: bool, watch: bool) -> None:
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
    with site_calls.client_at(settings, name.machine) as client:
        if hold:
            view = client.hold_job(*name, array=array)
        elif release:
            view = client.release_job(*name, array=array)
        else:
            view = client.job(*name)
    output.answer(settings, "job", view, lambda: shown_jobs.details(view, zone))


def _watch(settings: Settings, name: JobName) -> None:
    zone = settings.time_zone()
    with site_calls.client_at(settings, name.machine) as client:
        before = None
        for view in client.watch_job(*name):
            if settings.json:
                output.print_json("job", view, one_line=True)
            else:
                now = short_time(client.time_s("now"), zone)
                output.say(f"{now}  {shown_jobs.news(before, view, zone)}")
            before = view


@server_command("log", "kalends log -f sdsc/sp2/17", "kalends log --attempt 1 sdsc/sp2/17")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job has ended.")
@click.option(
    "--error", is_flag=True, help="Print standard error, if the job keeps it in a separate file."
)
@click.option("--attempt", type=WholeNumber(1), metavar="N",
              help="Attempt whose output is printed, e.g. 1.  [default: the last]")  # fmt: skip
def log(settings: Settings, job: str, follow: bool, error: bool, attempt: int | None) -> None:
    """Print the output of a job.

    Prints the bytes unchanged. On a terminal, control sequences in the output of another user's job are
    escaped. With --json each piece is one line, with its bytes in base 64.
    """
    name = shown_jobs.job_named(settings, job)
    stream: Literal["output", "error"] = "error" if error else "output"
    offset = before = 0
    with site_calls.client_at(settings, name.machine) as client:
        harmless = None
        if sys.stdout.isatty() and not settings.json:
            is_own = client.job(*name).user == client.whoami().user
            harmless = None if is_own else output.HarmlessBytes()
        while True:
            wait_s = FOLLOW_WAIT_MS / 1000 if follow else 0.0
            piece = client.job_output(
                *name, stream=stream, offset=offset, wait_s=wait_s, attempt=attempt or 0
            )
            if offset and piece.attempt != before:
                offset, before = 0, piece.attempt  # Another start writes to another file.
                continue
            before, offset = piece.attempt, piece.offset + len(piece.data)
            last = not piece.data and (piece.ended or not follow)
            if settings.json:
                output.print_json("output", piece, one_line=True)
            else:
                data = harmless.of(piece.data, last=last) if harmless else piece.data
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            if last:
                break
        if offset == 0 and not settings.json:
            _say_why_nothing(client.job(*name))


def _say_why_nothing(view: JobView) -> None:
    """Report a job that has not started; a job that has started may have no output yet."""
    if view.end == "not-started":
        output.say(f"kalends: the job was not started: {view.detail}", error=True)
    elif not view.end and not view.started:
        output.say(f"kalends: the job is {view.phase}, and has no output yet", error=True)


@server_command("kill", "kalends kill sdsc/sp2/17 sdsc/sp2/18", "kalends kill --array sdsc/sp2/31")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...")
@click.option("--array", is_flag=True, help="End all jobs of their arrays.")
def kill(settings: Settings, jobs: tuple[str, ...], array: bool) -> None:
    """End jobs: withdraw those that wait, end those that run.

    A running job gets SIGTERM. Some seconds later, all of its processes are killed.
    """
    names = [shown_jobs.job_named(settings, job) for job in jobs]
    views, errors = [], {}
    for name in names:
        try:
            with site_calls.client_at(settings, name.machine) as client:
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
