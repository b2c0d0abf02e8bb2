"""A sorted column of keys with a value each, changed key by key and settled when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

NUMBER_BITS: Final = 28
"""A key is a time and a calendar's number in 63 bits: times need 35 of them."""

GONE: Final = -1
"""The pending value of a key that is no longer there; true values are never negative."""


class Column:
    """A map of sorted distinct `keys` to `values`; changes wait until the column is read.

    What is pending is the truth for its keys, whatever the arrays say, so that a change costs one
    entry in a dict and any number of them are settled in one pass.
    """

    __slots__ = ("_keys", "_pending", "_values")

    def __init__(self, keys: Numbers, values: Numbers) -> None:
        self._keys = keys
        self._values = values
        self._pending: dict[int, int] = {}

    def size_max(self) -> int:
        """Return a bound close to the number of keys. O(1) amortised over the changes."""
        if 2 * len(self._pending) > len(self._keys):
            self._settle()
        return len(self._keys) + len(self._pending)

    def put(self, keys: Iterable[int], values: Iterable[int]) -> None:
        """Give each of `keys` its value, or take it out with `GONE`; of a key twice, the last counts."""
        self._pending.update(zip(keys, values, strict=True))

    def read(self) -> tuple[Numbers, Numbers]:
        """Return all keys in order and their values; both are to be left unchanged."""
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
        there = values != GONE
        self._values[at[known & there]] = values[known & there]
        gone, new = at[known & ~there], there & ~known
        if len(gone):
            kept = np.ones(len(self._keys), np.bool_)
            kept[gone] = False
            self._keys, self._values = self._keys[kept], self._values[kept]
        if new.any():
            changed, values = changed[new], values[new]
            at = self._keys.searchsorted(changed) + np.arange(len(changed))
            old = np.ones(len(self._keys) + len(changed), np.bool_)
            old[at] = False
            self._keys = _merged(self._keys, changed, old)
            self._values = _merged(self._values, values, old)
        self._pending = {}


def columns_between(keys: Numbers, values: Numbers, times: Numbers) -> list[Column]:
    """Return a column for each stretch between two `times`; copies, or one change would keep all alive."""
    borders = [*keys.searchsorted(times << NUMBER_BITS).tolist(), len(keys)]
    return [
        Column(keys[low:high].copy(), values[low:high].copy()) for low, high in pairwise(borders)
    ]


def hand_out(columns: Sequence[Column], places: Numbers, keys: Numbers, values: Numbers) -> None:
    """Put each key into the column at its place; of a key given twice there, the last counts."""
    order = places.argsort(kind="stable")
    places = places[order]
    first = np.concatenate(([0], np.diff(places).nonzero()[0] + 1))
    borders = pairwise((*first.tolist(), len(places)))
    key_list, value_list = keys[order].tolist(), values[order].tolist()
    for place, (low, high) in zip(places[first].tolist(), borders, strict=True):
        columns[place].put(key_list[low:high], value_list[low:high])


def _merged(column: Numbers, new: Numbers, old: NDArray[np.bool_]) -> Numbers:
    """Return `column` where `old` is true, `new` elsewhere."""
    merged = np.empty(len(old), np.int64)
    merged[old] = column
    merged[~old] = new
    return merged
