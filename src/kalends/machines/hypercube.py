"""Hypercubes cut into subcubes, such as the Intel iPSC."""

from __future__ import annotations

from typing import Final

from kalends.core.errors import InvalidInput
from kalends.machines.boxes import BoxTopology

MOST_DIMENSIONS: Final = 10
"""Maximum dimensions: there are ``3**dimensions`` subcubes."""


class Hypercube(BoxTopology):
    """A hypercube of ``2**dimensions`` nodes; partitions are subcubes (Gehring and Ramme 1996, section 2.1).

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
