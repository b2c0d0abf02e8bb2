"""Sets of nodes that a machine can give to a job, from its text alone: boxes of whole units.

The rules are those of docs/machines.md (Gehring and Ramme 1996, section 2.1), written a second time. Which
of several free partitions a job gets is left to the maker of the schedule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.simulation.checking.findings import MOST_NODES

MOST_UNITS: Final = 2_048
_FORM: Final = re.compile(
    r"(pool:\d{1,6}|mesh2d:\d{1,6}x\d{1,6}(:\d{1,6}x\d{1,6})?(:io=(all|border|inner))?"
    r"|hypercube:\d{1,2}|torus3d:\d{1,6}x\d{1,6}x\d{1,6})(:fit=(best|first))?",
    re.ASCII,
)

_PART: Final = r"\d{1,6}(@\d{1,6}(\.\d{1,9})?)?"
_GRID: Final = re.compile(rf"grid:{_PART}([+,]{_PART}){{0,999}}", re.ASCII)


class PartitionSets:
    """A grid of `sizes` units, each a block of `unit` nodes; `wraps` joins opposite edges.

    Nodes are numbered along the first dimension first. A set of nodes is a Python int, bit i for node i.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        unit: Sequence[int] = (),
        *,
        wraps: bool = False,
        io: str = "all",
    ) -> None:
        self.sizes = tuple(sizes)
        self.unit = tuple(unit) or (1,) * len(self.sizes)
        self.nodes = prod(self.sizes) * prod(self.unit)
        self._wraps = wraps
        self._io = io
        self._partitions: dict[int, frozenset[int]] = {}

    def granted(self, nodes: int) -> int:
        """Return the nodes of the smallest boxes with at least that many."""
        return min(size for size in map(self._nodes_of, self._extents()) if size >= nodes)

    def partitions(self, nodes: int) -> frozenset[int]:
        """Return all boxes that a request may get: the smallest that serve it."""
        if nodes not in self._partitions:
            granted = self.granted(nodes)
            extents = [each for each in self._extents() if self._nodes_of(each) == granted]
            self._partitions[nodes] = frozenset(
                self._mask(box) for extent in extents for box in self._boxes(extent)
            )
        return self._partitions[nodes]

    def fits(self, nodes: int, busy: int) -> bool:
        """Return whether some partition for the request is free."""
        return any(not partition & busy for partition in self.partitions(nodes))

    def _extents(self) -> Iterator[tuple[int, ...]]:
        return product(*(range(1, size + 1) for size in self.sizes))

    def _nodes_of(self, extent: Iterable[int]) -> int:
        return prod(extent) * prod(self.unit)

    def _boxes(self, extent: Sequence[int]) -> Iterator[list[tuple[int, ...]]]:
        """Yield the units of every box of an extent that has a link to the host."""
        corners = product(*(
            range(size if self._wraps else size - length + 1)
            for length, size in zip(extent, self.sizes, strict=True)
        ))  # fmt: skip
        for corner in corners:
            box = [
                tuple(
                    (at + by) % size for at, by, size in zip(corner, step, self.sizes, strict=True)
                )
                for step in product(*map(range, extent))
            ]
            if any(map(self._linked, box)):
                yield box

    def _linked(self, place: Sequence[int]) -> bool:
        border = any(at in (0, size - 1) for at, size in zip(place, self.sizes, strict=True))
        inside = all(at % 2 for at in place)
        return self._io == "all" or border or (self._io == "inner" and inside)

    def _mask(self, box: Iterable[Sequence[int]]) -> int:
        mask = 0
        for place in box:
            for step in product(*map(range, self.unit)):
                number = 0
                for at, by, of, units in reversed(
                    list(zip(place, step, self.unit, self.sizes, strict=True))
                ):
                    number = number * of * units + at * of + by
                mask |= 1 << number
        return mask


def is_grid(text: str) -> bool:
    """Return whether `text` names several clusters, such as ``grid:64+32@0.5``."""
    return _GRID.fullmatch(text) is not None


def topology_from(text: str) -> tuple[int, PartitionSets | None]:
    """Return the number of nodes of the machine that `text` names, and its topology: None where any will do.

    A grid has the nodes of all its clusters; what may cross them is left to the maker of the schedule.
    Raises `InvalidInput` for a text that names no machine, or one too large.
    """
    if is_grid(text):
        return sum(int(part.partition("@")[0]) for part in re.split("[+,]", text[5:])), None
    if not _FORM.fullmatch(text):
        raise InvalidInput(
            f"{text[:40]!r} is not a machine with a topology",
            where="machine",
            remedy="write it as docs/machines.md says, such as mesh2d:32x32:4x4",
        )
    name, first, *others = text.split(":")
    sizes = [int(number) for number in first.split("x")]
    unit = [1] * len(sizes)
    io = "all"
    for other in others:
        key, equals, value = other.partition("=")
        if not equals:
            unit = [int(number) for number in other.split("x")]
        elif key == "io":
            io = value
    if name == "hypercube":
        sizes = [2] * sizes[0]
        unit = [1] * len(sizes)
    if not sizes or not all(
        size and of and size % of == 0 for size, of in zip(sizes, unit, strict=True)
    ):
        raise InvalidInput(f"{text!r} is not cut into whole units", where="machine",
                           remedy="give sides of 1 or more, and units whose sides divide them")  # fmt: skip
    units = [size // of for size, of in zip(sizes, unit, strict=True)]
    if prod(sizes) > MOST_NODES or (name != "pool" and prod(units) > MOST_UNITS):
        raise InvalidInput(f"{prod(sizes)} nodes in {prod(units)} units", where="machine",
                           remedy=f"give at most {MOST_UNITS} units")  # fmt: skip
    if name == "pool":
        return sizes[0], None
    return prod(sizes), PartitionSets(units, unit, wraps=name == "torus3d", io=io)
