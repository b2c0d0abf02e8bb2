"""Supervision of a zygote: starts it, restarts it when it has died, hands orders to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kalends.batch.shepherds.folders import Folders
from kalends.batch.shepherds.order import JobOrder, encode_order
from kalends.batch.shepherds.zygote import NAME_BYTES_MAX, READY
from kalends.core.errors import Unavailable

ZYGOTE: Final = "kalends.batch.shepherds.zygote:main"
START_S_MAX: Final = 20.0
AGAIN_S: Final = 0.5
"""Between two starts of a zygote that does not stay."""

PASSED_ON: Final = ("LD_LIBRARY_PATH",)
"""All of our environment that it needs: some Pythons do not start without it."""

# It looks for modules where we do, and does not read what `site` would read.
_BOOT: Final = (
    "import sys, json, importlib; sys.path[:] = json.loads(sys.argv[5]);"
    " module, _, name = sys.argv[1].partition(':');"
    " getattr(importlib.import_module(module), name)(int(sys.argv[2]), *sys.argv[3:5])"
)


@dataclass(eq=False)
class ZygoteSupervisor:
    """Keeps one zygote running.

    `forked` is called with the name of each attempt whose shepherd has been forked; `gone` when a zygote
    has ended, with the names of those whose orders it had not got.
    """

    folders: Folders
    groups: str
    forked: Callable[[str], None]
    gone: Callable[[set[str]], None]
    program: str = ZYGOTE
    _waiting: deque[JobOrder] = field(init=False, default_factory=deque)
    _ready: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _line: socket.socket | None = field(init=False, default=None)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _closed: bool = field(init=False, default=False)

    async def start(self) -> None:
        """Start a zygote and wait until it is ready; raises `Unavailable`."""
        try:
            self._spawn()
        except OSError as error:
            raise Unavailable(f"Python did not start again: {error}", where="jobs") from None
        try:
            async with asyncio.timeout(START_S_MAX):
                await self._ready.wait()
        except TimeoutError:
            await self.close()
            raise Unavailable(
                f"the zygote took more than {START_S_MAX:g} s",
                where="jobs",
                remedy=f"{self.folders.log} may say why",
            ) from None

    def order(self, order: JobOrder) -> None:
        """Have a shepherd forked for `order`, as soon as there is a zygote with room for it."""
        self._waiting.append(order)
        self._send()

    def withdraw(self, name: str) -> bool:
        """Take back an order that no zygote has got; return whether there was one."""
        kept = deque(each for each in self._waiting if each.name != name)
        found = len(kept) < len(self._waiting)
        self._waiting = kept
        return found

    async def close(self) -> None:
        """Let the zygote end. Its shepherds stay."""
        self._closed = True
        self._hang_up()
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)
            self._process = None

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        home = str(Path(__file__).parents[3])
        path = [str(Path(entry).absolute()) for entry in sys.path if entry]
        with theirs, open(self.folders.log, "ab", opener=_private) as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-P", "-s", "-S", "-B", "-X", "utf8", "-c", _BOOT,
                    self.program, str(theirs.fileno()), self.folders.top, self.groups,
                    json.dumps([*path, *({home} - set(path))]),
                ],
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )  # fmt: skip
        ours.setblocking(False)
        self._line = ours
        asyncio.get_running_loop().add_reader(ours.fileno(), self._hear)

    def _hear(self) -> None:
        if self._line is None:
            return
        try:
            while message := self._line.recv(NAME_BYTES_MAX):
                if message != READY:
                    self.forked(message.decode(errors="replace"))
                else:
                    self._ready.set()
                    self._send()
        except BlockingIOError:
            return
        except OSError:
            pass
        self._lose()

    def _lose(self) -> None:
        """The zygote has ended: begin with another, after a pause."""
        self._hang_up()
        self._ready.clear()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if not self._closed:
            self.gone({order.name for order in self._waiting})
            asyncio.get_running_loop().call_later(AGAIN_S, self._again)

    def _again(self) -> None:
        if self._closed:
            return
        try:
            self._spawn()
        except OSError:
            asyncio.get_running_loop().call_later(AGAIN_S, self._again)

    def _send(self) -> None:
        """Hand over what waits, as far as the zygote has room."""
        if self._line is None or not self._ready.is_set():
            return
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._line.fileno())
        while self._waiting:
            try:
                _hand_over(self._line, self._waiting[0])
            except BlockingIOError:
                loop.add_writer(self._line.fileno(), self._send)
                return
            except OSError:
                # It has died, which `_hear` is about to notice.
                return
            self._waiting.popleft()

    def _hang_up(self) -> None:
        if self._line is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._line.fileno())
            loop.remove_writer(self._line.fileno())
            with contextlib.suppress(OSError):
                self._line.close()
            self._line = None


def _hand_over(line: socket.socket, order: JobOrder) -> None:
    descriptor = os.memfd_create("order")
    try:
        os.write(descriptor, encode_order(order))
        socket.send_fds(line, [order.name.encode()], [descriptor])
    finally:
        os.close(descriptor)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
