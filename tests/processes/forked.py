"""Processes of servers that are forked from one which has loaded them, instead of loading all anew.

The examples, the demo, the attacks, and whatever runs a server under another command or with an environment
of its own, start it as users do.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[2]


class ForkedProcess:
    """A process of a server, with what tests use of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int, stdout: asyncio.StreamReader, told: asyncio.StreamReader) -> None:
        self.pid: Final = pid
        self.stdout: Final = stdout
        self.returncode: int | None = None
        self._end: Final = asyncio.create_task(self._ended(told))

    async def wait(self) -> int:
        """Its exit code; that of a signal is negative."""
        return await asyncio.shield(self._end)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    async def _ended(self, told: asyncio.StreamReader) -> int:
        line = await told.readline()
        assert line, "the process that forks servers has died"
        self.returncode = int(line)
        return self.returncode


class ForkedPopen:
    """The same for tests that are no coroutines, with what they use of `subprocess.Popen`."""

    def __init__(self, configuration: str, errors: IO[bytes]) -> None:
        out, told = _fork(configuration, errors)
        self.stdout: Final = os.fdopen(out, encoding="utf-8")
        self._told: Final = os.fdopen(told, "rb")
        pid = self._told.readline()
        assert pid, "the process that forks servers has died"
        self.pid: Final = int(pid)
        self.returncode: int | None = None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> int:
        """Its exit code; raises `TimeoutError` if it has not ended within `timeout_s`."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout_s)[0]:
                raise TimeoutError(f"process {self.pid} has not ended within {timeout_s:g} s")
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode


async def forked_server(configuration: str, errors: IO[bytes]) -> ForkedProcess:
    """Start ``kalends serve`` with that file, and its standard error as `errors`."""
    out, told_by = _fork(configuration, errors)
    told = await _reader(told_by)
    pid = await told.readline()
    assert pid, "the process that forks servers has died"
    return ForkedProcess(int(pid), await _reader(out), told)


def _fork(configuration: str, errors: IO[bytes]) -> tuple[int, int]:
    """Descriptors of what the server prints, and of what is said of it: its id, and how it has ended."""
    out_read, out_write = os.pipe()
    told_read, told_write = os.pipe()
    order = json.dumps(
        [["kalends", "serve", configuration], os.getcwd(), dict(os.environ)]
    ).encode()
    socket.send_fds(_channel(), [order], [out_write, errors.fileno(), told_write])
    os.close(out_write)
    os.close(told_write)
    return out_read, told_read


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader


@cache
def _channel() -> socket.socket:
    """To the process that forks for this one, and ends with it."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.server_zygote", "serve", str(there.fileno())],
            cwd=ROOT, pass_fds=(there.fileno(),),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def dismiss() -> None:
        here.close()
        zygote.wait()

    atexit.register(dismiss)
    return here
