"""Half-open intervals of integer seconds UTC, and the moment that state machines are given.

Nothing here reads a clock: the runner of a state machine passes in a `Moment`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Interval(NamedTuple):
    """The interval ``[start, end)`` in integer seconds UTC; touching intervals do not overlap."""

    start: int
    end: int

    @property
    def length_s(self) -> int:
        return self.end - self.start

    def overlaps(self, other: Interval) -> bool:
        return self.start < other.end and other.start < self.end


class Moment(NamedTuple):
    """The present on two clocks: durations use `monotonic_ms`, slot times `wall_ms`.

    `monotonic_ms` is local to a process and never goes back; `wall_ms` is UTC and may jump, so that
    no safety rule may depend on it (protocol rule: leases and timers affect progress only).
    """

    monotonic_ms: int
    wall_ms: int

    @property
    def wall_s(self) -> int:
        return self.wall_ms // 1000


def align_up(time_s: int, grain_s: int) -> int:
    """Return the first multiple of `grain_s` at or after `time_s`."""
    return -(-time_s // grain_s) * grain_s


def joined(intervals: Iterable[tuple[int, int]]) -> list[Interval]:
    """Return the same moments as intervals in order, none of which touch."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(end, found[-1].end))
        else:
            found.append(Interval(start, end))
    return found
