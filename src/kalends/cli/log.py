"""``kalends log``: print what a job has written."""

from __future__ import annotations

import sys
from typing import Literal

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
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
@click.option("-f", "--follow", is_flag=True, help="Go on until the job is over.")
@click.option("--error", is_flag=True, help="Print standard error, where it is kept apart.")
@click.option("--attempt", type=click.IntRange(1), metavar="N",
              help="Start of the job whose output is printed, e.g. 1.  [default: the last]")  # fmt: skip
@pass_settings
def command(settings: Settings, job: str, follow: bool, error: bool, attempt: int | None) -> None:
    """Print what a job has written, byte by byte as it wrote it.

    On a terminal the output of another user's job is escaped: it cannot steer the terminal. With --json each
    piece is one line, its bytes in base 64.
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
                offset, before = 0, piece.attempt  # Another start, with a file of its own.
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
    """Tell of a job that has not been begun; one that has may just have nothing to say."""
    if view.end == "not-started":
        output.say(f"kalends: it was not started: {view.detail}", error=True)
    elif not view.end and not view.started:
        output.say(f"kalends: it is {view.phase}, and has written nothing yet", error=True)
