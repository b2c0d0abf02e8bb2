"""The two clocks a server reads, as one object, so that tests can move time without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from kalends.core.intervals import Moment


class Clock(Protocol):
    """A pair of clocks: `monotonic_s` never goes back and measures durations; `wall_s` is UTC, may jump."""

    def monotonic_s(self) -> float: ...

    def wall_s(self) -> int: ...


class SystemClock:
    """The clocks of this machine."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall_s(self) -> int:
        return int(time.time())


class MomentClock:
    """The clocks that `moment` reads."""

    def __init__(self, moment: Callable[[], Moment]) -> None:
        self._moment = moment

    def monotonic_s(self) -> float:
        return self._moment().monotonic_ms / 1000

    def wall_s(self) -> int:
        return self._moment().wall_s


STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The monotonic clock that continues while the host sleeps: see clock_gettime(2)."""


def moment() -> Moment:
    """Return the time now on the clocks of this machine. A sleep of the host does not count as a jump."""
    return Moment(time.clock_gettime_ns(STEADY) // 1_000_000, time.time_ns() // 1_000_000)
