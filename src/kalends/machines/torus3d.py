"""Tori cut into boxes, such as the Cray T3D."""

from __future__ import annotations

from kalends.core.errors import InvalidInput
from kalends.machines.boxes import BoxTopology


class Torus3d(BoxTopology):
    """A torus of `x` x `y` x `z` nodes; partitions are boxes, which may wrap around.

    Gehring and Ramme 1996, section 2.1.
    """

    def __init__(self, x: int, y: int, z: int, *, first_fit: bool = False) -> None:
        if min(x, y, z) < 1:
            raise InvalidInput(
                f"{x}x{y}x{z} nodes", where="machine", remedy="give sides of 1 or more"
            )
        super().__init__(f"torus3d:{x}x{y}x{z}", (x, y, z), wraps=True, first_fit=first_fit)
