"""A pool: any n free nodes make a partition."""

from __future__ import annotations

from kalends.machines.topology import Site, Topology, bits


class Pool(Topology):
    """A machine of `nodes` nodes without a topology; the lowest free numbers are given first."""

    interchangeable = True

    def __init__(self, nodes: int) -> None:
        super().__init__(f"pool:{nodes}", nodes)

    def granted(self, nodes: int, shape: tuple[int, ...]) -> int:
        return nodes if 1 <= nodes <= self.nodes and not shape else 0

    def search(self, busy: int, nodes: int, shape: tuple[int, ...]) -> Site | None:
        if not self.granted(nodes, shape):
            return None
        free = ~busy & ((1 << self.units) - 1)
        if free.bit_count() < nodes:
            return None
        numbers = bits(free)
        units = 0
        for _ in range(nodes):
            units |= 1 << next(numbers)
        return Site(units)
