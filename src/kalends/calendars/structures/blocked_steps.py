"""A step function of time, its points in blocks: changed anywhere, and cheap to copy."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from kalends.calendars.profiles import Step
from kalends.calendars.structures.blocks import NEVER, Block


class BlockedSteps:
    """A number from 0 to `top` for every time; `top` before the first change and after the last.

    - Points are canonical: neighbouring values differ, across blocks too, so equal functions have
      equal points. The very first, at -`NEVER`, has the value `top`, and so has the last.
    - A block holds at most ``2 * BLOCK_POINTS``, and two neighbours together more than half of
      `BLOCK_POINTS`. Block number k begins at ``_firsts[k]``; ``_pending[k]`` is to be added to
      each of its values.
    - A block belongs to one function, its `owner`, or is shared by copies and not changed.

    n points, B per block: changes and `least` O(log n + B + blocks between), `copy` O(n/B). Not
    thread-safe.
    """

    BLOCK_POINTS = 4_096

    def __init__(self, top: int) -> None:
        self.top = top
        self._owner = object()
        self._firsts = [-NEVER]
        self._blocks = [Block(self._owner, array("q", [-NEVER]), array("q", [top]))]
        self._pending = [0]

    def copy(self) -> Self:
        """Return an independent one; both share the blocks until they change them."""
        twin = type(self)(self.top)
        self._owner = object()
        twin._firsts = self._firsts.copy()
        twin._blocks = self._blocks.copy()
        twin._pending = self._pending.copy()
        return twin

    def least(self, start: int, end: int) -> int:
        """Return the smallest value over ``[start, end)``."""
        first, at = self._find(start)
        if first + 1 == len(self._firsts) or end <= self._firsts[first + 1]:
            block = self._blocks[first]
            last = bisect_left(block.times, end, at + 1)
            return block.least_of(at, last) + self._pending[first]
        block = self._blocks[first]
        least = block.least_of(at, len(block.times)) + self._pending[first]
        stop = bisect_left(self._firsts, end) - 1
        for number in range(first + 1, stop):
            least = min(least, self._blocks[number].least + self._pending[number])
        block = self._blocks[stop]
        return min(least, block.least_of(0, bisect_left(block.times, end)) + self._pending[stop])

    def walk(self, start: int, end: int) -> Iterator[Step]:
        """Yield the steps of ``[start, end)``; it must not change meanwhile."""
        number, first = self._find(start)
        at, value = start, self._blocks[number].values[first] + self._pending[number]
        first += 1
        while number < len(self._blocks):
            block, pending = self._blocks[number], self._pending[number]
            for index in range(first, len(block.times)):
                time_s = block.times[index]
                if time_s >= end:
                    yield at, end, value
                    return
                yield at, time_s, value
                at, value = time_s, block.values[index] + pending
            number, first = number + 1, 0
        yield at, end, value

    def take(self, start: int, end: int, amount: int) -> int:
        """Return the smallest value over ``[start, end)``.

        When it is at least `amount`, that is subtracted.
        """
        number, at = self._find(start)
        if not self._has_end(number, end):
            least = self.least(start, end)
            if least >= amount:
                self._add_across(start, end, -amount)
            return least
        block = self._blocks[number]
        last = bisect_left(block.times, end, at + 1)
        least = block.least_of(at, last) + self._pending[number]
        if least >= amount:
            self._add_within(number, at, last, start, end, -amount)
        return least

    def add(self, start: int, end: int, amount: int) -> None:
        """Add `amount` (not 0) over ``[start, end)``; the caller sees to it that 0..`top` is kept."""
        number, at = self._find(start)
        if self._has_end(number, end):
            last = bisect_left(self._blocks[number].times, end, at + 1)
            self._add_within(number, at, last, start, end, amount)
        else:
            self._add_across(start, end, amount)

    def add_all(
        self, starts: NDArray[np.int64], ends: NDArray[np.int64], amounts: NDArray[np.int64]
    ) -> bool:
        """Add all of them, or none if a value would fall below 0. O(n log n)."""
        old_times, old_values = self._points()
        times = np.concatenate((old_times, starts, ends))
        jumps = np.concatenate((np.diff(old_values, prepend=0), amounts, -amounts))
        order = times.argsort(kind="stable")
        times, values = times[order], jumps[order].cumsum()
        settled = np.append(times[1:] != times[:-1], True)
        times, values = times[settled], values[settled]
        if values.min() < 0:
            return False
        differs = np.append(True, values[1:] != values[:-1])
        self._set_points(times[differs], values[differs])
        return True

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours. O(n)."""
        assert len(self._blocks) == len(self._firsts) == len(self._pending) > 0
        times, values = self._points()
        assert times[0] == -NEVER
        assert values[0] == values[-1] == self.top
        assert (times[1:] > times[:-1]).all()
        assert (values[1:] != values[:-1]).all()
        assert values.min() >= 0
        assert values.max() <= self.top
        for number, block in enumerate(self._blocks):
            assert self._firsts[number] == block.times[0], number
            assert len(block.times) <= 2 * self.BLOCK_POINTS, number
        for left, right in pairwise(self._blocks):
            assert len(left.times) + len(right.times) > self.BLOCK_POINTS // 2

    def _changed(self, number: int) -> None:
        """Note that values of block `number` change."""

    def _renumbered(self, number: int) -> None:
        """Note that blocks from `number` on are replaced."""

    def _find(self, time_s: int) -> tuple[int, int]:
        """Return the block, and the point in it, that is in force at `time_s`."""
        number = bisect_right(self._firsts, time_s) - 1
        if number < 0:
            return 0, 0
        return number, bisect_right(self._blocks[number].times, time_s) - 1

    def _has_end(self, number: int, end: int) -> bool:
        """Return whether `end` lies in block `number`, after its begin and before the next block's."""
        return number + 1 == len(self._firsts) or end < self._firsts[number + 1]

    def _add_within(
        self, number: int, at: int, last: int, start: int, end: int, amount: int
    ) -> None:
        """Add where points ``[at, last)`` of one block are in force over ``[start, end)``."""
        if at == 0:
            # The first point may go, and the one before it counts.
            self._add_across(start, end, amount)
            return
        block = self._writable(number)
        times, values = block.times, block.values
        if last == len(times) or times[last] != end:
            times.insert(last, end)
            values.insert(last, values[last - 1])
        elif values[last] == values[last - 1] + amount:
            del times[last], values[last]
        if times[at] != start:
            at += 1
            last += 1
            times.insert(at, start)
            values.insert(at, values[at - 1])
        elif values[at] + amount == values[at - 1]:
            del times[at], values[at]
            last -= 1
        if at < last:
            block.add(at, last, amount)
        if not self.BLOCK_POINTS // 2 < len(times) <= 2 * self.BLOCK_POINTS:
            self._resize(number)

    def _add_across(self, start: int, end: int, amount: int) -> None:
        """Add over any number of blocks."""
        ending, _ = self._turn(end, -amount)
        number, at = self._turn(start, amount)
        stop = bisect_left(self._firsts, end) - 1
        first = number
        while number <= stop:
            block = self._blocks[number]
            last = len(block.times) if number < stop else bisect_left(block.times, end)
            if at == 0 and last == len(block.times):
                self._pending[number] += amount
                self._changed(number)
            elif at < last:
                self._writable(number).add(at, last, amount)
            number, at = number + 1, 0
        if ending > stop:
            self._resize(stop + 1)
        self._resize(stop)
        if first < stop:
            self._resize(first)

    def _turn(self, time_s: int, jump: int) -> tuple[int, int]:
        """Return where the points from `time_s` on begin, after making room for a `jump` there.

        That is a point at `time_s`, or the one after it when the jump makes it needless. Values are
        left as they are.
        """
        number, at = self._find(time_s)
        block = self._writable(number)
        times, values = block.times, block.values
        if times[at] != time_s:
            times.insert(at + 1, time_s)
            values.insert(at + 1, values[at])
            return number, at + 1
        value = values[at] + self._pending[number]
        before = values[at - 1] if at else self._blocks[number - 1].values[-1]
        before += self._pending[number if at else number - 1]
        if value + jump == before:
            del times[at], values[at]
            if not times:
                self._replace(number, number + 1, [])
            elif at == 0:
                self._firsts[number] = times[0]
        return number, at

    def _writable(self, number: int) -> Block:
        """Return the block for a change: a copy of its own if shared, without cached findings."""
        block = self._blocks[number]
        if block.owner is self._owner:
            block.touch()
        else:
            block = self._blocks[number] = block.copy(self._owner)
        self._changed(number)
        return block

    def _resize(self, number: int) -> None:
        """Halve a block that is too large; join one that is too small to a neighbour."""
        if number == len(self._blocks):
            return
        size = len(self._blocks[number].times)
        if size > 2 * self.BLOCK_POINTS:
            self._replace(number, number + 1, [size // 2, size - size // 2])
        if size > self.BLOCK_POINTS // 2:
            return
        for left in (number, number - 1):
            if 0 <= left < len(self._blocks) - 1:
                size = sum(len(block.times) for block in self._blocks[left : left + 2])
                if size <= self.BLOCK_POINTS // 2:
                    self._replace(left, left + 2, [size])
                    self._resize(left)
                    return

    def _replace(self, first: int, last: int, sizes: list[int]) -> None:
        """Replace blocks ``[first, last)`` by blocks of these sizes, with the same points."""
        times, values = array("q"), array("q")
        for number in range(first, last):
            block = self._blocks[number]
            times += block.times
            values += array("q", (value + self._pending[number] for value in block.values))
        new: list[Block] = []
        at = 0
        for size in sizes:
            new.append(Block(self._owner, times[at : at + size], values[at : at + size]))
            at += size
        self._blocks[first:last] = new
        self._firsts[first:last] = [block.times[0] for block in new]
        self._pending[first:last] = [0] * len(new)
        self._renumbered(first)

    def _points(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all times, and the true values from each of them on."""
        sizes = [len(block.times) for block in self._blocks]
        times = np.concatenate([np.array(block.times) for block in self._blocks])
        values = np.concatenate([np.array(block.values) for block in self._blocks])
        return times, values + np.repeat(self._pending, sizes)

    def _set_points(self, times: NDArray[np.int64], values: NDArray[np.int64]) -> None:
        size = self.BLOCK_POINTS + self.BLOCK_POINTS // 2
        self._blocks = [
            Block(
                self._owner,
                array("q", times[at : at + size].tobytes()),
                array("q", values[at : at + size].tobytes()),
            )
            for at in range(0, len(times), size)
        ]
        self._firsts = [block.times[0] for block in self._blocks]
        self._pending = [0] * len(self._blocks)
        self._renumbered(0)
