"""Calls of an owner's own code, interrupted when they take too long.

A timer of the process interrupts the code wherever it is, but never in the middle of a change of ours: there
it is tried again a moment later. Only the main thread can be interrupted; elsewhere a call that takes too
long is told of when it is over.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

from kalends.scheduling.watched import WatchedPolicy

AGAIN_S: Final = 0.01

OURS: Final = (
    "kalends.machines.", "kalends.scheduling.cluster", "kalends.scheduling.grid",
    "kalends.scheduling.mapped", "kalends.scheduling.seen_job", "kalends.scheduling.watched",
)  # fmt: skip
"""Modules that look after the nodes themselves: what they have begun, they finish."""

_BORDER: Final = WatchedPolicy.ask.__code__
"""Behind this call it is the owner's code."""


class Stopwatch:
    """Makes calls that may take `most_s` each. Raises `TimeoutError` for one that takes longer."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s

    def __deepcopy__(self, memo: dict[int, object]) -> Stopwatch:
        return self

    def __call__(self, call: Callable[[], None]) -> None:
        began_s = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            self._interrupted(call, began_s)
        else:
            call()
        if time.monotonic() - began_s > self._most_s:
            raise self._too_long()

    def _interrupted(self, call: Callable[[], None], began_s: float) -> None:
        def interrupt(number: int, frame: FrameType | None) -> None:
            if _may_be_left(frame):
                raise self._too_long()

        handler = signal.signal(signal.SIGALRM, interrupt)
        left_s, every_s = signal.setitimer(signal.ITIMER_REAL, self._most_s, AGAIN_S)
        try:
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if left_s:  # Of somebody else's timer.
                passed_s = time.monotonic() - began_s
                signal.setitimer(signal.ITIMER_REAL, max(left_s - passed_s, AGAIN_S), every_s)

    def _too_long(self) -> TimeoutError:
        return TimeoutError(f"it took longer than {self._most_s * 1000:.0f} ms")


def _may_be_left(frame: FrameType | None) -> bool:
    """Return whether the owner's code runs, with nothing of ours in the midst of a change."""
    while frame is not None:
        if frame.f_code is _BORDER:
            return True
        if frame.f_globals.get("__name__", "").startswith(OURS):
            return False
        frame = frame.f_back
    return False
