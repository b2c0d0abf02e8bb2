"""Topologies whose partitions are boxes: rectangles of a mesh, subcubes, boxes of a torus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

from kalends.machines.enumerated import EnumeratedTopology


class BoxTopology(EnumeratedTopology):
    """A grid of `sizes` units, each a block of `unit_shape` nodes; `wraps` joins opposite edges.

    A request gets a box with the fewest units. Among those the most compact is preferred (of boxes of
    one size, the one nearest to a cube has the smallest sum of sides), and all its orientations are tried.
    A requested shape is rounded up to whole units, in any orientation. Numbers of units and of nodes run
    along the first dimension first.
    """

    def __init__(
        self,
        spec: str,
        sizes: Sequence[int],
        *,
        unit_shape: Sequence[int] = (),
        wraps: bool = False,
        first_fit: bool = False,
    ) -> None:
        self.sizes = tuple(sizes)
        self.unit_shape = tuple(unit_shape) or (1,) * len(self.sizes)
        self.wraps = wraps
        self.shape = _times(self.sizes, self.unit_shape)
        self._strides = [prod(self.sizes[:number]) for number in range(len(self.sizes))]
        super().__init__(spec, prod(self.sizes), prod(self.unit_shape), first_fit=first_fit)
        self._boxes = list(product(*(range(size, 0, -1) for size in self.sizes)))

    def extents(self, nodes: int, shape: tuple[int, ...]) -> Iterable[Sequence[tuple[int, ...]]]:
        serving = [box for box in self._boxes if self._serves(box, nodes, shape)]
        fewest = min(map(prod, serving), default=0)
        groups: dict[int, list[tuple[int, ...]]] = {}
        for box in serving:
            if prod(box) == fewest:
                groups.setdefault(sum(_times(box, self.unit_shape)), []).append(box)
        return [groups[length] for length in sorted(groups)]

    def sites(
        self, extent: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], list[int]]]:
        shape = _times(extent, self.unit_shape)
        for corner in self._corners(extent):
            lines = [
                [(at + step) % size * stride for step in range(length)]
                for at, length, size, stride in zip(
                    corner, extent, self.sizes, self._strides, strict=True
                )
            ]
            units = list(map(sum, product(*lines)))
            if self.allowed(units):
                yield _times(corner, self.unit_shape), shape, units

    def allowed(self, units: Sequence[int]) -> bool:
        """Return whether the hardware can make a partition of this box."""
        return True

    def links(self, unit: int) -> Iterator[int]:
        place = self._place(unit)
        for dimension, size in enumerate(self.sizes):
            for step in (-1, 1):
                at = place[dimension] + step
                if self.wraps or 0 <= at < size:
                    there = self._number((*place[:dimension], at, *place[dimension + 1 :]))
                    if there != unit:
                        yield there

    def nodes_of(self, unit: int) -> Sequence[int]:
        corner = _times(self._place(unit), self.unit_shape)
        return [
            _flat([at + by for at, by in zip(corner, step, strict=True)], self.shape)
            for step in _steps(self.unit_shape)
        ]

    def unit_of(self, node: int) -> int:
        place = _unflat(node, self.shape)
        return self._number([at // by for at, by in zip(place, self.unit_shape, strict=True)])

    def _serves(self, box: tuple[int, ...], nodes: int, shape: tuple[int, ...]) -> bool:
        """Return whether a box has enough nodes, and contains the shape in some orientation."""
        if nodes < 1 or prod(box) * self.unit_nodes < nodes:
            return False
        if not shape:
            return True
        if len(shape) != len(box) or min(shape) < 1 or prod(shape) < nodes:
            return False
        sides = sorted(_times(box, self.unit_shape))
        return all(side >= length for side, length in zip(sides, sorted(shape), strict=True))

    def _corners(self, extent: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        starts = [
            range(size if self.wraps and length < size else size - length + 1)
            for length, size in zip(extent, self.sizes, strict=True)
        ]
        for backwards in product(*reversed(starts)):
            yield backwards[::-1]

    def _place(self, unit: int) -> tuple[int, ...]:
        return _unflat(unit, self.sizes)

    def _number(self, place: Sequence[int]) -> int:
        return _flat([at % size for at, size in zip(place, self.sizes, strict=True)], self.sizes)


def _times(extent: Sequence[int], by: Sequence[int]) -> tuple[int, ...]:
    return tuple(length * factor for length, factor in zip(extent, by, strict=True))


def _steps(extent: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return all places of a box, by its lowest corner."""
    return product(*(range(length) for length in extent))


def _flat(place: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for at, size in zip(reversed(place), reversed(sizes), strict=True):
        number = number * size + at
    return number


def _unflat(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    place = []
    for size in sizes:
        number, at = divmod(number, size)
        place.append(at)
    return tuple(place)
