"""Distributions of the indices of one axis over ranks, and the moves between them. Pure.

`Blocks` gives every rank one contiguous range, `Cyclic` deals out blocks of a width in turn. `moves` is a
complete redistribution; both backends and all their tests use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kalends.core.errors import InvalidInput

Range = tuple[int, int]
"""``(start, end)``: the indices from `start` on, before `end`."""


@dataclass(frozen=True)
class Blocks:
    """One contiguous range for each rank; their lengths differ by at most one."""

    axis: int = 0

    def ranges(self, length: int, ranks: int, rank: int) -> list[Range]:
        """Return the ranges of `rank`, in order; empty ones are left out."""
        start, end = length * rank // ranks, length * (rank + 1) // ranks
        return [(start, end)] if start < end else []

    def ranks_max(self, length: int) -> int:
        """Return the most ranks of which each gets an index."""
        return length


@dataclass(frozen=True)
class Cyclic:
    """Blocks of `width` indices, dealt out in turn; 1 is cyclic."""

    width: int = 1
    axis: int = 0

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width < 1:
            raise InvalidInput("a cyclic distribution deals out blocks of 1 index or more")

    def ranges(self, length: int, ranks: int, rank: int) -> list[Range]:
        """Return the ranges of `rank`, in order."""
        starts = range(rank * self.width, length, ranks * self.width)
        return [(start, min(start + self.width, length)) for start in starts]

    def ranks_max(self, length: int) -> int:
        """Return the most ranks of which each gets an index."""
        return -(-length // self.width)


Distribution = Blocks | Cyclic


class Transfer(NamedTuple):
    """The indices from `start` before `end` go from rank `source` of the old set to `target` of the new."""

    source: int
    target: int
    start: int
    end: int


def moves(
    length: int, old: Distribution, old_ranks: int, new: Distribution, new_ranks: int
) -> list[Transfer]:
    """Return the moves between ranks by index: every index of the axis exactly once.

    Indices that stay with their rank are included. Linear in the number of ranges.
    """
    found: list[Transfer] = []
    givers, takers = _owners(length, old, old_ranks), _owners(length, new, new_ranks)
    start, (given, source), (taken, target) = 0, next(givers), next(takers)
    while start < length:
        end = min(given, taken)
        found.append(Transfer(source, target, start, end))
        start = end
        if given == end:
            given, source = next(givers, (length, 0))
        if taken == end:
            taken, target = next(takers, (length, 0))
    return found


def owners(
    length: int, distribution: Distribution, ranks: int, wanted: Range
) -> list[tuple[int, Range]]:
    """Return which rank holds which part of the range `wanted`, in order."""
    found: list[tuple[int, Range]] = []
    start = 0
    for end, rank in _owners(length, distribution, ranks):
        first, last = max(start, wanted[0]), min(end, wanted[1])
        if first < last:
            found.append((rank, (first, last)))
        start = end
    return found


def _owners(length: int, distribution: Distribution, ranks: int) -> Iterator[tuple[int, int]]:
    """Yield the end of each range and the rank that has it; one range begins where the last one ends."""
    ranges = (
        (end, rank) for rank in range(ranks) for _, end in distribution.ranges(length, ranks, rank)
    )
    yield from sorted(ranges) or [(0, 0)]
