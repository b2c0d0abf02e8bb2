"""Virtual time: a queue of events that run in order, as fast as the machine can.

Events of the same microsecond run in the order in which they were asked for, so a run is a function of
its seed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


class Timeline:
    """`now_us` is microseconds since the beginning of the run."""

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time_us: int, action: Callable[..., None], *arguments: Any) -> None:
        """Run ``action(*arguments)`` at `time_us`, which must not have passed."""
        if time_us < self.now_us:
            raise ValueError(f"{time_us} us is over: it is {self.now_us} us")
        self._number += 1
        heapq.heappush(self._queue, (time_us, self._number, action, arguments))

    def after(self, delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now_us + delay_us, action, *arguments)

    def run(self, until_us: int, finished: Callable[[], bool] = lambda: False) -> None:
        """Run events up to and including `until_us`, or until `finished()`."""
        while not finished():
            if not self._queue or self._queue[0][0] > until_us:
                self.now_us = max(self.now_us, until_us)
                return
            self.now_us, _, action, arguments = heapq.heappop(self._queue)
            self.events += 1
            action(*arguments)
