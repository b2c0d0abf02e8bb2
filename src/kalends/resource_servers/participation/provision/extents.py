"""Extents: named nodes for a time, as a batch system reserves them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Extent(NamedTuple):
    """`nodes`, sorted by name, during ``[start, end)``."""

    start: int
    end: int
    nodes: tuple[str, ...]

    def meets(self, start: int, end: int) -> bool:
        """Whether any of its time lies in ``[start, end)``."""
        return self.start < end and start < self.end


def envelope(extents: Iterable[Extent]) -> Extent:
    """Return the smallest extent with all of `extents` in it: a reservation cannot have another shape."""
    every = list(extents)
    return Extent(
        min(each.start for each in every),
        max(each.end for each in every),
        tuple(sorted({node for each in every for node in each.nodes})),
    )
