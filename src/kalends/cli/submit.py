"""``kalends submit``: submit a job to the queue of a machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kalends.cli.console import output
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.jobs import in_step, job_options, job_script, shown_jobs
from kalends.client.inputs.job_texts import job_from
from kalends.contract.calls import RequestView
from kalends.contract.job_calls import Submitted
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id

if TYPE_CHECKING:
    from kalends.core.implementations import Implementation


@click.command(
    "submit",
    cls=job_script.JobCommand,
    examples=(
        "kalends submit sdsc/sp2 -n 8 --for 1h -- ./solve --grid 64",
        "kalends submit 'sdsc/sp2:8 + ctc/onyx:4' --for 1h -- ./solve",
    ),
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
@click.option("--key", default="", metavar="KEY", help="Key that makes this call repeatable.")
@pass_settings
def command(
    settings: Settings,
    /,
    machine: str,
    program: tuple[str, ...],
    script: str | None,
    limit: str | None,
    begin: str,
    at: str,
    implementations: str,
    pick: str,
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
        if program or script or implementations or pick:
            raise click.UsageError(
                "--each-line excludes a command, --script, --implementations and --pick."
            )
        from kalends.cli.jobs import each_line as lines  # Imported here: few submit many jobs.

        lines.submit(settings, each_line, machine, key)
        return
    text = job_script.read_script(script) if script else ""
    order = job_script.read_text(pick, "--pick") if pick else ""
    said = _Said(machine, program, text, limit, begin, at, key, implementations, order, options)
    if in_step.is_request(machine):
        options |= {"implementations": implementations, "pick": pick}
        step = in_step.step_from(machine, program, script=text, limit=limit, options=options)
        booking = in_step.booking(begin, at, options["end_by"], key)
        in_step.submit(settings, machine, step, booking)
    else:
        in_step.refuse_alone("submit", options)
        _submit_one(settings, said)


class _Said(NamedTuple):
    """The options of a job for one machine, or for none; `pick` is the source of a script."""

    machine: str
    program: tuple[str, ...]
    script: str
    limit: str | None
    begin: str
    at: str
    key: str
    implementations: str
    pick: str
    options: dict[str, Any]


def _submit_one(settings: Settings, said: _Said) -> None:
    machine, program, text, limit, begin, at, key, implementations, order, options = said
    wish = job_options.wish_of(machine, options["reservation"], options)
    if options["reservation"]:
        options["reservation"] = shown_jobs.reservation_id(settings, options["reservation"])
    if machine and order:
        raise InvalidInput(
            f"cannot be used with MACHINE ({machine})",
            where="--pick",
            remedy="leave out one of them",
        )
    ways: tuple[Implementation, ...] = ()
    if implementations:
        ways = _implementations(machine, implementations, program, text, limit, options)
        for way in ways:
            job_script.tell_unread(way.script, options_are_read=False)
        program, text = ways[0].command, ways[0].script
        limit = f"{max(ways[0].limits_s)}s"
    with shown_jobs.client_at(settings, machine) if machine else settings.connect() as client:
        if not machine:
            from kalends.cli.jobs.placed import check_broker  # Most commands do not need it.

            check_broker(client, "submit")
        job = job_from(
            machine, program, script=text, limit=limit, options=options,
            not_before=client.time_s(begin, where="--begin") if begin else 0,
            at=client.start_s(at, where="--at") if at else 0,
        )  # fmt: skip
        if machine:
            _tell_submitted(settings, client.submit(job, key=key))
        else:
            if ways:
                from kalends.client.inputs.implementation_file import job_of

                job = job_of(job, ways)
            placed = client.place_job(
                job, **wish._asdict(), implementations=ways, pick=order, key=key
            )
            output.answer(settings, "placed", placed, lambda: _place_told(settings, placed))


def _implementations(
    machine: str, path: str, program: tuple[str, ...], script: str, limit: str | None,
    options: dict[str, Any],
) -> tuple[Implementation, ...]:  # fmt: skip
    """Return the implementations in a file; raises `InvalidInput`, also for an option given twice."""
    if machine:
        raise InvalidInput(
            f"cannot be used with MACHINE ({machine})",
            where="--implementations",
            remedy="leave out one of them",
        )
    given = {"a command": program, "--script": script, "--for": limit, "--nodes": options["nodes"],
             "--sizes": options["sizes"], "--shape": options["shape"]}  # fmt: skip
    for name, value in given.items():
        if value:
            raise InvalidInput(
                f"{name} cannot be used, because the file gives it for each implementation",
                where="--implementations",
                remedy=f"leave out {name}",
            )
    from kalends.client.inputs.implementation_file import (
        implementations_in,  # Most commands do not need it.
    )

    return asyncio.run(implementations_in(job_script.read_text(path, "--implementations")))


def _tell_submitted(settings: Settings, made: Submitted) -> None:
    first, zone = made.job, settings.time_zone()
    name = shown_jobs.made_words(first.machine, first.job, made.count)
    output.answer(
        settings,
        "submitted",
        made,
        lambda: [name, "", *shown_jobs.details(first, zone)],
    )


def _place_told(settings: Settings, view: RequestView) -> list[str]:
    from kalends.cli.jobs.placed import placed_words

    placed, short = view.placed, short_id(view.id)
    if placed is None:
        return [f"{short} is {view.state}: kalends show {short}"]
    return [
        f"{placed.machine}/{placed.number}",
        "",
        f"{placed_words(placed, settings.time_zone())}; kalends why {short} shows the other bids",
    ]
