"""Numbers for nodes that were only counted: always the lowest that are free."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

Intervals = tuple[tuple[int, int], ...]
"""Numbers of nodes, ascending: ``(first, last)`` of each run without a gap, both included."""


class FreeNodes:
    """The free ones of `nodes` nodes, numbered from `first` on, as runs without a gap."""

    def __init__(self, nodes: int, first: int = 0) -> None:
        self._runs: list[tuple[int, int]] = [(first, first + nodes - 1)] if nodes > 0 else []

    def take(self, count: int) -> Intervals | None:
        """Return the `count` lowest numbers; None, and nothing is taken, if fewer are free."""
        taken: list[tuple[int, int]] = []
        if not count:
            return ()
        for first, last in self._runs:
            taken.append((first, min(last, first + count - 1)))
            count -= last - first + 1
            if count <= 0:
                del self._runs[: len(taken)]
                if count < 0:
                    self._runs.insert(0, (last + count + 1, last))
                return tuple(taken)
        return None

    def give_back(self, taken: Intervals) -> None:
        """Free numbers that `take` gave."""
        runs = self._runs
        for first, last in taken:
            at = bisect_left(runs, (first, last))
            if at < len(runs) and runs[at][0] == last + 1:
                last = runs.pop(at)[1]
            if at and runs[at - 1][1] == first - 1:
                at -= 1
                first = runs.pop(at)[0]
            runs.insert(at, (first, last))


def intervals(numbers: Iterable[int]) -> Intervals:
    """Return ascending `numbers` as runs without a gap."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)
