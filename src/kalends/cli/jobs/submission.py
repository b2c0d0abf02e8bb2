"""``kalends submit``: jobs for the queue of a machine, for a broker, or for several machines together."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kalends.cli.console import output, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.problems import shown
from kalends.cli.console.settings import Settings
from kalends.cli.jobs import job_options, job_script, shown_jobs
from kalends.cli.jobs.job_options import PartsTimes
from kalends.cli.jobs.job_script import MARK, JobCommand, words_in
from kalends.contract.calls import RequestView
from kalends.contract.job_calls import Submitted
from kalends.core.errors import InvalidInput, KalendsError
from kalends.core.identifiers import short_id
from kalends.core.jobs import JobRequest
from kalends.core.steps import Step

if TYPE_CHECKING:
    from kalends.core.implementations import Implementation

_EACH_LINE: Final = "--each-line"


@server_command(
    "submit",
    "kalends submit sdsc/sp2 -n 8 --for 1h -- ./solve --grid 64",
    "kalends submit 'sdsc/sp2:8 + ctc/onyx:4' --for 1h -- ./solve",
    cls=JobCommand,
)
@job_options.machine_or_wish
@click.option(
    "--redundant",
    is_flag=True,
    help="Queue the job at two sites, and start it once (without MACHINE).",
)
@click.argument("program", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--script", metavar="FILE", help="Script to run; its #KALENDS lines are options.")
@click.option(
    "--each-line",
    default="",
    metavar="FILE",
    help="File with a job on each line: [OPTIONS --] COMMAND; - for standard input.",
)
@job_options.job_options
@click.option("--input", default="", metavar="PATH", help="File for the job's standard input.")
@click.option("--output", default="", metavar="PATH",
              help="File for output; %j is the job's number, %a its index in an array, %u its user, %% a "
                   "% sign.  [default: kept for kalends log]")  # fmt: skip
@click.option("--error", default="", metavar="PATH",
              help="File for standard error, with the same signs.  [default: with the output]")  # fmt: skip
@click.option(
    "--array", default="", metavar="LIST", help="Indices of an array, one job for each, e.g. 1-10."
)
@click.option(
    "--implementations",
    default="",
    metavar="FILE",
    help="File of implementations, with needs, nodes and run times, e.g. solve.toml (without MACHINE).",
)
@job_options.step_options
@click.option("--pick", default="", metavar="FILE",
              help="Script whose pick(bids) orders the bids, e.g. pick.py (without MACHINE).")  # fmt: skip
@click.option("--rank", default="", metavar="FILE",
              help="Script whose rank(schedules, machine) orders a site's ways to run the job, e.g. rank.py "
                   "(without MACHINE).")  # fmt: skip
@click.option("--key", default="", metavar="KEY", help="Key that makes this call repeatable.")
def submit(
    settings: Settings,
    /,
    machine: str,
    program: tuple[str, ...],
    script: str | None,
    implementations: str,
    pick: str,
    rank: str,
    key: str,
    each_line: str,
    **options: Any,
) -> None:
    """Submit a job to a machine, to the one where it ends first, or to several together.

    Prints the number and the expected start of the job. Without MACHINE, a broker asks sites to bid for the
    job. With a request instead of MACHINE, books its nodes and runs the job on all its machines: all parts
    start together, or none does.
    """
    if each_line:
        if program or script or implementations or pick or rank:
            raise click.UsageError(
                "--each-line excludes a command, --script, --implementations, --pick and --rank."
            )
        _submit_each(settings, each_line, machine, key)
        return
    text = job_script.read_script(script) if script else ""
    orders = {
        name: job_script.read_text(path, f"--{name}") if path else ""
        for name, path in (("pick", pick), ("rank", rank))
    }
    if job_options.is_request(machine):
        options |= {"implementations": implementations, "pick": pick, "rank": rank}
        step = job_options.step_from(machine, program, script=text, options=options)
        _submit_in_step(settings, machine, step, job_options.booking(options, key))
    else:
        job_options.refuse_alone("submit", options)
        _submit_one(settings, machine, program, text, orders, options, key, implementations)


def _submit_one(
    settings: Settings, machine: str, program: tuple[str, ...], text: str,
    orders: dict[str, str], options: dict[str, Any], key: str, implementations: str,
) -> None:  # fmt: skip
    """Submit a job to a machine, or to none; `orders` are the sources of scripts that order bids, or ways."""
    wish = job_options.wish_of(machine, options)
    if options["reservation"]:
        options["reservation"] = shown_jobs.reservation_id(settings, options["reservation"])
    for name, source in orders.items():
        if source:
            job_options.refuse_with_machine(machine, f"--{name}")
    ways: tuple[Implementation, ...] = ()
    if implementations:
        ways = _implementations(machine, implementations, program, text, options)
        for way in ways:
            job_script.tell_unread(way.script, options_are_read=False)
        program, text = ways[0].command, ways[0].script
        options["limit"] = f"{max(ways[0].limits_s)}s"
    with site_calls.client_at(settings, machine) if machine else settings.connect() as client:
        if not machine:
            job_options.check_broker(client, "submit")
        job = job_options.job_alone(client, machine, program, options, script=text)
        if machine:
            _tell_submitted(settings, client.submit(job, key=key))
        else:
            if ways:
                from kalends.client.inputs.implementation_file import job_of

                job = job_of(job, ways)
            placed = client.place_job(
                job,
                **wish._asdict(),
                implementations=ways,
                pick=orders["pick"],
                rank=orders["rank"],
                key=key,
            )
            output.answer(settings, "placed", placed, lambda: _place_told(settings, placed))


def _implementations(
    machine: str, path: str, program: tuple[str, ...], script: str, options: dict[str, Any]
) -> tuple[Implementation, ...]:
    """Return the implementations in a file; raises `InvalidInput`, also for an option given twice."""
    job_options.refuse_with_machine(machine, "--implementations")
    given = {"a command": program, "--script": script, "--for": options["limit"], "--nodes": options["nodes"],
             "--sizes": options["sizes"], "--shape": options["shape"]}  # fmt: skip
    for name, value in given.items():
        if value:
            raise InvalidInput(
                f"{name} cannot be used, because the file gives it for each implementation",
                where="--implementations",
                remedy=f"leave out {name}",
            )
    # Imported here because most commands do not need it.
    from kalends.client.inputs.implementation_file import implementations_in

    return asyncio.run(implementations_in(job_script.read_text(path, "--implementations")))


def _tell_submitted(settings: Settings, made: Submitted) -> None:
    first, zone = made.job, settings.time_zone()
    name = shown_jobs.made_text(first.machine, first.job, made.count)
    output.answer(
        settings,
        "submitted",
        made,
        lambda: [name, "", *shown_jobs.details(first, zone)],
    )


def _place_told(settings: Settings, view: RequestView) -> list[str]:
    from kalends.cli.requests.request_texts import placed_text

    placed, short = view.placed, short_id(view.id)
    if placed is None:
        return [f"{short} is {view.state}: kalends show {short}"]
    return [
        f"{placed.machine}/{placed.number}",
        "",
        f"{placed_text(placed, settings.time_zone())}; kalends why {short} shows the other bids",
    ]


def _submit_each(settings: Settings, path: str, machine: str, key: str) -> None:
    """Submit the jobs, and print the name of each on a line.

    Submits nothing if a line is invalid. Stops at the first job that is refused: the error names its
    line, and how to continue after the submitted jobs.
    """
    ctx = click.get_current_context()
    if not machine or job_options.is_request(machine):
        raise InvalidInput("needs MACHINE", where=_EACH_LINE, remedy="name a machine, e.g. lab/box")
    lines = list(_lines_of(path))
    with site_calls.client_at(settings, machine) as client:
        key = key or client.new_key()
        # The context of each line sets its own values.
        said: list[str] = ctx.meta[JobCommand.WORDS]
        jobs = [_job_of_line(ctx, said, number, words, client) for number, words in lines]
        made = 0
        try:
            for each in client.submit_many(jobs, key=key):
                made += 1
                if settings.json:
                    output.print_json("made", each, one_line=True)
                else:
                    output.say(shown_jobs.made_text(each.machine, each.job, each.count))
        except KalendsError as error:
            if error.where.startswith(f"jobs[{made}]"):
                field = error.where.removeprefix(f"jobs[{made}]").lstrip(".")
                place = shown("job.nodes" if field == "nodes" else field)
                error.where = f"line {lines[made][0]}" + (f": {place}" if place else "")
            again = f"; then repeat the command with --key {key}: no job is submitted twice"
            error.remedy = f"{error.remedy or 'change that line'}{again}"
            raise


def _lines_of(path: str) -> Iterator[tuple[int, list[str]]]:
    """Provide the words of each line that is neither empty nor a comment, with its number."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} cannot be read: {getattr(error, 'strerror', '') or 'it is not UTF-8 text'}",
            where=_EACH_LINE,
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
            "no line has a command", where=_EACH_LINE, remedy="write one command on each line"
        )


def _job_of_line(
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
        job_options.wish_of(params["machine"], params)
        job_options.refuse_alone("submit", params)
        return job_options.job_alone(client, params["machine"], params["program"], params)
    except (KalendsError, click.UsageError) as error:
        if isinstance(error, KalendsError):
            error.where = f"{where}: {shown(error.where)}" if error.where else where
            raise
        raise InvalidInput(error.format_message(), where=where) from error


def _submit_in_step(settings: Settings, request: str, step: Step, booking: PartsTimes) -> None:
    """Start a job on all machines of `request` together, and print the jobs of its parts."""
    with settings.connect() as client:
        view = client.submit_in_step(request, step.job, step.jobs, **booking._asdict())
    # Imported here because it reads requests, and most commands do not.
    from kalends.cli.requests import request_options

    request_options.answer(settings, view)
