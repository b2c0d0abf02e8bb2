"""A server as a process of its own: started with `kalends serve`, waited for, and always stopped."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kalends.core.errors import Unavailable

START_S_MAX: Final = 60.0
"""A server is up in one second; a computer that is very busy gets this long."""

STOP_S_MAX: Final = 5.0
"""Servers end calls in flight within 2 s and then close; after this they are killed."""

LOG_LINES_SHOWN: Final = 12


@dataclass(frozen=True)
class Server:
    """A server that listens at `url` and writes its log to `log`."""

    name: str
    url: str
    log: Path
    process: Process


async def start(name: str, configuration: Path) -> Server:
    """Run `kalends serve configuration`; returns when it listens.

    Its log and its process id are written next to the configuration, as ``NAME.log`` and
    ``NAME.pid``. Raises `Unavailable` with the end of the log when it does not come up; whatever is
    raised, no process is left behind.
    """
    log = configuration.with_name(f"{name}.log")
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kalends", "serve", str(configuration),
            stdin=DEVNULL, stdout=PIPE, stderr=errors,
            start_new_session=True,  # A terminal's Ctrl-C reaches us; we stop them, in our order.
        )  # fmt: skip
    try:
        configuration.with_name(f"{name}.pid").write_text(f"{process.pid}\n")
        return Server(name, await _address(name, process, log), log, process)
    except BaseException:
        # Also when this is cancelled: nobody else knows of the process, and would end it.
        await _end(process)
        raise


async def stop(servers: Iterable[Server]) -> None:
    """End all of `servers`: asked first, killed after `STOP_S_MAX`. Stopping twice is harmless."""
    await asyncio.gather(*(_end(server.process) for server in servers))


async def kill(server: Server) -> None:
    """End `server` at once, as if its host had failed."""
    with contextlib.suppress(ProcessLookupError):
        server.process.kill()
    await server.process.wait()


async def _address(name: str, process: Process, log: Path) -> str:
    """Return the address that the server says it listens at."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_S_MAX):
            line = (await process.stdout.readline()).decode(errors="replace").split()
            if line[:1] == ["listening"]:
                return line[-1]
            ended = f"it ended with exit code {await process.wait()}"
    except TimeoutError:
        ended = f"it did not listen within {START_S_MAX:g} s"
    raise Unavailable(
        "\n".join([f"the server {name} did not start: {ended}", *_last_lines(log)]),
        where=log.name,
        remedy="read the end of its log above; --directory keeps all its files",
    )


def _last_lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_S_MAX):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
