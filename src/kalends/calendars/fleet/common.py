"""The first common slot of a few calendars, asked directly: leapfrog first, then a windowed sweep.

Leapfrog costs little while common slots are frequent: each calendar in turn moves the start to where
it has room. Where they are rare it takes as many rounds as there are gaps, and it is quicker to count
all gaps of a window at once, in windows that double.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from kalends.calendars.engine import Calendar
from kalends.calendars.fleet.open_counts import OpenCounts, tally_of
from kalends.core.intervals import Interval, align_up

LEAPFROG_ROUNDS: Final = 64
"""Rounds after which common slots count as rare."""

_WINDOW_LENGTHS: Final = 16
"""The first window of a sweep, in lengths of the slot."""

_END = attrgetter("end")


class Party(NamedTuple):
    """The need for `units` of a calendar within `windows` (sorted, disjoint, not touching; None: always)."""

    calendar: Calendar
    units: int
    windows: Sequence[Interval] | None = None

    def openings(self, start: int, stop: int) -> list[Interval]:
        """Return where it is free and allowed: stretches usable by a start in ``[start, stop)``."""
        gaps = self.calendar.gaps(self.units, start, stop)
        if self.windows is None or not gaps:
            return gaps
        found = []
        index = bisect_right(self.windows, start, key=_END)
        for gap in gaps:
            while index < len(self.windows) and self.windows[index].start < min(gap.end, stop):
                window = self.windows[index]
                if window.end > gap.start:
                    found.append(Interval(max(gap.start, window.start), min(gap.end, window.end)))
                if window.end > gap.end:
                    break
                index += 1
        return found


def tally(parties: Sequence[Party], length_s: int, start: int, stop: int) -> OpenCounts:
    """Count the `parties` that are open to a slot at each time of ``[start, stop)``."""
    every = [gap for party in parties for gap in party.openings(start, stop)]
    return tally_of(every, length_s)


def first_common(
    parties: Sequence[Party], length_s: int, first: int, last: int, grain_s: int
) -> int | None:
    """Return the first multiple of `grain_s` in ``[first, last]`` at which all `parties` are open."""
    at = align_up(first, grain_s)
    moved = [0] * len(parties)
    for _ in range(LEAPFROG_ROUNDS):
        begun = at
        # Who moved the start farthest goes first: the others are then asked about fewer starts.
        for number in sorted(range(len(parties)), key=moved.__getitem__, reverse=True):
            party = parties[number]
            fit = party.calendar.earliest_fit(
                party.units, length_s, at, last + length_s, party.windows
            )
            if fit is None:
                return None
            moved[number] += fit - at
            at = align_up(fit, grain_s)
        if at == begun:
            return at
    return first_of(parties, len(parties), length_s, at, last, grain_s)


def first_of(
    parties: Sequence[Party], count: int, length_s: int, first: int, last: int, grain_s: int
) -> int | None:
    """Return the first multiple of `grain_s` in ``[first, last]`` at which `count` of `parties` are open."""
    start, width = first, _WINDOW_LENGTHS * length_s + grain_s
    while start <= last:
        stop = min(start + width, last + 1)
        found, _ = tally(parties, length_s, start, stop).first(count, start, stop, grain_s)
        if found is not None:
            return found
        start, width = stop, 2 * width
    return None
