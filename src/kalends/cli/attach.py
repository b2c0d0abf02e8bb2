"""``kalends attach``: attach to the terminal of a running job."""

from __future__ import annotations

import asyncio
import os
import sys

import click

from kalends.cli.console import output
from kalends.cli.console.commands import ServerCommand
from kalends.cli.console.settings import Settings, pass_settings
from kalends.cli.console.told import Told, ear
from kalends.cli.jobs import job_terminal, shown_jobs
from kalends.client.inputs.job_texts import JobName


@click.command(
    "attach",
    cls=ServerCommand,
    examples=("kalends attach sdsc/sp2/17", "kalends attach 17 --machine sdsc/sp2 --watch"),
)
@click.argument("job")
@click.option("--machine", default="", metavar="NAME", help="Machine of a job named by its number.")
@click.option("--watch", is_flag=True, help="Watch only; Ctrl-C also detaches.")
@pass_settings
def command(settings: Settings, job: str, machine: str, watch: bool) -> int:
    """Attach to the terminal of a job.

    Shows the job's last output, and then continues. The terminal that attached last has the keyboard input;
    all others watch. Ctrl-\\ detaches.
    """
    name = shown_jobs.job_named(settings, f"{machine}/{job}" if machine else job)
    return asyncio.run(_attach(shown_jobs.settings_at(settings, name.machine), name, watch=watch))


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
