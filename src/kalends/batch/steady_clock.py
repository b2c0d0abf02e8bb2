"""The clock of queues: wall time that does not jump.

A queue forgets reservations whose time has passed. So it follows the wall clock as long as that goes as
the monotonic one does; when the wall clock jumps, it goes on by itself, and what is planned stays where
it was. A restart takes the wall clock as it is then, but never goes back behind what was stored.
"""

from __future__ import annotations

from typing import Final

from kalends.core.intervals import Moment

DRIFT_MS_MAX: Final = 60_000
"""More than NTP corrects in one step after hours without a network."""


class SteadyClock:
    """Seconds UTC for queues, from moments that are given to it in order."""

    def __init__(self, first: Moment) -> None:
        self._anchor = first

    def now_s(self, moment: Moment) -> int:
        """Return the wall time of `moment`, or what it would be without the jumps since the last one."""
        expected_ms = self._anchor.wall_ms + moment.monotonic_ms - self._anchor.monotonic_ms
        if abs(moment.wall_ms - expected_ms) <= DRIFT_MS_MAX:
            self._anchor = moment
            return moment.wall_s
        return expected_ms // 1000

    def doubts(self, moment: Moment) -> bool:
        """Return whether the wall clock of `moment` is not followed."""
        expected_ms = self._anchor.wall_ms + moment.monotonic_ms - self._anchor.monotonic_ms
        return abs(moment.wall_ms - expected_ms) > DRIFT_MS_MAX
