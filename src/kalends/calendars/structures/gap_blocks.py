"""Disjoint stretches of time that are taken, and the gaps between them, found by their length.

Stretches lie in order in blocks of up to `BLOCK_MAX`. Each stretch owns the gap before it, even
across the border of a block; the endless gap after the last one is nobody's. The largest gap of
each block, and of each `GROUP` blocks, tell a search for a long gap what it may skip.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import sub
from typing import Final

BLOCK_MAX: Final = 256
"""Stretches in a block: what an insertion moves, and what a search walks in the block it ends in."""

GROUP: Final = 64
"""Blocks whose largest gap is kept together: a million stretches are about a hundred groups."""

Stretch = tuple[int, int, int]
"""A taken stretch ``(start, end, key)``; the key tells the caller whose it is."""


class _Block:
    """Parallel lists; `owner` is the mark of the one structure that may change them in place."""

    __slots__ = ("ends", "gaps", "keys", "owner", "starts")

    def __init__(
        self, owner: object, starts: list[int], ends: list[int], gaps: list[int], keys: list[int]
    ) -> None:
        self.owner = owner
        self.starts = starts
        self.ends = ends
        self.gaps = gaps
        self.keys = keys

    def part(self, owner: object, first: int, stop: int | None) -> _Block:
        piece = slice(first, stop)
        return _Block(
            owner, self.starts[piece], self.ends[piece], self.gaps[piece], self.keys[piece]
        )


class GapBlocks:
    """A set of disjoint stretches that start at 0 or later; touching ones are disjoint.

    n: stretches, B: `BLOCK_MAX`. A copy shares every block until one of the two changes it.
    """

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        """O(n log n), O(n) for sorted stretches; raises `ValueError` if two of them overlap."""
        self._mark = object()
        self._blocks: list[_Block] = []
        self._firsts: list[int] = []
        self._largest: list[int] = []
        self._groups: list[int] = []
        self._count = 0
        ordered = sorted(stretches)
        if ordered:
            self._fill(ordered)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Stretch]:
        """Return all of them, in order; the structure must not change meanwhile."""
        return chain.from_iterable(
            zip(block.starts, block.ends, block.keys, strict=True) for block in self._blocks
        )

    def taken(self, start: int, end: int) -> bool:
        """Return whether some of ``[start, end)`` is taken. O(log n)."""
        # Ends are in the order of starts: only the last one that starts before `end` can reach in.
        number = bisect_left(self._firsts, end) - 1
        if number < 0:
            return False
        block = self._blocks[number]
        return block.ends[bisect_left(block.starts, end) - 1] > start

    def add(self, start: int, end: int, key: int) -> bool:
        """Take ``[start, end)``; False, and nothing has changed, when some of it is. O(log n + B)."""
        number = bisect_left(self._firsts, end) - 1
        index = before = 0
        if number >= 0:
            block = self._blocks[number]
            index = bisect_left(block.starts, end)
            before = block.ends[index - 1]
            if before > start:
                return False
            if index == len(block.starts) and number + 1 < len(self._blocks):
                # In front of the next block, so that only the block of the split gap changes.
                number, index = number + 1, 0
        elif self._blocks:
            number = 0
        else:
            self._blocks = [_Block(self._mark, [start], [end], [start], [key])]
            self._firsts, self._largest, self._groups = [start], [start], [start]
            self._count = 1
            return True
        block = self._own(number)
        block.starts.insert(index, start)
        block.ends.insert(index, end)
        block.keys.insert(index, key)
        block.gaps.insert(index, start - before)
        if index == 0:
            self._firsts[number] = start
        self._count += 1
        if index + 1 < len(block.starts):
            split = block.gaps[index + 1]
            block.gaps[index + 1] = block.starts[index + 1] - end
            if split == self._largest[number]:
                self._measure(number, max(block.gaps))
        elif start - before > self._largest[number]:
            self._measure(number, start - before)
        if len(block.starts) > BLOCK_MAX:
            middle = BLOCK_MAX // 2
            self._replace(
                number, 1, [block.part(self._mark, 0, middle), block.part(self._mark, middle, None)]
            )
        return True

    def remove(self, start: int) -> None:
        """Give back the stretch that starts at `start`; there must be one. O(log n + B)."""
        number = bisect_right(self._firsts, start) - 1
        block = self._own(number)
        index = bisect_left(block.starts, start)
        del block.starts[index], block.keys[index]
        gap = block.gaps.pop(index)
        joined = block.ends.pop(index) - start + gap
        self._count -= 1
        heir, heir_index = number, index
        if index == len(block.starts):
            heir, heir_index = number + 1, 0
            if block.starts and gap == self._largest[number]:
                self._measure(number, max(block.gaps))
        if heir < len(self._blocks):
            gaps = self._own(heir).gaps
            gaps[heir_index] += joined
            if gaps[heir_index] > self._largest[heir]:
                self._measure(heir, gaps[heir_index])
        if index == 0 and block.starts:
            self._firsts[number] = block.starts[0]
        if len(block.starts) < BLOCK_MAX // 4 or not block.starts:
            self._merge(number)

    def earliest(self, length_s: int, start: int) -> int:
        """Return the first time at or after `start` from which `length_s` are free.

        O(log n + B + n / (B * GROUP)).
        """
        number, index = self._locate(start)
        if number == len(self._blocks):
            return start
        block = self._blocks[number]
        if block.starts[index] - start >= length_s:
            return start
        if self._largest[number] < length_s or (found := _first(block, index + 1, length_s)) < 0:
            number = self._next_block(length_s, number + 1)
            if number == len(self._blocks):
                return self._blocks[-1].ends[-1]
            block = self._blocks[number]
            found = _first(block, 0, length_s)
        return block.starts[found] - block.gaps[found]

    def gaps(self, start: int, end: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the gaps that overlap ``[start, end)``, whole, in order and lazily.

        The first of all begins at 0, or at `start` when that is earlier; the last of all ends at
        `last`, or at `end` when that is later. O(log n + found).
        """
        number, index = self._locate(start)
        before = min(start, 0)
        if index:
            before = self._blocks[number].ends[index - 1]
        elif number:
            before = self._blocks[number - 1].ends[-1]
        for block in islice(self._blocks, number, None):
            for position in range(index, len(block.starts)):
                if before >= end:
                    return
                opens, before = before, block.ends[position]
                if opens < block.starts[position] > start:
                    yield opens, block.starts[position]
            index = 0
        if before < end:
            yield before, max(last, end)

    def keys(self, start: int, end: int) -> Iterator[int]:
        """Yield the keys of the stretches that overlap ``[start, end)``, in order and lazily."""
        number, index = self._locate(start)
        for block in islice(self._blocks, number, None):
            stop = bisect_left(block.starts, end)
            yield from islice(block.keys, index, stop)
            if stop < len(block.starts):
                return
            index = 0

    def copy(self) -> GapBlocks:
        """Return an independent structure of the same stretches. O(n / B)."""
        twin = GapBlocks()
        self._mark = object()
        twin._blocks = self._blocks.copy()
        twin._firsts = self._firsts.copy()
        twin._largest = self._largest.copy()
        twin._groups = self._groups.copy()
        twin._count = self._count
        return twin

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold. O(n)."""
        before = total = size_before = 0
        for number, block in enumerate(self._blocks):
            size = len(block.starts)
            assert 1 <= size <= BLOCK_MAX, number
            assert number == 0 or max(size, size_before) >= BLOCK_MAX // 4, number
            assert len(block.ends) == len(block.gaps) == len(block.keys) == size, number
            assert self._firsts[number] == block.starts[0], number
            assert self._largest[number] == max(block.gaps), number
            for start, end, gap in zip(block.starts, block.ends, block.gaps, strict=True):
                assert before <= start < end, (before, start, end)
                assert gap == start - before, (number, start)
                before = end
            total += size
            size_before = size
        assert total == self._count
        assert len(self._firsts) == len(self._largest) == len(self._blocks)
        assert self._groups == self._measured_from(0)

    def _fill(self, ordered: list[Stretch]) -> None:
        starts, ends, keys = map(list, zip(*ordered, strict=True))
        gaps = list(map(sub, starts, chain((0,), ends)))
        if min(gaps) < 0:
            raise ValueError("two stretches overlap")
        whole = _Block(self._mark, starts, ends, gaps, keys)
        size = BLOCK_MAX * 3 // 4  # Room to grow, before every block would split at once.
        blocks = [
            whole.part(self._mark, first, first + size) for first in range(0, len(starts), size)
        ]
        self._count = len(starts)
        self._replace(0, 0, blocks)

    def _locate(self, time_s: int) -> tuple[int, int]:
        """Return block and index of the first stretch that ends after `time_s`, or one block too far."""
        number = bisect_right(self._firsts, time_s) - 1
        if number < 0:
            return 0, 0
        ends = self._blocks[number].ends
        index = bisect_right(ends, time_s)
        return (number, index) if index < len(ends) else (number + 1, 0)

    def _next_block(self, length_s: int, number: int) -> int:
        """Return the first block from `number` on with a gap of `length_s`, or how many blocks there are."""
        largest = self._largest
        border = -(-number // GROUP) * GROUP
        for later, gap in enumerate(largest[number:border], number):
            if gap >= length_s:
                return later
        first = border // GROUP
        for group, gap in enumerate(islice(self._groups, first, None), first):
            if gap >= length_s:
                number = group * GROUP
                while largest[number] < length_s:
                    number += 1
                return number
        return len(largest)

    def _own(self, number: int) -> _Block:
        """Return the block, to be changed: a copy of its own first where others may share it."""
        block = self._blocks[number]
        if block.owner is not self._mark:
            block = self._blocks[number] = block.part(self._mark, 0, None)
        return block

    def _measure(self, number: int, largest: int) -> None:
        """Note the largest gap of a block."""
        old = self._largest[number]
        self._largest[number] = largest
        group = number // GROUP
        if largest >= self._groups[group]:
            self._groups[group] = largest
        elif old == self._groups[group]:
            self._groups[group] = max(self._largest[group * GROUP : (group + 1) * GROUP])

    def _merge(self, number: int) -> None:
        """Drop a small block, or make it one with a neighbour where half a block holds both."""
        blocks = self._blocks
        if not blocks[number].starts:
            self._replace(number, 1, [])
            return
        for left in (number, number - 1):
            if 0 <= left < len(blocks) - 1:
                one, other = blocks[left], blocks[left + 1]
                if len(one.starts) + len(other.starts) <= BLOCK_MAX // 2:
                    merged = _Block(
                        self._mark,
                        one.starts + other.starts,
                        one.ends + other.ends,
                        one.gaps + other.gaps,
                        one.keys + other.keys,
                    )
                    self._replace(left, 2, [merged])
                    return

    def _replace(self, number: int, count: int, blocks: list[_Block]) -> None:
        """Replace `count` blocks from `number` on by `blocks`."""
        piece = slice(number, number + count)
        self._blocks[piece] = blocks
        self._firsts[piece] = [block.starts[0] for block in blocks]
        self._largest[piece] = [max(block.gaps) for block in blocks]
        group = number // GROUP
        self._groups[group:] = self._measured_from(group)

    def _measured_from(self, group: int) -> list[int]:
        borders = range(group * GROUP, len(self._largest), GROUP)
        return [max(self._largest[border : border + GROUP]) for border in borders]


def _first(block: _Block, index: int, length_s: int) -> int:
    """Return the index of the block's first gap of `length_s` from `index` on; -1 for none."""
    for position, gap in enumerate(islice(block.gaps, index, None), index):
        if gap >= length_s:
            return position
    return -1
