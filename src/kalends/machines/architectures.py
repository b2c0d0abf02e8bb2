"""The known architectures: pools, meshes, hypercubes and tori (Gehring and Ramme 1996, section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.machines.boxes import BoxTopology
from kalends.machines.topology import Location, Topology, bits

MOST_DIMENSIONS: Final = 10
"""Maximum dimensions of a hypercube: there are ``3**dimensions`` subcubes."""


class Pool(Topology):
    """A machine of `nodes` nodes without a topology; the lowest free numbers are given first."""

    interchangeable = True

    def __init__(self, nodes: int) -> None:
        super().__init__(f"pool:{nodes}", nodes)

    def granted(self, nodes: int, shape: tuple[int, ...]) -> int:
        return nodes if 1 <= nodes <= self.nodes and not shape else 0

    def search(self, busy: int, nodes: int, shape: tuple[int, ...]) -> Location | None:
        if not self.granted(nodes, shape):
            return None
        free = ~busy & ((1 << self.units) - 1)
        if free.bit_count() < nodes:
            return None
        numbers = bits(free)
        units = 0
        for _ in range(nodes):
            units |= 1 << next(numbers)
        return Location(units)


class InputOutput(StrEnum):
    """The units with a link to the host. Each partition needs one of its own."""

    ALL = "all"
    """Every unit."""
    BORDER = "border"
    """The units on the outer border (GCPP)."""
    INNER = "inner"
    """The border, and inside every second unit of every second row (a reading of "some links", GCel)."""


class Mesh2d(BoxTopology):
    """A mesh of `width` x `height` nodes in atomic units of `unit_shape`, partitioned into rectangles.

    Examples are the Parsytec GCel and GCPP. A partition consists of whole units and has an I/O link; links
    and nodes are for its exclusive use. A link belongs to the unit that it leads to.
    """

    def __init__(
        self,
        width: int,
        height: int,
        unit_shape: tuple[int, int] = (1, 1),
        *,
        io: InputOutput = InputOutput.ALL,
        first_fit: bool = False,
    ) -> None:
        unit_width, unit_height = unit_shape
        if min(width, height, *unit_shape) < 1 or width % unit_width or height % unit_height:
            raise InvalidInput(
                f"{width}x{height} nodes are not cut into units of {unit_width}x{unit_height}",
                where="machine",
                remedy="give sides of 1 or more, and units whose sides divide the mesh's",
            )
        sizes = width // unit_width, height // unit_height
        spec = f"mesh2d:{width}x{height}"
        if unit_shape != (1, 1):
            spec += f":{unit_width}x{unit_height}"
        if io is not InputOutput.ALL:
            spec += f":io={io}"
        super().__init__(spec, sizes, unit_shape=unit_shape, first_fit=first_fit)
        self.linked = frozenset(unit for unit in range(self.units) if self._has_link(unit, io))
        """The units with an I/O link."""

    def allowed(self, units: Sequence[int]) -> bool:
        return not self.linked.isdisjoint(units)

    def _has_link(self, unit: int, io: InputOutput) -> bool:
        x, y = self._place(unit)
        columns, rows = self.sizes
        on_border = x in (0, columns - 1) or y in (0, rows - 1)
        return (
            io is InputOutput.ALL or on_border or (io is InputOutput.INNER and x % 2 == y % 2 == 1)
        )


class Hypercube(BoxTopology):
    """A hypercube of ``2**dimensions`` nodes, such as the Intel iPSC; partitions are subcubes.

    A hypercube is a mesh of side 2 in every dimension: bit i of a node's number is its place in
    dimension i, and a subcube is a box with sides of 1 and 2.
    """

    def __init__(self, dimensions: int, *, first_fit: bool = False) -> None:
        if not 0 < dimensions <= MOST_DIMENSIONS:
            raise InvalidInput(
                f"{dimensions} dimensions",
                where="machine",
                remedy=f"give from 1 to {MOST_DIMENSIONS}",
            )
        super().__init__(f"hypercube:{dimensions}", (2,) * dimensions, first_fit=first_fit)


class Torus3d(BoxTopology):
    """A torus of `x` x `y` x `z` nodes, such as the Cray T3D.

    Partitions are boxes, which may wrap around.
    """

    def __init__(self, x: int, y: int, z: int, *, first_fit: bool = False) -> None:
        if min(x, y, z) < 1:
            raise InvalidInput(
                f"{x}x{y}x{z} nodes", where="machine", remedy="give sides of 1 or more"
            )
        super().__init__(f"torus3d:{x}x{y}x{z}", (x, y, z), wraps=True, first_fit=first_fit)
