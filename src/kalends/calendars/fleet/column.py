"""A sorted column of keys with a value each, changed key by key and settled when it is read."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

GONE: Final = -1
"""The pending value of a key that is no longer there; true values are never negative."""

PENDING_MAX: Final = 4_096
"""Changes that may wait: beyond, one pass over the column costs less than remembering them."""


class Column:
    """Sorted distinct `keys` and their `values`; a change waits until the column is read.

    What is pending is the truth for its keys, whatever the arrays say, so that a change costs one
    entry in a dict and any number of them are settled in one pass.
    """

    __slots__ = ("_keys", "_pending", "_values")

    def __init__(self, keys: Numbers, values: Numbers) -> None:
        self._keys = keys
        self._values = values
        self._pending: dict[int, int] = {}

    @property
    def size_max(self) -> int:
        """At least the number of keys; exact after `read`."""
        return len(self._keys) + len(self._pending)

    def put(self, key: int, value: int) -> None:
        """Give `key` this value, or take it out with `GONE`. O(1) amortised."""
        self._pending[key] = value
        if len(self._pending) > PENDING_MAX:
            self._settle()

    def read(self) -> tuple[Numbers, Numbers]:
        """All keys in order and their values; both are to be left unchanged."""
        if self._pending:
            self._settle()
        return self._keys, self._values

    def split(self, key: int) -> Column:
        """Keep the keys below `key`; the others are moved to the column returned."""
        keys, values = self.read()
        at = int(keys.searchsorted(key))
        self._keys, self._values = keys[:at].copy(), values[:at].copy()
        return Column(keys[at:].copy(), values[at:].copy())

    def join(self, later: Column) -> None:
        """Take in all of `later`, whose keys are all greater."""
        pairs = zip(self.read(), later.read(), strict=True)
        self._keys, self._values = (np.concatenate(pair) for pair in pairs)

    def _settle(self) -> None:
        count = len(self._pending)
        changed = np.fromiter(self._pending.keys(), np.int64, count)
        values = np.fromiter(self._pending.values(), np.int64, count)
        order = changed.argsort()
        changed, values = changed[order], values[order]
        at = self._keys.searchsorted(changed)
        known = self._keys.searchsorted(changed, "right") > at
        kept = np.ones(len(self._keys), np.bool_)
        kept[at[known]] = False
        there = values != GONE
        keys = self._keys[kept]
        at = keys.searchsorted(changed[there])
        self._keys = np.insert(keys, at, changed[there])
        self._values = np.insert(self._values[kept], at, values[there])
        self._pending = {}
