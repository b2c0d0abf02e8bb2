"""A person at a terminal of their own who starts a command and looks at what it shows."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import sys
import termios
from typing import Any

from tests.support.patience import PATIENCE_S


class Person:
    """The command line at a real pseudoterminal of its own, to which its standard error goes, too."""

    def __init__(self, *words: str, environment: dict[str, str]) -> None:
        self._words = words
        self._environment = {**os.environ, "TERM": "xterm", **environment}
        self.master, self._slave = os.openpty()
        self.modes = termios.tcgetattr(self._slave)
        self.seen = b""
        self._process: asyncio.subprocess.Process | None = None
        self._came = asyncio.Event()

    async def __aenter__(self) -> Person:
        self.resize(24, 80)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kalends", *self._words,
            stdin=self._slave, stdout=self._slave, stderr=self._slave, env=self._environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        asyncio.get_running_loop().add_reader(self.master, self._read)
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)
        os.close(self._slave)

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    def _read(self) -> None:
        self.seen += os.read(self.master, 65536)
        self._came.set()

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def restored(self) -> bool:
        """Whether the terminal is as it was before."""
        return termios.tcgetattr(self._slave) == self.modes

    async def sees(self, text: bytes) -> None:
        """Wait until `text` has been on the screen since this was last asked."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in self.seen:
                self._came.clear()
                await self._came.wait()
        self.seen = self.seen.partition(text)[2]

    async def line(self) -> bytes:
        """Return the next whole line."""
        async with asyncio.timeout(PATIENCE_S):
            while b"\n" not in self.seen:
                self._came.clear()
                await self._came.wait()
        first, end, self.seen = self.seen.partition(b"\n")
        return first + end

    async def leaves_by(self, keys: bytes) -> int:
        """Type the keys that end it, and return as `left`."""
        self.type(keys)
        return await self.left()

    async def left(self) -> int:
        """Wait for the end of the command; return its exit code."""
        async with asyncio.timeout(PATIENCE_S):
            code = await self.process.wait()
            # What was written last is there already.
            os.set_blocking(self.master, False)
            try:
                while data := os.read(self.master, 65536):
                    self.seen += data
            except OSError:
                return code
        return code

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
