"""Changes of gaps, noted as they come and worked out all at once.

Where a change shows is scattered over all of an index, and memory that was not used for long is slow:
to note the change in one place costs a tenth of going there. Each is noted as a cut: a calendar loses
``[start, end)`` of its gap ``[begin, until)``, or has it back. A gap that comes or goes as a whole is
a cut of all of it.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kalends.calendars.fleet.column import GONE, NUMBER_BITS, Numbers

_FIELDS: Final = 6


class Cuts(NamedTuple):
    """Cuts in order of time, field by field; what they change is given in the same order.

    A later change of the same thing counts, so that all are to be made in this order.
    """

    numbers: Numbers
    begins: Numbers
    untils: Numbers
    starts: Numbers
    ends: Numbers
    back: NDArray[np.bool_]

    def opening(self) -> tuple[Numbers, Numbers]:
        """Keys of gaps by their start, and the end that each now has, or `GONE`."""
        return self._keyed(self.begins, self.untils, self.starts, self.ends)

    def closing(self) -> tuple[Numbers, Numbers]:
        """Keys of gaps by their end, and the start that each now has, or `GONE`."""
        return self._keyed(self.untils, self.begins, self.ends, self.starts)

    def carried(self, edges: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """``(first, stop, number, end)``: across those `edges` a calendar has a gap up to `end`, or 0."""
        reach = np.where(self.back, self.untils, self.starts)
        first, stop = edges.searchsorted(self.begins, "right"), edges.searchsorted(reach)
        lost = np.maximum(edges.searchsorted(self.starts), first)
        regained = np.minimum(
            edges.searchsorted(self.ends, "right"), edges.searchsorted(self.untils)
        )
        regained[self.back] = 0
        return (
            _paired(first, lost),
            _paired(stop, regained),
            np.repeat(self.numbers, 2),
            _paired(reach, np.zeros_like(reach)),
        )

    def _keyed(
        self, near: Numbers, far: Numbers, lost_near: Numbers, lost_far: Numbers
    ) -> tuple[Numbers, Numbers]:
        """The gap keyed by its `near` end, and what is left of it beyond the far end of the loss."""
        whole = np.where(self.back, far, np.where(lost_near == near, GONE, lost_near))
        beyond = np.where(self.back, GONE, far)
        keys = _paired(near, lost_far) << NUMBER_BITS | np.repeat(self.numbers, 2)
        real = _paired(far, lost_far) != np.repeat(far, 2)
        real[::2] = True
        return keys[real], _paired(whole, beyond)[real]


class Log:
    """What was noted and not taken out yet."""

    __slots__ = ("_cuts", "_freed")

    def __init__(self) -> None:
        self._cuts = array("q")
        self._freed = array("q")

    def __len__(self) -> int:
        """How many cuts."""
        return len(self._cuts) // _FIELDS

    def cut(self, number: int, begin: int, until: int, start: int, end: int, *, back: bool) -> None:
        """Calendar `number` loses ``[start, end)`` of its gap ``[begin, until)``, or has it `back`."""
        self._cuts.extend((number, begin, until, start, end, back))

    def free(self, start: int, end: int) -> None:
        """A calendar may have become free within ``[start, end)``."""
        self._freed.extend((start, end))

    def take(self) -> tuple[Cuts, Numbers]:
        """Take out all cuts, and the rows ``[start, end)`` of what was freed."""
        rows = np.array(self._cuts, np.int64).reshape(-1, _FIELDS)
        numbers, begins, untils, starts, ends, back = rows.T.copy()
        freed = np.array(self._freed, np.int64).reshape(-1, 2)
        del self._cuts[:], self._freed[:]
        return Cuts(numbers, begins, untils, starts, ends, back != 0), freed


def spread(first: Numbers, stop: Numbers) -> tuple[Numbers, Numbers]:
    """All whole numbers of each ``[first, stop)`` in turn, and in which of these each is."""
    sizes = np.maximum(stop - first, 0)
    whose = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(whose)) + (first - sizes.cumsum() + sizes)[whose], whose


def _paired(one: Numbers, other: Numbers) -> Numbers:
    """In turn of `one` and of `other`."""
    return np.stack((one, other), axis=1).ravel()
