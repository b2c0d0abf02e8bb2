"""Calls of an owner's own code, interrupted when they take too long.

A timer of the process interrupts the code wherever it is, but never in the middle of a change of ours: there
it is tried again a moment later. Only the main thread can be interrupted; elsewhere a call that takes too
long is told of when it is over. Code that cannot be interrupted, in C, or does not heed it, holds the process
until a watchdog ends that.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType
from typing import Final

from kalends.batch.watchdog import Watchdog
from kalends.scheduling.watched import Interrupted, WatchedPolicy

AGAIN_S: Final = 0.01
"""So soon it is tried again; later and later where the code goes on in spite of it."""

OURS: Final = (
    "kalends.machines.", "kalends.scheduling.cluster", "kalends.scheduling.grid",
    "kalends.scheduling.mapped", "kalends.scheduling.watched",
)  # fmt: skip
"""Modules that look after the nodes themselves: what they have begun, they finish."""

_BORDER: Final = WatchedPolicy.ask.__code__
"""Behind this call it is the owner's code."""


class Stopwatch:
    """Makes calls that may take `most_s` each. Raises `TimeoutError` for one that takes longer.

    And for the first one, unmade, if the `watchdog` has ended the process before this one.
    """

    def __init__(self, most_s: float, watchdog: Watchdog | None = None) -> None:
        self._most_s = most_s
        self._watchdog = watchdog

    def __deepcopy__(self, memo: dict[int, object]) -> Stopwatch:
        return self

    def __call__(self, call: Callable[[], None]) -> None:
        if self._watchdog is not None and self._watchdog.struck:
            struck, self._watchdog.struck = self._watchdog.struck, ""
            raise TimeoutError(struck)
        began_s = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            with self._watchdog or nullcontext():
                self._interrupted(call, began_s)
        else:
            call()
        if time.monotonic() - began_s > self._most_s:
            raise self._too_long()

    def _interrupted(self, call: Callable[[], None], began_s: float) -> None:
        over, again_s = False, AGAIN_S

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal again_s
            if over:
                return
            if not _may_be_left(frame):
                signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
                return
            # Each signal takes room where the event loop hears of signals, and this one may not be the last.
            again_s *= 2
            signal.setitimer(signal.ITIMER_REAL, again_s)
            raise Interrupted(self._too_long())

        handler = signal.signal(signal.SIGALRM, interrupt)
        left_s, every_s = signal.setitimer(signal.ITIMER_REAL, self._most_s)
        try:
            call()
        except Interrupted as interrupted:
            raise TimeoutError(str(interrupted)) from None
        finally:
            over = True
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
