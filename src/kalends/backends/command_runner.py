"""Commands of a batch system: run within a time limit, with bounded output, and no shell in between."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kalends.backends.adapter import SystemSilent

PRINTED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Fifty thousand jobs take about 5 MiB."""

CLEAN: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C", "TZ": "UTC"}


class Printed(NamedTuple):
    """The output of a command, and its exit code."""

    output: str
    errors: str
    code: int


@dataclass(frozen=True)
class CommandRunner:
    """A runner of commands with `variables`, without the rest of this process's environment."""

    timeout_s: float
    variables: Mapping[str, str] = field(default_factory=dict)

    async def run(self, *command: str, fed: str = "") -> Printed:
        """Return the output of `command` for the input `fed`; raises `SystemSilent` if it does not end,
        or does not exist.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *command, env={**CLEAN, **self.variables},
                stdin=asyncio.subprocess.PIPE if fed else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                start_new_session=True, limit=PRINTED_BYTES_MAX,
            )  # fmt: skip
        except OSError as error:
            raise SystemSilent(
                f"{command[0]} cannot be run: {os.strerror(error.errno or 0)}"
            ) from error
        try:
            async with asyncio.timeout(self.timeout_s):
                output, errors = await _all_of(process, fed)
        except TimeoutError as error:
            raise SystemSilent(f"{command[0]} has not ended in {self.timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                # Processes that the command started would keep the pipe open that is read here.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return Printed(output, errors, process.returncode or 0)


def after(settings: str, *command: str) -> tuple[str, ...]:
    """Return `command` with the shell file `settings` read before it; "" for none."""
    return ("/bin/sh", "-c", '. "$0" && exec "$@"', settings, *command) if settings else command


async def _all_of(process: asyncio.subprocess.Process, fed: str) -> tuple[str, str]:
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdin is not None:
        process.stdin.write(fed.encode())
        process.stdin.close()
    output, errors = await asyncio.gather(_read(process.stdout), _read(process.stderr))
    await process.wait()
    return output, errors


async def _read(stream: asyncio.StreamReader) -> str:
    pieces, left = [], PRINTED_BYTES_MAX
    while piece := await stream.read(65_536):
        left -= len(piece)
        if left < 0:
            raise SystemSilent(f"it prints more than {PRINTED_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces).decode("utf-8", "replace")
