"""Waiting for descriptors and times, with a handler for each: all that a shepherd needs of a loop."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from typing import Final

READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
WAIT_S_MAX: Final = 3600.0

Handler = Callable[[int], None]
"""Called with what is ready: `READ`, `WRITE`, or an end or fault of the other side."""


class PollLoop:
    """Handlers by descriptor; each is to be forgotten before its descriptor is closed."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict[int, Handler] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []

    def watch(self, descriptor: int, handler: Handler, events: int = READ) -> None:
        """Call `handler` when one of `events` is ready; a second call changes both."""
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def forget(self, descriptor: int) -> None:
        """Watch it no longer; it need not be watched."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def later(self, wait_s: float, then: Callable[[], None]) -> None:
        """Call `then` once, after `wait_s`."""
        self._later.append((time.monotonic() + wait_s, then))

    def run_once(self, wait_s: float) -> None:
        """Wait at most `wait_s`, and call the handlers of what is ready."""
        now_s = time.monotonic()
        wait_s = min([wait_s, WAIT_S_MAX, *(max(0.0, at_s - now_s) for at_s, _ in self._later)])
        for descriptor, ready in self._poll.poll(math.ceil(wait_s * 1000)):
            # One before it may have closed that one.
            if descriptor in self._handlers:
                self._handlers[descriptor](ready)
        now_s = time.monotonic()
        due = [then for at_s, then in self._later if at_s <= now_s]
        self._later = [each for each in self._later if each[0] > now_s]
        for then in due:
            then()
