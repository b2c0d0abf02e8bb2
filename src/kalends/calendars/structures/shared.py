"""Containers that are cheap to copy: what neither of the two copies changes stays shared.

Each keeps its entries in blocks, and a mark on every block that a copy may also see. A marked block
is copied before its first change; so a copy costs a list of blocks, and the first change after it
one block.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator
from itertools import islice, pairwise
from typing import Generic, Self, TypeVar

Value = TypeVar("Value")
Entry = TypeVar("Entry", bound=tuple[int, ...])


class SharedTable(Generic[Value]):
    """A dict with whole numbers as keys, in buckets by the low bits of the key.

    Look-ups and changes O(1); the first change of a bucket after a copy O(`BUCKET_ENTRIES_MAX`);
    `copy` O(number of buckets).
    """

    BUCKET_ENTRIES_MAX = 512
    """The average size: a copy of one bucket takes microseconds; a million entries make 2,048."""

    def __init__(self) -> None:
        self._buckets: list[dict[int, Value]] = [{}]
        self._shared = bytearray(1)
        self._mask = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: int) -> bool:
        return key in self._buckets[key & self._mask]

    def __getitem__(self, key: int) -> Value:
        return self._buckets[key & self._mask][key]

    def get(self, key: int) -> Value | None:
        return self._buckets[key & self._mask].get(key)

    def values(self) -> Iterator[Value]:
        """Yield the values in no particular order."""
        return (value for bucket in self._buckets for value in bucket.values())

    def items(self) -> Iterator[tuple[int, Value]]:
        """Yield the items in no particular order."""
        return (item for bucket in self._buckets for item in bucket.items())

    def __setitem__(self, key: int, value: Value) -> None:
        number = key & self._mask
        if self._shared[number]:
            self._unshare(number)
        bucket = self._buckets[number]
        before = len(bucket)
        bucket[key] = value
        if len(bucket) != before:
            self._count += 1
            if self._count > self.BUCKET_ENTRIES_MAX * len(self._buckets):
                self._grow()

    def __delitem__(self, key: int) -> None:
        """Raises `KeyError`, and changes nothing, when there is no such key."""
        number = key & self._mask
        if self._shared[number]:
            self._unshare(number)
        del self._buckets[number][key]
        self._count -= 1

    def update(self, items: Collection[tuple[int, Value]]) -> None:
        """Set all of them. O(items + number of buckets)."""
        while self._count + len(items) > self.BUCKET_ENTRIES_MAX * len(self._buckets):
            self._grow()
        buckets, shared, mask = self._buckets, self._shared, self._mask
        for key, value in items:
            if shared[key & mask]:
                self._unshare(key & mask)
            buckets[key & mask][key] = value
        self._count = sum(map(len, buckets))

    def copy(self) -> Self:
        twin = type(self)()
        twin._buckets = self._buckets.copy()
        twin._mask, twin._count = self._mask, self._count
        self._shared = bytearray(b"\1" * len(self._buckets))
        twin._shared = self._shared.copy()
        return twin

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours."""
        assert len(self._buckets) == len(self._shared) == self._mask + 1
        assert self._count == sum(map(len, self._buckets))
        for number, bucket in enumerate(self._buckets):
            assert all(key & self._mask == number for key in bucket), number

    def _unshare(self, number: int) -> None:
        self._buckets[number] = self._buckets[number].copy()
        self._shared[number] = 0

    def _grow(self) -> None:
        """Double the buckets; none of the new ones is shared."""
        items = list(self.items())
        count = 2 * len(self._buckets)
        self._buckets = [{} for _ in range(count)]
        self._shared = bytearray(count)
        self._mask = count - 1
        for key, value in items:
            self._buckets[key & self._mask][key] = value


class SharedSortedList(Generic[Entry]):
    """Different tuples of whole numbers in order, in blocks of 1 to `BLOCK_ENTRIES_MAX`.

    `add` and `remove` O(log n + `BLOCK_ENTRIES_MAX`), `copy` O(number of blocks).
    """

    BLOCK_ENTRIES_MAX = 1_024

    def __init__(self) -> None:
        self._blocks: list[list[Entry]] = []
        self._firsts: list[Entry] = []
        self._shared = bytearray()

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __iter__(self) -> Iterator[Entry]:
        return (entry for block in self._blocks for entry in block)

    def between(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Entry]:
        """Yield the entries from `low` on that are before `high`. Lazy: it must not change meanwhile."""
        number = max(bisect_right(self._firsts, low) - 1, 0)
        for block in islice(self._blocks, number, None):
            for index in range(bisect_left(block, low), len(block)):
                if block[index] >= high:
                    return
                yield block[index]

    def add(self, entry: Entry) -> None:
        """Add an entry that is not in it."""
        number = max(bisect_right(self._firsts, entry) - 1, 0)
        if not self._blocks:
            self._put(0, 0, [entry])
            return
        block = self._own(number)
        insort(block, entry)
        self._firsts[number] = block[0]
        if len(block) > self.BLOCK_ENTRIES_MAX:
            self._put(number, number + 1, block)

    def remove(self, entry: Entry) -> None:
        """Remove an entry that is in it."""
        number = bisect_right(self._firsts, entry) - 1
        block = self._own(number)
        del block[bisect_left(block, entry)]
        if block:
            self._firsts[number] = block[0]
        else:
            self._put(number, number + 1, [])

    def update(self, entries: list[Entry]) -> None:
        """Add all of them; if they are many, in O((n + m) log m) altogether."""
        if len(entries) * 8 < len(self._blocks) * self.BLOCK_ENTRIES_MAX:
            for entry in entries:
                self.add(entry)
        else:
            self._put(0, len(self._blocks), sorted([*self, *entries]))

    def copy(self) -> Self:
        twin = type(self)()
        twin._blocks, twin._firsts = self._blocks.copy(), self._firsts.copy()
        self._shared = bytearray(b"\1" * len(self._blocks))
        twin._shared = self._shared.copy()
        return twin

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours."""
        assert len(self._blocks) == len(self._firsts) == len(self._shared)
        for number, block in enumerate(self._blocks):
            assert 1 <= len(block) <= self.BLOCK_ENTRIES_MAX, number
            assert block[0] == self._firsts[number], number
        entries = list(self)
        assert all(left < right for left, right in pairwise(entries))

    def _own(self, number: int) -> list[Entry]:
        if self._shared[number]:
            self._blocks[number] = self._blocks[number].copy()
            self._shared[number] = 0
        return self._blocks[number]

    def _put(self, first: int, last: int, entries: list[Entry]) -> None:
        """Replace blocks ``[first, last)`` by blocks of these entries."""
        half = self.BLOCK_ENTRIES_MAX // 2
        blocks = [entries[at : at + half] for at in range(0, len(entries), half)]
        self._blocks[first:last] = blocks
        self._firsts[first:last] = [block[0] for block in blocks]
        self._shared[first:last] = bytes(len(blocks))
