"""A step function of time: what the plans of a grid and of a topology have in common."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class StepPlan(Generic[Value]):
    """Values over time. Step i begins at `times[i]`, and has `values[i]` until `times[i + 1]`.

    The last step never ends. Equal neighbours are one step.
    """

    __slots__ = ("times", "values")

    def __init__(self, start: int, value: Value) -> None:
        self.times = [start]
        self.values = [value]

    def during(self, start: int, end: int) -> list[Value]:
        """Return the values of ``[start, end)``, in order."""
        first = max(bisect_right(self.times, start) - 1, 0)
        return self.values[first : bisect_left(self.times, end)]

    def change(self, start: int, end: int, change: Callable[[Value], Value]) -> None:
        """Change the values of ``[start, end)``, as far as it is not in the past."""
        start = max(start, self.times[0])
        if end <= start:
            return
        first, last = self._border(start), self._border(end)
        self.values[first:last] = map(change, self.values[first:last])
        for index in (last, first):
            if index and self.values[index] == self.values[index - 1]:
                del self.times[index], self.values[index]

    def forget_before(self, now: int) -> None:
        """Drop steps before `now`, which are no longer needed."""
        past = bisect_right(self.times, now) - 1
        if past > 0:
            del self.times[:past], self.values[:past]
        self.times[0] = max(self.times[0], now)

    def _border(self, time: int) -> int:
        """Return the index of the step that begins at `time`; it is made if necessary."""
        index = bisect_left(self.times, time)
        if index == len(self.times) or self.times[index] != time:
            self.times.insert(index, time)
            self.values.insert(index, self.values[index - 1])
        return index
