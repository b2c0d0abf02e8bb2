"""Containers that are cheap to copy: what neither of the two copies changes stays shared.

Each keeps its entries in blocks, and a mark on every block that a copy may also see. A marked block
is copied before its first change; so a copy costs a list of blocks, and the first change after it
one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

BUCKET_ENTRIES_MAX: Final = 512
"""On average in a bucket of a table: a copy of one takes microseconds, and a million need 2,048."""

Value = TypeVar("Value")


class SharedTable(Generic[Value]):
    """A dict with whole numbers as keys, in buckets by the low bits of the key.

    Look-ups and changes O(1); the first change of a bucket after a copy O(`BUCKET_ENTRIES_MAX`);
    `copy` O(number of buckets).
    """

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
        """In no particular order."""
        return (value for bucket in self._buckets for value in bucket.values())

    def items(self) -> Iterator[tuple[int, Value]]:
        """In no particular order."""
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
            if self._count > BUCKET_ENTRIES_MAX * len(self._buckets):
                self._grow()

    def __delitem__(self, key: int) -> None:
        """Raises `KeyError`, and changes nothing, when there is no such key."""
        number = key & self._mask
        if self._shared[number]:
            self._unshare(number)
        del self._buckets[number][key]
        self._count -= 1

    def update(self, items: Iterable[tuple[int, Value]]) -> None:
        for key, value in items:
            self[key] = value

    def copy(self) -> SharedTable[Value]:
        twin: SharedTable[Value] = SharedTable()
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
        """Twice the buckets; none of the new ones is shared."""
        items = list(self.items())
        count = 2 * len(self._buckets)
        self._buckets = [{} for _ in range(count)]
        self._shared = bytearray(count)
        self._mask = count - 1
        for key, value in items:
            self._buckets[key & self._mask][key] = value
