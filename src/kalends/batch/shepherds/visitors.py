"""Connections to a shepherd: the server's own, and those of users at a terminal.

Whatever a visitor does ends with that visitor: one who goes away, talks nonsense or does not keep up is
let go, and the program never waits for any of them.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from kalends.batch.shepherds.frames import FrameReader, json_frame
from kalends.batch.shepherds.poll_loop import READ, WRITE, PollLoop

ATTACHED_MAX: Final = 64
"""How many visitors may watch one terminal at the same time."""

VISITORS_MAX: Final = 2 * ATTACHED_MAX
"""More than may be attached: a job that many look at must hear of its end all the same."""
PENDING_BYTES_MAX: Final = 1024 * 1024
"""What waits for one who is slow: hundreds of screens. Whoever attaches again begins with the history."""

_CREDENTIALS: Final = struct.Struct("3i")


class Visitor:
    """One connection, and what still has to be sent on it."""

    def __init__(self, loop: PollLoop, line: socket.socket, reception: Reception) -> None:
        line.setblocking(False)
        self._loop = loop
        self._line = line
        self._reception = reception
        self._reader = FrameReader()
        self._pending = bytearray()
        loop.watch(line.fileno(), self._on_ready)

    def say(self, frame: bytes) -> None:
        """Send `frame`, now or when there is room; to one who has gone, it does nothing."""
        if self._line.fileno() < 0:
            return
        self._pending += frame
        self._flush()

    def leave(self) -> None:
        """Close the connection. A second call does nothing."""
        if self._line.fileno() >= 0:
            self._loop.forget(self._line.fileno())
            self._line.close()
            self._reception.forget(self)

    def _on_ready(self, ready: int) -> None:
        try:
            if ready & WRITE:
                self._flush()
            if ready & ~WRITE and self._line.fileno() >= 0:
                self._hear()
        except (OSError, ValueError):
            self.leave()

    def _hear(self) -> None:
        try:
            data = self._line.recv(64 * 1024)
        except BlockingIOError:
            return
        if not data:
            self.leave()
        for kind, body in self._reader.feed(data):
            self._reception.hear(self, kind, body)

    def _flush(self) -> None:
        try:
            del self._pending[: self._line.send(self._pending)]
        except BlockingIOError:
            pass
        except OSError:
            self.leave()
            return
        if len(self._pending) > PENDING_BYTES_MAX:
            self.leave()
        else:
            events = READ | WRITE if self._pending else READ
            self._loop.watch(self._line.fileno(), self._on_ready, events)


class Reception:
    """The shepherd's own socket. `hear` gets each frame; `gone` is told of each who has left."""

    def __init__(
        self,
        loop: PollLoop,
        path: str,
        hear: Callable[[Visitor, bytes, bytes], None],
        gone: Callable[[Visitor], None],
    ) -> None:
        """Listen at `path`, which is replaced; raises `OSError`."""
        self.hear = hear
        self._gone = gone
        self._loop = loop
        self._visitors: set[Visitor] = set()
        self._listener = listening(path)
        loop.watch(self._listener.fileno(), self._welcome)

    def forget(self, visitor: Visitor) -> None:
        self._visitors.discard(visitor)
        self._gone(visitor)

    def close(self) -> None:
        """Take no new visitors, and close all connections."""
        for each in list(self._visitors):
            each.leave()
        self._loop.forget(self._listener.fileno())
        self._listener.close()

    def say_all(self, kind: bytes, what: dict[str, Any]) -> None:
        for each in list(self._visitors):
            each.say(json_frame(kind, what))

    def _welcome(self, ready: int) -> None:
        line = accepted(self._listener)
        if line is None:
            return
        _, uid, _ = _CREDENTIALS.unpack(
            line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid not in (0, os.geteuid()) or len(self._visitors) >= VISITORS_MAX:
            line.close()
        else:
            self._visitors.add(Visitor(self._loop, line, self))


def listening(path: str) -> socket.socket:
    """Return a socket that listens at `path`, for its owner alone; what was there is removed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
    except OSError:
        os.unlink(path)
        listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(8)
    listener.setblocking(False)
    return listener


def accepted(listener: socket.socket) -> socket.socket | None:
    """Return who has connected; None if they have gone already, or there are no descriptors left."""
    try:
        return listener.accept()[0]
    except OSError:
        return None
