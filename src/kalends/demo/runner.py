"""The demo from start to end: its directory, its signals, and everything stopped afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from kalends.cli.console import output
from kalends.cli.console.settings import Settings
from kalends.demo import narrator
from kalends.demo.clusters import story as clusters
from kalends.demo.clusters.sites import centres
from kalends.demo.facility import facility, is_kept
from kalends.demo.failover import story as failover
from kalends.demo.failover.hosts import hosts
from kalends.demo.federation import story as bids
from kalends.demo.federation.sites import federation
from kalends.demo.one_job import end_all
from kalends.demo.story import play


class Performance:
    """Progress of a demo. The first signal cancels it, and none cuts short how it stops."""

    def __init__(self) -> None:
        self.played = False
        self._stopping = False

    @contextlib.asynccontextmanager
    async def of(self, end: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        """Let no signal cancel what follows this context, `end` first."""
        try:
            yield
        finally:
            self._stopping = True
            if end is not None:
                await end()
        _progress("stopping the servers")

    def watch_signals(self, playing: asyncio.Task[object]) -> None:
        def on_signal() -> None:
            if not self._stopping:
                self._stopping = True
                playing.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, on_signal)


Which = Literal["", "slurm", "bids", "postgres"]
"""Three sites; two clusters with Slurm; four sites that bid for jobs; or servers that fail: by its option."""


def demo(settings: Settings, *, keep: bool, directory: Path | None, which: Which = "") -> None:
    """Play a demo in `directory` (None: a temporary one, removed at the end).

    With `keep` its servers run on until a signal. Raises `KeyboardInterrupt` when a signal ends it earlier.
    However it ends, no server is left running.
    """
    performance = Performance()
    show = {
        "": _three_sites, "slurm": _two_clusters, "bids": _four_sites, "postgres": _failing_hosts,
    }[which]  # fmt: skip
    with _directory(directory) as where:
        asyncio.run(_watched(performance, show(settings, where, performance, keep=keep)))
    if not performance.played:
        raise KeyboardInterrupt
    if not settings.json and not keep:
        _say(narrator.try_later(f"--{which} " if which else ""))


@contextlib.contextmanager
def _directory(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory.absolute()
        return
    with tempfile.TemporaryDirectory(
        prefix="kalends-demo-", ignore_cleanup_errors=True
    ) as temporary:
        yield Path(temporary)


async def _watched(performance: Performance, show: Coroutine[None, None, None]) -> None:
    playing = asyncio.current_task()
    assert playing is not None
    performance.watch_signals(playing)
    with contextlib.suppress(asyncio.CancelledError):
        await show


async def _three_sites(
    settings: Settings, directory: Path, performance: Performance, *, keep: bool
) -> None:
    kept = is_kept(directory)
    async with (
        facility(directory, int(time.time()), _progress) as running,
        performance.of(lambda: end_all(running)),
    ):
        later = narrator.try_now(running)
        if kept:
            # What the story would book is booked already.
            variables = running.environment()
            await _told(settings, performance, "kept_demo", variables, later, keep=True)
        else:
            _progress("booking the jobs of a busy day")
            teller = narrator.Teller(settings.time_zone(), silent=settings.json)
            report = await play(running, teller, int(time.time()), time.monotonic)
            await _told(settings, performance, "demo", report, later, keep=keep)


async def _two_clusters(
    settings: Settings, directory: Path, performance: Performance, *, keep: bool
) -> None:
    async with centres(directory, int(time.time()), _progress) as running, performance.of():
        report = await clusters.play(running, _tell(settings), _progress, settings.time_zone())
        later = clusters.try_now(running)
        await _told(settings, performance, "clusters_demo", report, later, keep=keep)


async def _four_sites(
    settings: Settings, directory: Path, performance: Performance, *, keep: bool
) -> None:
    async with (
        federation(directory, int(time.time()), _progress) as running,
        performance.of(lambda: bids.end_all(running)),
    ):
        report = await bids.play(running, _tell(settings), _progress, settings.time_zone())
        await _told(settings, performance, "bids_demo", report, bids.try_now(running), keep=keep)


async def _failing_hosts(
    settings: Settings, directory: Path, performance: Performance, *, keep: bool
) -> None:
    async with hosts(directory, int(time.time()), _progress) as running, performance.of():
        report = await failover.play(running, _tell(settings), _progress)
        later = failover.try_now(running)
        await _told(settings, performance, "failover_demo", report, later, keep=keep)


async def _told(
    settings: Settings,
    performance: Performance,
    kind: str,
    report: msgspec.Struct | dict[str, str],
    try_now: Iterable[str],
    *,
    keep: bool,
) -> None:
    """Print what came of it, and wait for a signal if its servers are to be kept."""
    performance.played = True
    if settings.json:
        output.print_json(kind, report)
    if keep:
        if not settings.json:
            _say(try_now)
        await asyncio.Event().wait()


def _tell(settings: Settings) -> narrator.Tell:
    return narrator.tell_nothing if settings.json else narrator.tell_step


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        output.say(line)


def _progress(line: str) -> None:
    output.say(f"kalends: {line}", error=True)
