"""Slow and obvious machines: every place for a partition found by looking at every set of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from math import prod
from typing import NamedTuple


class Place(NamedTuple):
    nodes: frozenset[int]
    sides: tuple[int, ...]


class Twin:
    """All places of one machine, and the blocks of nodes that can only be had together."""

    def __init__(self, places: Iterable[Place], units: list[frozenset[int]]) -> None:
        self.places = list(places)
        self.units = units
        self.nodes = sum(len(unit) for unit in units)

    def serving(self, nodes: int, shape: tuple[int, ...] = ()) -> list[Place]:
        """The places for a request: as small as any that can serve it."""
        serving = [
            place
            for place in self.places
            if nodes >= 1 and len(place.nodes) >= nodes and self._holds(place, nodes, shape)
        ]
        fewest = min((len(place.nodes) for place in serving), default=0)
        return [place for place in serving if len(place.nodes) == fewest]

    def granted(self, nodes: int, shape: tuple[int, ...] = ()) -> int:
        return max((len(place.nodes) for place in self.serving(nodes, shape)), default=0)

    def free(self, busy: frozenset[int], nodes: int, shape: tuple[int, ...] = ()) -> list[Place]:
        """Where a request can go now: the places nearest to a cube."""
        free = [place for place in self.serving(nodes, shape) if not place.nodes & busy]
        shortest = min((sum(place.sides) for place in free), default=0)
        return [place for place in free if sum(place.sides) == shortest]

    def broken(self, out: Iterable[int]) -> frozenset[int]:
        """All nodes that cannot be had while those of `out` cannot."""
        gone = set(out)
        return frozenset().union(*(unit for unit in self.units if unit & gone))

    def _holds(self, place: Place, nodes: int, shape: tuple[int, ...]) -> bool:
        if not shape:
            return True
        if len(shape) != len(place.sides) or min(shape) < 1 or prod(shape) < nodes:
            return False
        return all(
            side >= wanted for side, wanted in zip(sorted(place.sides), sorted(shape), strict=True)
        )


def pool(nodes: int) -> Twin:
    places = (
        Place(frozenset(chosen), ())
        for count in range(1, nodes + 1)
        for chosen in combinations(range(nodes), count)
    )
    return Twin(places, [frozenset({node}) for node in range(nodes)])


def mesh(width: int, height: int, unit: tuple[int, int], io: str) -> Twin:
    by_x, by_y = unit
    columns, rows = width // by_x, height // by_y

    def block(x: int, y: int) -> frozenset[int]:
        return frozenset(
            (y * by_y + dy) * width + x * by_x + dx for dx in range(by_x) for dy in range(by_y)
        )

    def linked(x: int, y: int) -> bool:
        border = x == 0 or y == 0 or x == columns - 1 or y == rows - 1
        return io == "all" or border or (io == "inner" and x % 2 == 1 and y % 2 == 1)

    def places() -> Iterator[Place]:
        for left, top in product(range(columns), range(rows)):
            for right, bottom in product(range(left, columns), range(top, rows)):
                inside = list(product(range(left, right + 1), range(top, bottom + 1)))
                if any(linked(*at) for at in inside):
                    nodes = frozenset().union(*(block(*at) for at in inside))
                    yield Place(nodes, ((right - left + 1) * by_x, (bottom - top + 1) * by_y))

    return Twin(places(), [block(x, y) for y in range(rows) for x in range(columns)])


def hypercube(dimensions: int) -> Twin:
    everywhere = range(2**dimensions)

    def places() -> Iterator[Place]:
        # Every subcube keeps some bits of the number fixed, and has all values of the others.
        for pattern in product((0, 1, None), repeat=dimensions):
            nodes = frozenset(
                node
                for node in everywhere
                if all(bit in (None, node >> at & 1) for at, bit in enumerate(pattern))
            )
            yield Place(nodes, tuple(2 if bit is None else 1 for bit in pattern))

    return Twin(places(), [frozenset({node}) for node in everywhere])


def torus(*sizes: int) -> Twin:
    def number(place: Iterable[int]) -> int:
        x, y, z = place
        return x + sizes[0] * (y + sizes[1] * z)

    def places() -> Iterator[Place]:
        seen = set()
        for corner in product(*map(range, sizes)):
            for sides in product(*(range(1, size + 1) for size in sizes)):
                nodes = frozenset(
                    number(
                        (at + step) % size
                        for at, step, size in zip(corner, steps, sizes, strict=True)
                    )
                    for steps in product(*map(range, sides))
                )
                if (nodes, sides) not in seen:
                    seen.add((nodes, sides))
                    yield Place(nodes, sides)

    return Twin(places(), [frozenset({node}) for node in range(prod(sizes))])


def mesh_contact(
    width: int, height: int, unit: tuple[int, int], place: Place, busy: frozenset[int]
) -> int:
    """How many sides of a place's units touch busy units or the edge of the mesh."""
    by_x, by_y = unit
    columns, rows = width // by_x, height // by_y
    inside = {(node % width // by_x, node // width // by_y) for node in place.nodes}
    taken = {(node % width // by_x, node // width // by_y) for node in busy}
    contact = 0
    for x, y in inside:
        for there in ((x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1)):
            beyond = not (0 <= there[0] < columns and 0 <= there[1] < rows)
            contact += beyond or (there not in inside and there in taken)
    return contact
