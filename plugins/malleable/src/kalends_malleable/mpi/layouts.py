"""Positions of a rank's indices in its memory, and the messages between ranks. Pure.

A rank keeps its ranges of the distributed axis one after the other. At most one message goes from each rank
to each other, with everything that moves between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from kalends_malleable.distributions import Distribution, Range, Transfer, moves, owners

Pieces = dict[int, list[Range]]
"""Ranges of a rank's own memory that go to, or come from, each rank, in the order of the indices."""


@dataclass(frozen=True)
class Layout:
    """One axis of `length` indices over `ranks` ranks."""

    length: int
    distribution: Distribution
    ranks: int

    def of(self, rank: int) -> RankLayout:
        return RankLayout(self, rank)

    def wanted_edges(self, rank: int, width: int) -> tuple[Range, Range]:
        """Return the `width` indices before and after those of a rank that has one range."""
        ((start, end),) = self.distribution.ranges(self.length, self.ranks, rank)
        return (max(start - width, 0), start), (end, min(end + width, self.length))


@dataclass(frozen=True)
class RankLayout:
    """The part of one rank."""

    layout: Layout
    rank: int

    @cached_property
    def ranges(self) -> list[Range]:
        return self.layout.distribution.ranges(self.layout.length, self.layout.ranks, self.rank)

    @cached_property
    def indices(self) -> int:
        """The number of the rank's indices."""
        return sum(end - start for start, end in self.ranges)

    def places(self) -> Iterator[tuple[Range, Range]]:
        """Yield each range, and its position in the rank's memory."""
        place = 0
        for start, end in self.ranges:
            yield (start, end), (place, place + end - start)
            place += end - start

    def place(self, wanted: Range) -> Range:
        """Return the position in the rank's memory of a range inside one of its ranges."""
        number = bisect_right(self._starts, wanted[0]) - 1
        offset = self._offsets[number] - self._starts[number]
        return wanted[0] + offset, wanted[1] + offset

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self.ranges]

    @cached_property
    def _offsets(self) -> list[int]:
        return [place for _, (place, _) in self.places()]


def sent(old: Layout, new: Layout, rank: int) -> Pieces:
    """Return the ranges that rank `rank` of the old layout sends to each rank of the new one."""
    own, found = old.of(rank), Pieces()
    for source, target, start, end in _moves(old, new):
        if source == rank:
            found.setdefault(target, []).append(own.place((start, end)))
    return found


def received(old: Layout, new: Layout, rank: int) -> Pieces:
    """Return the ranges that rank `rank` of the new layout gets from each rank of the old one."""
    own, found = new.of(rank), Pieces()
    for source, target, start, end in _moves(old, new):
        if target == rank:
            found.setdefault(source, []).append(own.place((start, end)))
    return found


@lru_cache(maxsize=256)
def edges_sent(layout: Layout, rank: int, width: int) -> Pieces:
    """Return the ranges that `rank` sends to others for their edges; for edges before it first."""
    own, found = layout.of(rank), Pieces()
    for other in range(layout.ranks):
        for wanted in layout.wanted_edges(other, width):
            for owner, part in owners(layout.length, layout.distribution, layout.ranks, wanted):
                if owner == rank:
                    found.setdefault(other, []).append(own.place(part))
    return found


@lru_cache(maxsize=256)
def edges_received(layout: Layout, rank: int, width: int) -> Pieces:
    """Return the ranges that `rank` gets for its edges: positions in one array, those before it first."""
    (first, start), (end, _) = layout.wanted_edges(rank, width)
    found = Pieces()
    for wanted, gap in zip(layout.wanted_edges(rank, width), (0, end - start), strict=True):
        for owner, part in owners(layout.length, layout.distribution, layout.ranks, wanted):
            place = (part[0] - first - gap, part[1] - first - gap)
            found.setdefault(owner, []).append(place)
    return found


def _moves(old: Layout, new: Layout) -> list[Transfer]:
    return moves(old.length, old.distribution, old.ranks, new.distribution, new.ranks)
