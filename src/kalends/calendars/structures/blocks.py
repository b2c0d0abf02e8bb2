"""A run of change points of a step function, with what a search may skip it by."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

SMALL: Final = 48
"""The length below which plain Python is faster than numpy."""

LEVELS: Final = 64
"""A search rounds what it needs down to this many steps of the capacity, to share what is cached."""

NEVER: Final = 1 << 62
"""Later than every time, still an int64; `-NEVER` is earlier than every time."""

_INT64 = np.dtype(np.int64)


class FreeRuns(NamedTuple):
    """Runs of enough units in a stretch of time, between the first and last step with too little.

    `lead` is when the first such step starts, `trail` when the last one ends (`NEVER`: with the
    stretch), `longest_s` the longest time between two of them.
    """

    lead: int
    longest_s: int
    trail: int


class Block:
    """Change points in order: `values[i]` from `times[i]` up to the next; never empty.

    What is true of a value is the value here plus what is pending on the whole block, which the
    owner of the block keeps: so blocks can be shared by copies, and the caches survive changes of
    the whole. `least`, `most` and `runs` are found when first asked for, and forgotten by `touch`,
    which every other change must call.
    """

    __slots__ = ("_least", "_most", "_runs", "owner", "times", "values")

    def __init__(self, owner: object, times: array[int], values: array[int]) -> None:
        self.owner = owner
        self.times = times
        self.values = values
        self.touch()

    def touch(self) -> None:
        """Drop cached findings about the values or times, because they change."""
        self._least: int | None = None
        self._most: int | None = None
        self._runs: dict[int, FreeRuns | None] = {}

    def copy(self, owner: object) -> Block:
        return Block(owner, self.times[:], self.values[:])

    @property
    def least(self) -> int:
        if self._least is None:
            self._least = int(np.minimum.reduce(_view(self.values)))
        return self._least

    @property
    def most(self) -> int:
        if self._most is None:
            self._most = int(np.maximum.reduce(_view(self.values)))
        return self._most

    def least_of(self, first: int, last: int) -> int:
        """Return the smallest of ``values[first:last]``, which may not be empty."""
        if last - first < SMALL:
            return min(self.values[first:last])
        return int(np.minimum.reduce(_view(self.values, first, last)))

    def add(self, first: int, last: int, amount: int) -> None:
        """Add to ``values[first:last]``."""
        view = _view(self.values, first, last)
        view += amount

    def runs(self, level: int, level_units: int) -> FreeRuns | None:
        """Return the runs of at least ``level * level_units``; None when the whole block is one. Cached."""
        try:
            return self._runs[level]
        except KeyError:
            found = self._runs[level] = self.find_runs(level * level_units)
            return found

    def find_runs(self, units: int) -> FreeRuns | None:
        """Return the runs of at least `units`; None when the whole block is one."""
        enough, turns = self.turns(units)
        lead = self.times[0]
        if enough:
            if not turns.size:
                return None
            lead, turns = int(turns[0]), turns[1:]
        longest_s = int((turns[1::2] - turns[:-1:2]).max()) if turns.size > 1 else 0
        return FreeRuns(lead, longest_s, int(turns[-1]) if turns.size % 2 else NEVER)

    def fit(self, units: int, length_s: int, first: int, run: int, near: int) -> tuple[bool, int]:
        """Return whether a run of `units` of at least `length_s` ends here, and the start of the first.

        Looks from point `first` on, at so many points that are `near` before the others, `run` being
        the start of the run that reaches it. Without a fit, the start of the run that reaches the
        end of the block (`NEVER`: none does).
        """
        if len(self.values) - first > 2 * near:
            found, run = self._fit(units, length_s, first, first + near, run)
            if found:
                return True, run
            first += near
            run = min(run, self.times[first])
        return self._fit(units, length_s, first, len(self.values), run)

    def _fit(self, units: int, length_s: int, first: int, last: int, run: int) -> tuple[bool, int]:
        """Search the points from `first` up to `last`, see `fit`."""
        enough, turns = self.turns(units, first, last)
        lead = self.times[first]
        if enough:
            if not turns.size:
                return False, run
            lead, turns = int(turns[0]), turns[1:]
        if lead - run >= length_s:
            return True, run
        if turns.size > 1:
            fits = turns[1::2] - turns[:-1:2] >= min(length_s, NEVER)
            index = int(fits.argmax())
            if fits[index]:
                return True, int(turns[2 * index])
        return False, int(turns[-1]) if turns.size % 2 else NEVER

    def turns(
        self, units: int, first: int = 0, last: int | None = None
    ) -> tuple[bool, NDArray[np.int64]]:
        """Return whether there are at least `units` at point `first`, and when that changes before `last`."""
        enough = _view(self.values, first, last) >= units
        changes = (enough[1:] != enough[:-1]).nonzero()[0]
        return bool(enough[0]), _view(self.times, first + 1, last)[changes]

    def check(self, level_units: int) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours."""
        assert len(self.times) == len(self.values) > 0
        assert self._least in (None, min(self.values))
        assert self._most in (None, max(self.values))
        for level, runs in self._runs.items():
            assert runs == self.find_runs(level * level_units), level


def _view(numbers: array[int], first: int = 0, last: int | None = None) -> NDArray[np.int64]:
    """Return ``numbers[first:last]`` as a numpy view; an array with a view cannot grow."""
    count = (len(numbers) if last is None else last) - first
    return np.frombuffer(numbers, _INT64, count, first * 8)
