"""Shepherds that have seen an attempt to its end, and wait for another: a fork less for that one.

A zygote has a line to a few of its shepherds, which say on it that they are free. What it hands to them is
what it was handed itself. A shepherd whose line has ended goes away when its attempt is over.
"""

from __future__ import annotations

import select
import socket
from typing import Final

SPARES_MAX: Final = 16
"""Shepherds with a line; those forked beyond that are for one attempt each."""

ATTEMPTS_MAX: Final = 64
"""What one shepherd sees to, one after the other: nobody collects its garbage."""

IDLE_S: Final = 2.0
"""When there was no news for so long, those who wait are let go."""

FREE: Final = b"free"


class Spares:
    """The zygote's ends of the lines, and which shepherds wait; `requests` is what the zygote listens to."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests.fileno()
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._lines: dict[int, socket.socket] = {}
        self._free: list[int] = []

    def until_request(self) -> None:
        """Return when there is a request; hear of shepherds meanwhile."""
        while True:
            found = self._poll.poll(IDLE_S * 1000 if self._free else None)
            for descriptor in [] if found else list(self._free):
                self._let_go(descriptor)
            asked = False
            for descriptor, _ in found:
                if descriptor == self._requests:
                    asked = True
                else:
                    self._hear(descriptor)
            if asked:
                return

    def hand_over(self, name: bytes, descriptors: list[int]) -> bool:
        """Give an order to the one who became free last; return whether there was one."""
        while self._free:
            descriptor = self._free.pop()
            try:
                socket.send_fds(self._lines[descriptor], [name], descriptors)
            except OSError:
                self._let_go(descriptor)
            else:
                return True
        return False

    def open_line(self) -> socket.socket | None:
        """Return the other end of a new line, for a new shepherd; None if there are enough of them."""
        if len(self._lines) >= SPARES_MAX:
            return None
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError:
            return None
        self._lines[ours.fileno()] = ours
        self._poll.register(ours, select.POLLIN)
        return theirs

    def _hear(self, descriptor: int) -> None:
        try:
            free = self._lines[descriptor].recv(len(FREE)) == FREE
        except OSError:
            free = False
        if free:
            self._free.append(descriptor)
        else:
            self._let_go(descriptor)

    def _let_go(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._lines.pop(descriptor).close()
        if descriptor in self._free:
            self._free.remove(descriptor)
