"""Changes of gaps, recorded as they come and applied all at once.

Where a change shows is scattered over all of an index, and memory that was not used for long is slow:
to note the change in one place costs a tenth of going there. Each is noted as a cut: a calendar loses
``[start, end)`` of its gap ``[begin, until)``, or has it back. A gap that comes or goes as a whole is
a cut of all of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalends.calendars.fleet.column import GONE, NUMBER_BITS, Numbers

_FIELDS: Final = 6

_BEGIN, _UNTIL, _START, _END = range(4)

_CLOSING: Final = np.array([False, True, True, False])
"""Times of a cut at which a gap closes; at the others one opens."""


class Cuts(NamedTuple):
    """Cuts in the order in which they were noted, and what they change, in the same order.

    A later change of the same thing counts, so that all are to be made in this order.
    """

    numbers: Numbers
    times: Numbers
    """Rows of `begin`, `until`, `start` and `end`."""
    back: NDArray[np.bool_]

    def listed(self) -> Iterator[tuple[int, list[int], bool]]:
        """List the changes, cut by cut."""
        return zip(self.numbers.tolist(), self.times.tolist(), self.back.tolist(), strict=True)

    def ends(self) -> tuple[NDArray[np.bool_], Numbers, Numbers]:
        """Return ``(closing, key, value)`` of all ends of gaps; the value is the other end or `GONE`."""
        keys = self.times << NUMBER_BITS | self.numbers[:, None]
        values = self.times[:, [_START, _END, _BEGIN, _UNTIL]]
        nothing = values == self.times
        values[nothing] = GONE
        values[self.back, :2] = self.times[self.back, _UNTIL::-1]
        values[self.back, 2:] = GONE
        # Where nothing is left before or behind what is lost, no gap closes or opens there.
        nothing[:, :2] = False
        kept = ~nothing
        return np.broadcast_to(_CLOSING, kept.shape)[kept], keys[kept], values[kept]

    def carried(self, edges: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return ``(first, stop, number, end)``: across those `edges` a gap reaches `end`, or 0."""
        at, beyond = edges.searchsorted(self.times), edges.searchsorted(self.times, "right")
        # Over an edge at which the gap begins or ends, nothing is carried before or after.
        first = np.column_stack((beyond[:, _BEGIN], at[:, _START]))
        stop = np.column_stack((at[:, _START], beyond[:, _END]))
        ends = np.zeros_like(first)
        ends[:, 0] = self.times[:, _START]
        stop[self.back, 0], stop[self.back, 1] = at[self.back, _UNTIL], 0
        ends[self.back, 0] = self.times[self.back, _UNTIL]
        return first.ravel(), stop.ravel(), np.repeat(self.numbers, 2), ends.ravel()


class GapChanges:
    """The recorded changes that have not been taken out yet."""

    __slots__ = ("_cuts", "_freed")

    def __init__(self) -> None:
        self._cuts = array("q")
        self._freed = array("q")

    def __len__(self) -> int:
        """Return the number of cuts."""
        return len(self._cuts) // _FIELDS

    def cut(self, number: int, begin: int, until: int, start: int, end: int, *, back: bool) -> None:
        """Cut ``[start, end)`` from the gap ``[begin, until)`` of calendar `number`, or put it `back`."""
        self._cuts.extend((number, begin, until, start, end, back))

    def free(self, start: int, end: int) -> None:
        """Record that a calendar may have become free within ``[start, end)``."""
        self._freed.extend((start, end))

    def take(self) -> tuple[Cuts, Numbers]:
        """Take out all cuts, and the rows ``[start, end)`` of what was freed."""
        rows = np.array(self._cuts, np.int64).reshape(-1, _FIELDS)
        freed = np.array(self._freed, np.int64).reshape(-1, 2)
        del self._cuts[:], self._freed[:]
        return Cuts(rows[:, 0], rows[:, 1:-1], rows[:, -1] != 0), freed


def spread(first: Numbers, stop: Numbers) -> tuple[Numbers, Numbers]:
    """Return all whole numbers of each ``[first, stop)`` in turn, and in which of these each is."""
    sizes = np.maximum(stop - first, 0)
    whose = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(whose)) + (first - sizes.cumsum() + sizes)[whose], whose
