"""The demo from start to end: its directory, its signals, and everything stopped afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from kalends.cli import _output
from kalends.cli._settings import Settings
from kalends.demo import narrator
from kalends.demo.facility import facility
from kalends.demo.one_job import end_all
from kalends.demo.story import Teller, play


def demo(settings: Settings, *, keep: bool, directory: Path | None) -> None:
    """Play the demo in `directory` (None: a temporary one, removed at the end).

    With `keep` its servers run on until a signal. Raises `KeyboardInterrupt` when a signal ends it
    earlier. However it ends, no server is left running.
    """
    with _directory(directory) as where:
        played = asyncio.run(_demo(settings, where, keep=keep))
    if not played:
        raise KeyboardInterrupt
    if not settings.json and not keep:
        _say(narrator.try_later())


@contextlib.contextmanager
def _directory(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="kalends-demo-") as temporary:
        yield Path(temporary)


async def _demo(settings: Settings, directory: Path, *, keep: bool) -> bool:
    """Return whether it was played to its end before a signal came."""
    playing = asyncio.current_task()
    assert playing is not None
    played = stopping = False

    def on_signal() -> None:
        """Stop once only: stopping takes seconds, and an impatient second signal must not cut it short."""
        nonlocal stopping
        if not stopping:
            stopping = True
            playing.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    with contextlib.suppress(asyncio.CancelledError):
        async with facility(directory, int(time.time()), _progress) as running:
            teller: Teller = narrator.SilentTeller()
            if not settings.json:
                teller = narrator.TextTeller(settings.time_zone())
            _progress("booking the jobs of the log")
            try:
                report = await play(running, teller, int(time.time()), time.monotonic)
                played = True
                if settings.json:
                    _output.print_json("demo", report)
                if keep:
                    if not settings.json:
                        _say(narrator.try_now(running))
                    await asyncio.Event().wait()
            finally:
                stopping = True
                await end_all(running)
            _progress("stopping the servers")
    return played


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        _output.say(line)


def _progress(line: str) -> None:
    _output.say(f"kalends: {line}", error=True)
