"""The structure of an architecture: units, and possible partitions. Holds no state of jobs.

Mappers work on *units*, the atoms of the hardware: one node, or a block of nodes that can only be taken
together. A set of units is a Python int, bit i for unit i.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple, Self

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Partition

MOST_NODES: Final = 65_536
MOST_ANSWERS: Final = 10_000
"""The most remembered answers, at most 5 MB."""


class Location(NamedTuple):
    """A possible partition."""

    units: int
    """Its units, as bits."""
    border: int = 0
    """The units outside that are linked to it, as bits."""
    edge: int = 0
    """Number of its sides on the machine's own edge."""
    shape: tuple[int, ...] = ()
    """Its extent in nodes, as `Partition.shape`."""
    origin: tuple[int, ...] = ()
    """The lowest corner in nodes, as `Partition.origin`."""


class Topology(ABC):
    """The fixed side of a machine: `units` units of `unit_nodes` nodes each.

    This base numbers the nodes as if each were a unit; a subclass with larger ones overrides
    `nodes_of` and `unit_of`.
    """

    interchangeable: ClassVar[bool] = False
    """Whether any free nodes make a partition."""

    def __init__(self, spec: str, units: int, unit_nodes: int = 1) -> None:
        if not 1 <= units * unit_nodes <= MOST_NODES:
            raise InvalidInput(
                f"{units * unit_nodes} nodes",
                where="machine",
                remedy=f"give from 1 to {MOST_NODES}",
            )
        self.spec = spec
        self.units = units
        self.unit_nodes = unit_nodes
        self.nodes = units * unit_nodes
        self._answers: dict[tuple[int, int, tuple[int, ...]], Location | None] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # It never changes: a frozen scheduler shares it and its lists.
        return self

    @abstractmethod
    def granted(self, nodes: int, shape: tuple[int, ...]) -> int:
        """Return the fewest nodes that the request takes; 0 if it could never be configured."""

    @abstractmethod
    def search(self, busy: int, nodes: int, shape: tuple[int, ...]) -> Location | None:
        """Return the best site for the request among the units that are not `busy`; None: there is none."""

    def best(self, busy: int, nodes: int, shape: tuple[int, ...]) -> Location | None:
        """Return the result of `search`, cached because plans repeat the same searches."""
        question = busy, nodes, shape
        answers = self._answers
        if question not in answers:
            if len(answers) >= MOST_ANSWERS:
                answers.clear()
            answers[question] = self.search(busy, nodes, shape)
        return answers[question]

    def nodes_of(self, unit: int) -> Sequence[int]:
        """Return the nodes of a unit."""
        return (unit,)

    def unit_of(self, node: int) -> int:
        """Return the unit that a node is in."""
        return node

    def partition(self, site: Location) -> Partition:
        """Return the nodes of a site."""
        nodes = sorted(node for unit in bits(site.units) for node in self.nodes_of(unit))
        return Partition(tuple(nodes), site.shape, site.origin)

    def mask(self, nodes: Collection[int]) -> int:
        """Return the units of some nodes. Raises `InvalidInput` for nodes that the machine does not have."""
        units = 0
        for node in (min(nodes, default=0), max(nodes, default=0)):
            if not 0 <= node < self.nodes:
                raise InvalidInput(
                    f"no such node {node}",
                    where="nodes",
                    remedy=f"the nodes of {self.spec} are 0 to {self.nodes - 1}",
                )
        of_node = self._units_of_nodes
        for unit in {of_node[node] for node in nodes}:
            units |= 1 << unit
        return units

    @cached_property
    def _units_of_nodes(self) -> tuple[int, ...]:
        # Every verification looks up all nodes of its schedule.
        return tuple(map(self.unit_of, range(self.nodes)))

    def units_of(self, partition: Partition) -> int:
        """Return the units of a partition. Raises `InvalidInput` unless it is whole units of this machine."""
        units = self.mask(partition.nodes)
        if not units or self.partition(Location(units)).nodes != partition.nodes:
            raise InvalidInput(
                f"{len(partition.nodes)} nodes are not whole units of {self.spec}, in ascending order",
                where="partition",
                remedy=f"give units of {self.unit_nodes} nodes",
            )
        return units


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
