"""``kalends run`` on several machines: a job in step, with the output of all its parts."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from kalends.cli.console import output, site_calls
from kalends.cli.console.groups import EXIT_INTERRUPTED
from kalends.cli.console.settings import Settings
from kalends.cli.jobs import shown_jobs
from kalends.cli.jobs.job_terminal import Told, ear
from kalends.client.methods.job_calls import FOLLOW_WAIT_MS
from kalends.contract.calls import RequestView
from kalends.contract.job_calls import JobView, end_text
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.identifiers import short_id
from kalends.core.steps import Step, StepPart

if TYPE_CHECKING:
    from kalends.cli.jobs.job_options import PartsTimes
    from kalends.client.client import Client

AWAY_S_MAX: Final = 300.0
"""Maximum time without an answer from a site; the output of that time is shown later."""


def run(settings: Settings, request: str, step: Step, booking: PartsTimes) -> int:
    """Start a job on all machines of `request`, show the output of its parts, and return the exit code.

    That is the exit code of the part that failed, or 0. Ctrl-C ends all parts.
    """
    with settings.connect() as client:
        key = client.new_key()
        when = booking._replace(key=key)
        try:
            view = client.submit_in_step(
                request, step.job, step.jobs, **when._asdict(), wait_s=None
            )
            while view.state == "reserved" and len(view.parts) < _parts_in(view, step):
                time.sleep(shown_jobs.LOOK_EVERY_S)
                view = client.show(view.id)
            sites = [site_calls.settings_at(settings, part.machine) for part in view.parts]
        except KeyboardInterrupt:
            with suppress(KalendsError):
                client.cancel(client.resolve(key).id)
            raise
    names = " + ".join(f"{part.machine}/{part.job}" for part in view.parts)
    output.say(f"kalends: {short_id(view.id)} is {names}", error=True)
    return asyncio.run(_run(settings, view, sites))


def first_failed(jobs: Iterable[JobView]) -> JobView | None:
    """Return the part that failed first, if one did; the others were then killed or withdrawn."""
    failed = [job for job in jobs if job.end != "exit" or job.status]
    return min(failed, key=lambda job: (job.end in ("killed", "withdrawn"), job.over), default=None)


def _parts_in(view: RequestView, step: Step) -> int:
    return sum(step.job_on(claim.resource) is not None for claim in view.claims)


async def _run(settings: Settings, view: RequestView, sites: Sequence[Settings]) -> int:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(each.connect_async()) for each in sites]
        with ear() as heard:
            try:
                jobs = await heard.unless_told(_followed_all(settings, view.parts, clients))
            except Told as told:
                return await _left(settings, view, told)
    failed = first_failed(jobs)
    if failed is None:
        return 0
    if failed.end == "exit":
        output.say(f"kalends: {failed.machine}/{failed.job}: {end_text(failed)}", error=True)
    return shown_jobs.exit_code(failed)


async def _followed_all(
    settings: Settings, parts: Sequence[StepPart], clients: Sequence[Client]
) -> list[JobView]:
    """Return the jobs of all parts when they have ended and all their output has been shown."""
    waiting = await clients[0].job(parts[0].machine, parts[0].job)
    await shown_jobs.started(clients[0], settings, waiting)
    width = max(len(part.machine) for part in parts)
    followed = (
        _followed(client, part, f"{part.machine:{width}} | ".encode())
        for client, part in zip(clients, parts, strict=True)
    )
    return await asyncio.gather(*followed)


async def _followed(client: Client, part: StepPart, prefix: bytes) -> JobView:
    """Show the output of a part, with `prefix` before each line; return its job when it has ended."""
    rest = b""
    async for piece in _pieces(client, part):
        *lines, rest = (rest + piece).split(b"\n")
        await asyncio.to_thread(_show, prefix, lines)
    if rest:
        await asyncio.to_thread(_show, prefix, [rest])
    return await shown_jobs.ended(client, part.machine, part.job)


async def _pieces(client: Client, part: StepPart) -> AsyncIterator[bytes]:
    """Yield the output of a part until it has ended, also if its site is sometimes out of reach."""
    offset, heard_s = 0, time.monotonic()
    while True:
        try:
            piece = await client.job_output(
                part.machine, part.job, offset=offset, wait_s=FOLLOW_WAIT_MS / 1000
            )
        except Unavailable:
            if time.monotonic() > heard_s + AWAY_S_MAX:
                raise
            await asyncio.sleep(shown_jobs.LOOK_EVERY_S)
            continue
        heard_s = time.monotonic()
        offset = piece.offset + len(piece.data)
        if piece.data:
            yield piece.data
        elif piece.ended:
            return


def _show(prefix: bytes, lines: Iterable[bytes]) -> None:
    """Print whole lines at once, so that lines of other parts cannot mix into them."""
    try:
        sys.stdout.buffer.write(b"".join(prefix + line + b"\n" for line in lines))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader of the pipe has gone: the parts end, like any other program in a pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Told(interrupted=True) from None


async def _left(settings: Settings, view: RequestView, told: Told) -> int:
    short = short_id(view.id)
    if told.interrupted:
        async with settings.connect_async() as broker:
            await broker.cancel(view.id)
        output.say(f"kalends: {short} was cancelled, and all its parts were ended", error=True)
        return EXIT_INTERRUPTED
    for line in (
        f"kalends: {short} continues without you",
        *(f"  its output:  kalends log {part.machine}/{part.job}" for part in view.parts),
        f"  end it:      kalends cancel {short}",
    ):
        output.say(line, error=True)
    return 0
