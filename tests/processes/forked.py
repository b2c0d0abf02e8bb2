"""Processes of servers that are forked from one which has loaded them, instead of loading all anew.

The examples, the demo, and whatever runs a server under another command or with an environment of its
own, start it as users do.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from functools import cache
from typing import IO, Final


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


async def forked_server(configuration: str, errors: IO[bytes]) -> ForkedProcess:
    """Start ``kalends serve`` with that file, and its standard error as `errors`."""
    out_read, out_write = os.pipe()
    told_read, told_write = os.pipe()
    order = json.dumps(
        [["kalends", "serve", configuration], os.getcwd(), dict(os.environ)]
    ).encode()
    socket.send_fds(_channel(), [order], [out_write, errors.fileno(), told_write])
    os.close(out_write)
    os.close(told_write)
    told = await _reader(told_read)
    pid = await told.readline()
    assert pid, "the process that forks servers has died"
    return ForkedProcess(int(pid), await _reader(out_read), told)


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
            pass_fds=(there.fileno(),), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def dismiss() -> None:
        here.close()
        zygote.wait()

    atexit.register(dismiss)
    return here
