"""The number of calendars that could begin a slot at each time: the one count of all fleet searches.

A gap ``[start, end)`` lets a slot of `length_s` begin at `start` or later, and from
``end - length_s + 1`` on no longer. How many calendars are open to a slot at a time is thus what
opened up to then minus what closed up to then: two sorted arrays, and no matter whose gaps they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kalends.calendars.fleet.column import Numbers
from kalends.core.intervals import Interval, align_up

_STRIDE: Final = 16
"""Times that are ruled out by one look-up: few enough that their openings hardly raise the bound."""

_ROWS: Final = 64
"""Strides that are looked at closely in one go: an early answer must not wait for all of them."""


class OpenCounts(NamedTuple):
    """The counts of a stretch: `open_before` at its start, `opens` and `closes` within it, sorted."""

    open_before: int
    opens: Numbers
    closes: Numbers

    def at(self, times: Numbers) -> Numbers:
        """Return how many are open at each of `times`, which lie in the stretch."""
        begun = self.opens.searchsorted(times, "right")
        closed = self.closes.searchsorted(times, "right")
        return self.open_before + begun - closed

    def first(self, count: int, start: int, stop: int, grain_s: int) -> tuple[int | None, int]:
        """Return the first multiple of `grain_s` in ``[start, stop)`` at which `count` are open, or None.

        With None comes a bound below `count` that no multiple in ``[start, stop)`` exceeds. Only
        `start` and openings, each moved up to the grain, can be the first.
        """
        at = align_up(start, grain_s)
        if at >= stop:
            return None, 0
        begun = int(self.opens.searchsorted(at, "right"))
        opens = self.opens[begun:]
        if grain_s > 1:
            opens = -(-opens // grain_s) * grain_s
        times = np.concatenate((np.array([at], np.int64), opens[: opens.searchsorted(stop)]))
        # Of several openings at one time only the last has the full count: none has more.
        begun += self.open_before
        size = len(times)
        last = np.minimum(np.arange(_STRIDE - 1, size + _STRIDE - 1, _STRIDE), size - 1)
        bounds = begun + last - self.closes.searchsorted(times[::_STRIDE], "right")
        hopeful = bounds >= count
        bound = int(bounds[~hopeful].max(initial=0))
        strides = hopeful.nonzero()[0] * _STRIDE
        for row in range(0, len(strides), _ROWS):
            near = (strides[row : row + _ROWS, None] + np.arange(_STRIDE)).ravel()
            near = near[near < size]
            counts = begun + near - self.closes.searchsorted(times[near], "right")
            reached = counts >= count
            if reached.any():
                return int(times[near[reached.argmax()]]), count
            bound = max(bound, int(counts.max(initial=0)))
        return None, bound


def tally_of(gaps: Sequence[Interval], length_s: int) -> OpenCounts:
    """Return the tally of all these gaps together, from the beginning of time."""
    flat = np.array(gaps, np.int64).reshape(-1, 2)
    flat = flat[flat[:, 1] - flat[:, 0] >= length_s]
    return OpenCounts(0, np.sort(flat[:, 0]), np.sort(flat[:, 1]) - length_s + 1)
