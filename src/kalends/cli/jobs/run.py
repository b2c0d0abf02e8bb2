"""``kalends run`` and ``kalends attach``: a job in this terminal, or in a pipe."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from kalends.cli.console import output, site_calls
from kalends.cli.console.commands import server_command
from kalends.cli.console.groups import EXIT_INTERRUPTED
from kalends.cli.console.settings import Settings
from kalends.cli.jobs import job_options, job_script, job_terminal, shown_jobs
from kalends.cli.jobs.job_terminal import Ear, Told, ear
from kalends.client.inputs.job_texts import JobName
from kalends.contract.calls import PlacedJob
from kalends.core.errors import Conflict, KalendsError, Unavailable
from kalends.core.jobs import JobRequest

if TYPE_CHECKING:
    from kalends.client.client import Client
    from kalends.client.sync import SyncClient
    from kalends.contract.job_calls import JobView


@server_command(
    "run",
    "kalends run sdsc/sp2 -n 8 --for 1h -- bash",
    "kalends run 'sdsc/sp2:8 + ctc/onyx:4' --for 10m -- ./solve",
    cls=job_script.JobCommand,
)
@job_options.machine_or_wish
@click.argument("program", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--script", metavar="FILE", help="Script to run; its #KALENDS lines are options.")
@job_options.step_options
@job_options.job_options
def run(
    settings: Settings,
    /,
    machine: str,
    program: tuple[str, ...],
    script: str | None,
    **options: Any,
) -> int:
    """Run a program on a machine, in this terminal.

    Waits in the machine's queue, with a countdown to the expected start, and then connects the program to
    this terminal, or to the pipes. Without MACHINE, a broker chooses the machine where the program ends
    first. Ctrl-\\ detaches; kalends attach returns. A lost connection is restored. Ctrl-C withdraws a
    waiting job. The exit code is the program's.

    With a request instead of MACHINE, the program runs on all its machines in step. Each line of output
    begins with the name of its machine. There is no terminal and no input. Ctrl-C ends all parts. The exit
    code is that of the part that failed, or 0.
    """
    text = job_script.read_script(script) if script else ""
    options["environment"] = (*_locale(), *options["environment"])
    if job_options.is_request(machine):
        from kalends.cli.jobs import run_in_step  # Most runs do not need it.

        step = job_options.step_from(machine, program, script=text, options=options)
        return run_in_step.run(settings, machine, step, job_options.booking(options))
    job_options.refuse_alone("run", options)
    wish = job_options.wish_of(machine, options)
    if options["reservation"]:
        options["reservation"] = shown_jobs.reservation_id(settings, options["reservation"])
    piped = not job_terminal.has_terminal()
    if not piped and "TERM" in os.environ:
        options["environment"] = (f"TERM={os.environ['TERM']}", *options["environment"])
    at_site = site_calls.settings_at(settings, machine) if machine else settings
    with at_site.connect() as client:
        if not machine:
            job_options.check_broker(client, "run")
        job = job_options.job_alone(
            client, machine, program, options, script=text, terminal=True, piped=piped
        )
        placed = None if machine else _place_to_follow(client, job, wish)
    if placed is None:
        return asyncio.run(_run_here(at_site, job))
    # Imported here because it reads requests, and most runs name a machine.
    from kalends.cli.requests.request_texts import placed_text

    told = f"{placed.machine}/{placed.number} {placed_text(placed, settings.time_zone())}"
    output.say(f"kalends: {told}", error=True)
    return asyncio.run(_run_here(site_calls.settings_at(settings, placed.machine), placed))


def _locale() -> list[str]:
    """Return the caller's locale, as ``ssh`` sends it, because the program writes to this terminal."""
    return [
        f"{name}={value}"
        for name, value in os.environ.items()
        if (name in ("LANG", "LANGUAGE") or name.startswith("LC_")) and value
    ]


async def _run_here(settings: Settings, job: JobRequest | PlacedJob) -> int:
    async with settings.connect_async() as client:
        if isinstance(job, JobRequest):
            view, piped = (await client.submit(job)).job, job.piped
        else:
            view = await client.job(job.machine, job.number)
            piped = not job_terminal.has_terminal()
        with ear() as heard:
            try:
                view = await _followed(client, settings, heard, view, piped=piped)
            except Told as told:
                if told.interrupted:
                    await client.kill_job(view.machine, view.job)
                    output.say(f"kalends: {view.machine}/{view.job} was ended", error=True)
                    return EXIT_INTERRUPTED
                for line in shown_jobs.left_lines(view.machine, view.job):
                    output.say(line, error=True)
                return 0
    return shown_jobs.exit_code(view)


async def _followed(
    client: Client, settings: Settings, heard: Ear, view: JobView, *, piped: bool
) -> JobView:
    """Return a job when it has ended and all its output has been shown; raises `Told`."""
    shown = 0
    while not view.end:
        view = await heard.unless_told(shown_jobs.started(client, settings, view))
        if not view.end and view.attempt != shown:
            try:
                place = client.attach(
                    view.machine, view.job, size=job_terminal.window(), whole=piped
                )
                terminal = await heard.unless_told(place)
            except Conflict:
                pass  # The job has just ended, or is about to start.
            else:
                shown = view.attempt
                await job_terminal.Guest(terminal, heard, raw=not piped, types=True).stay()
                if terminal.missed_bytes:
                    lost = f"{terminal.missed_bytes} bytes of output came too fast and were lost"
                    output.say(f"kalends: {lost}", error=True)
        if not view.end:
            await heard.unless_told(asyncio.sleep(shown_jobs.LOOK_EVERY_S))
            view = await client.job(view.machine, view.job)
    if view.attempt != shown:
        async for piece in client.follow_output(view.machine, view.job):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    return view


def _place_to_follow(client: SyncClient, job: JobRequest, wish: job_options.Wish) -> PlacedJob:
    """Let the broker place a job; if this command is interrupted first, cancel the job."""
    key = client.new_key()
    try:
        view = client.place_job(job, **wish._asdict(), key=key)
        if view.placed is None:
            raise Unavailable("the broker has not chosen a machine yet", remedy="try again later")
        return view.placed
    except (KeyboardInterrupt, Unavailable):
        with suppress(KalendsError):
            client.cancel(client.resolve(key).id)
        raise


@server_command(
    "attach", "kalends attach sdsc/sp2/17", "kalends attach 17 --machine sdsc/sp2 --watch"
)
@click.argument("job")
@click.option("--machine", default="", metavar="NAME", help="Machine of a job named by its number.")
@click.option("--watch", is_flag=True, help="Watch only; Ctrl-C also detaches.")
def attach(settings: Settings, job: str, machine: str, watch: bool) -> int:
    """Attach to the terminal of a job.

    Shows the job's last output, and then continues. The terminal that attached last has the keyboard input;
    all others watch. Ctrl-\\ detaches.
    """
    name = shown_jobs.job_named(settings, f"{machine}/{job}" if machine else job)
    return asyncio.run(_attach(site_calls.settings_at(settings, name.machine), name, watch=watch))


async def _attach(settings: Settings, name: JobName, *, watch: bool) -> int:
    async with settings.connect_async() as client:
        raw = os.isatty(sys.stdin.fileno()) and not (await client.job(*name)).piped
        terminal = await client.attach(*name, keys=not watch, size=job_terminal.window())
        with ear() as heard:
            try:
                await job_terminal.Guest(terminal, heard, raw=raw, types=not watch).stay()
            except Told:
                for line in shown_jobs.left_lines(*name):
                    output.say(line, error=True)
                return 0
        return shown_jobs.exit_code(await shown_jobs.ended(client, *name))
