"""Virtual time: a seeded queue of events, a trace with its hash, and the count of faults.

One process, no threads, no real clock. Events of the same millisecond run in an order that the seed
decides. Everything that is random is drawn from `random`, so that a seed replays bit for bit.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any


class Violation(Exception):
    """A promise of the protocol is broken."""


class Kernel:
    """`now_ms` is true time; nodes see it only through their own clocks (see `clocks`)."""

    def __init__(self, seed: int | str, *, keep_trace: bool = False) -> None:
        self.random = Random(f"kalends:{seed}")
        self.now_ms = 0
        self.faults: Counter[str] = Counter()
        self.events = 0
        self.trace: list[str] | None = [] if keep_trace else None
        self._queue: list[tuple[int, float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def after(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """Run ``action(*arguments)`` in `delay_ms`."""
        self._number += 1
        entry = (self.now_ms + delay_ms, self.random.random(), self._number, action, arguments)
        heapq.heappush(self._queue, entry)

    def run(self, until_ms: int, finished: Callable[[], bool] | None = None) -> bool:
        """Run events up to `until_ms`, or until `finished()`; returns whether it was finished."""
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, _, action, arguments = heapq.heappop(self._queue)
            self.events += 1
            action(*arguments)
            if finished is not None and self.events % 16 == 0 and finished():
                return True
        self.now_ms = until_ms
        return finished is not None and finished()

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.now_ms:>8} {text}"
        self._hash.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def fault(self, kind: str, text: str = "") -> None:
        self.faults[kind] += 1
        self.note(f"FAULT {kind} {text}")

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    @property
    def trace_hash(self) -> str:
        return self._hash.hexdigest()
