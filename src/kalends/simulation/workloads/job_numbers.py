"""The job numbers that a log has used so far: every number stands for one job."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence


class JobNumbers:
    """A set of numbers that is small when they come in ascending order, as they do in nearly every log.

    Ascending numbers are kept as runs without a gap, 16 bytes a run; numbers below the highest one so
    far are kept one by one.
    """

    def __init__(self) -> None:
        self._highest = -2
        self._firsts = array("q")
        self._lasts = array("q")
        self._late: set[int] = set()

    def add(self, numbers: Sequence[int]) -> int:
        """Take in `numbers` up to the first that was there before; the result is how many those are."""
        highest = self._highest
        try:
            for index, number in enumerate(numbers):
                if number == highest + 1:
                    highest = number
                elif number > highest:
                    self._end_run(highest)
                    self._firsts.append(number)
                    highest = number
                elif self._has(number, highest):
                    return index
                else:
                    self._late.add(number)
        finally:
            self._highest = highest
        return len(numbers)

    def _end_run(self, last: int) -> None:
        if self._firsts:
            self._lasts.append(last)

    def _has(self, number: int, highest: int) -> bool:
        run = bisect_right(self._firsts, number) - 1
        lasts = self._lasts
        in_run = run >= 0 and number <= (lasts[run] if run < len(lasts) else highest)
        return in_run or number in self._late
