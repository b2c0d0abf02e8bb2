"""``kalends log``: print the output of a job."""

from __future__ import annotations

import sys
from typing import Literal

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.whole_numbers import WholeNumber
from kalends.cli.jobs import shown_jobs
from kalends.client.inputs.job_texts import JobName
from kalends.client.methods.job_calls import FOLLOW_WAIT_MS
from kalends.client.sync import SyncClient
from kalends.contract.job_calls import JobView


@click.command(
    "log",
    cls=ServerCommand,
    examples=("kalends log -f sdsc/sp2/17", "kalends log --attempt 1 sdsc/sp2/17"),
)
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job has ended.")
@click.option(
    "--error", is_flag=True, help="Print standard error, if the job keeps it in a separate file."
)
@click.option("--attempt", type=WholeNumber(1), metavar="N",
              help="Attempt whose output is printed, e.g. 1.  [default: the last]")  # fmt: skip
@pass_settings
def command(settings: Settings, job: str, follow: bool, error: bool, attempt: int | None) -> None:
    """Print the output of a job.

    Prints the bytes unchanged. On a terminal, control sequences in the output of another user's job are
    escaped. With --json each piece is one line, with its bytes in base 64.
    """
    name = shown_jobs.job_named(settings, job)
    stream: Literal["output", "error"] = "error" if error else "output"
    offset = before = 0
    with shown_jobs.client_at(settings, name.machine) as client:
        harmless = None
        if sys.stdout.isatty() and not settings.json:
            harmless = output.HarmlessBytes() if _is_of_another(client, name) else None
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


def _is_of_another(client: SyncClient, name: JobName) -> bool:
    return client.job(*name).user != client.whoami().user


def _say_why_nothing(view: JobView) -> None:
    """Report a job that has not started; a job that has started may have no output yet."""
    if view.end == "not-started":
        output.say(f"kalends: the job was not started: {view.detail}", error=True)
    elif not view.end and not view.started:
        output.say(f"kalends: the job is {view.phase}, and has no output yet", error=True)
