"""``kalends submit --each-line FILE``: a job for each line of a file, in one call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from kalends.cli.console import output
from kalends.cli.console.error_places import shown
from kalends.cli.console.settings import Settings
from kalends.cli.jobs import shown_jobs
from kalends.cli.jobs.in_step import is_request, refuse_alone
from kalends.cli.jobs.job_options import wish_of
from kalends.cli.jobs.job_script import MARK, JobCommand, words_in
from kalends.client.inputs.job_texts import job_from
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.jobs import JobRequest

OPTION: Final = "--each-line"
OF_THE_CALL: Final = ("key", "each_line")
"""Options for all lines together."""


def submit(settings: Settings, path: str, machine: str, key: str) -> None:
    """Submit the jobs, and print the name of each on a line.

    Submits nothing if a line is invalid. Stops at the first job that is refused: the error names its
    line, and how to continue after the submitted jobs.
    """
    ctx = click.get_current_context()
    if not machine or is_request(machine):
        raise InvalidInput("needs MACHINE", where=OPTION, remedy="name a machine, e.g. lab/box")
    lines = list(_lines(path))
    with shown_jobs.client_at(settings, machine) as client:
        key = key or client.new_key()
        said: list[str] = ctx.meta[
            JobCommand.WORDS
        ]  # The context of each line sets its own values.
        jobs = [_job(ctx, said, number, words, client) for number, words in lines]
        made = 0
        try:
            for each in client.submit_many(jobs, key=key):
                made += 1
                if settings.json:
                    output.print_json("made", each, one_line=True)
                else:
                    output.say(shown_jobs.made_words(each.machine, each.job, each.count))
        except KalendsError as error:
            if error.where.startswith(f"jobs[{made}]"):
                field = error.where.removeprefix(f"jobs[{made}]").lstrip(".")
                place = shown("job.nodes" if field == "nodes" else field)
                error.where = f"line {lines[made][0]}" + (f": {place}" if place else "")
            again = f"; then repeat the command with --key {key}: no job is submitted twice"
            error.remedy = f"{error.remedy or 'change that line'}{again}"
            raise


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    """Provide the words of each line that is neither empty nor a comment, with its number."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8 text'}",
            where=OPTION,
            remedy="name a text file, or - for standard input",
        ) from error
    found = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.split(None, 1)[:1] == [MARK]:
            raise InvalidInput(
                f"{MARK} lines are for scripts",
                where=f"line {number}",
                remedy="write its options on the command line, or in each line before its --",
            )
        if line.strip() and not line.lstrip().startswith("#"):
            found = True
            words = words_in(line, f"line {number}")
            if words[:1] and words[0].startswith("-") and "--" not in words:
                raise InvalidInput(
                    f"{words[0]} begins the line, and no -- follows its options",
                    where=f"line {number}",
                    remedy=f"write -- between the options and the command, e.g. {words[0]} ... -- ./solve",
                )
            yield number, words
    if not found:
        raise InvalidInput(
            "no line has a command", where=OPTION, remedy="write one command on each line"
        )


def _job(
    ctx: click.Context, said: list[str], number: int, words: list[str], client: Any
) -> JobRequest:
    """Return the job of one line, with the options of the command line (`said`) as defaults."""
    command = ctx.command
    assert isinstance(command, JobCommand)
    end = words.index("--") if "--" in words else 0
    own, program = words[:end], words[end + 1 :] if "--" in words else words
    where = f"line {number}"
    command.check_options(ctx, own, where)
    whole = [*said, *own, "--", *program]
    try:
        params = command.make_context(ctx.info_name, whole, parent=ctx.parent).params
        wish_of(params["machine"], params["reservation"], params)
        refuse_alone("submit", params)
        limit, begin, at = (params.pop(name) for name in ("limit", "begin", "at"))
        machine, program_words = params.pop("machine"), params.pop("program")
        read: Callable[[str], int] = client.time_s
        return job_from(
            machine, program_words, script="", limit=limit, options=params,
            not_before=read(begin) if begin else 0, at=client.start_s(at) if at else 0,
        )  # fmt: skip
    except (KalendsError, click.UsageError) as error:
        if isinstance(error, KalendsError):
            error.where = f"{where}: {shown(error.where)}" if error.where else where
            raise
        raise InvalidInput(error.format_message(), where=where) from error
