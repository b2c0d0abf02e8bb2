"""Meshes cut into rectangles, such as the Parsytec GCel and GCPP."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from kalends.core.errors import InvalidInput
from kalends.machines.boxes import BoxTopology


class InputOutput(StrEnum):
    """The units with a link to the host. Each partition needs one of its own."""

    ALL = "all"
    """Every unit."""
    BORDER = "border"
    """The units on the outer border (GCPP)."""
    INNER = "inner"
    """Those, and inside every second unit of every second row (a reading of "some links", GCel)."""


class Mesh2d(BoxTopology):
    """A mesh of `width` x `height` nodes in atomic units of `unit_shape`, partitioned into rectangles.

    Gehring and Ramme 1996, section 2.1: a partition consists of whole units and has an I/O link; links
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
