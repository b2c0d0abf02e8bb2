"""Extents: room for a time, as a batch system reserves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Extent(NamedTuple):
    """`nodes`, sorted by name, during ``[start, end)``: one for each unit.

    Where a unit is a core, its node stands there once for each of them, and so does a licence.
    """

    start: int
    end: int
    nodes: tuple[str, ...]

    def meets(self, start: int, end: int) -> bool:
        """Whether any of its time lies in ``[start, end)``."""
        return self.start < end and start < self.end


def envelope(extents: Iterable[Extent]) -> Extent:
    """Return the smallest extent with all of `extents` in it: a reservation cannot have another shape."""
    every = list(extents)
    most: Counter[str] = Counter()
    for each in every:
        most |= Counter(each.nodes)
    return Extent(
        min(each.start for each in every), max(each.end for each in every), in_order(most)
    )


def in_order(units: Counter[str]) -> tuple[str, ...]:
    """Return so many of each node, as an extent has them."""
    return tuple(sorted(units.elements()))
