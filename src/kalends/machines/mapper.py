"""The mapper: the taken and unavailable units of a topology, and the places of jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kalends.core.errors import Conflict
from kalends.machines.machine import Partition, Planned, ScheduleVerdict
from kalends.machines.topology import Location, Topology, bits
from kalends.machines.verification import verify


class Mapper:
    """A `Machine` of any topology.

    A unit with a node out of service is out of service as a whole: it cannot be configured.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.nodes = topology.nodes
        self._taken = 0
        self._out = 0
        self._busy = 0
        """Units taken or out of service."""
        self._given: dict[int, tuple[int, Partition]] = {}
        """Units and partition of every job, by the partition's first node."""
        self._out_nodes: frozenset[int] = frozenset()

    @property
    def spec(self) -> str:
        return self.topology.spec

    @property
    def free(self) -> int:
        return self.nodes - self._busy.bit_count() * self.topology.unit_nodes

    @property
    def out_of_service(self) -> int:
        return self._out.bit_count() * self.topology.unit_nodes

    @property
    def interchangeable(self) -> bool:
        return self.topology.interchangeable

    @property
    def unit_nodes(self) -> int:
        return self.topology.unit_nodes

    @property
    def units_out(self) -> int:
        return self._out

    def units_of(self, partition: Partition) -> int:
        return self.topology.units_of(partition)

    def find_beside(self, busy: int, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        site = self.topology.best(busy, nodes, tuple(shape))
        return None if site is None else self.topology.partition(site)

    def granted(self, nodes: int, shape: Sequence[int] = ()) -> int:
        return self.topology.granted(nodes, tuple(shape))

    def could_ever_fit(self, nodes: int, shape: Sequence[int] = ()) -> bool:
        return self.topology.granted(nodes, tuple(shape)) > 0

    def can_place(self, nodes: int, shape: Sequence[int] = ()) -> bool:
        return self._search(nodes, tuple(shape)) is not None

    def find(self, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        site = self._search(nodes, tuple(shape))
        return None if site is None else self.topology.partition(site)

    def place(self, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        partition = self.find(nodes, shape)
        if partition is not None:
            self.take(partition)
        return partition

    def take(self, partition: Partition) -> None:
        units = self.topology.units_of(partition)
        if units & self._busy:
            raise Conflict(
                f"node {self._first_node(units & self._busy)} is not free",
                where="partition",
                remedy="ask the mapper to place the request",
            )
        self._given[partition.nodes[0]] = units, partition
        self._changed(self._taken | units)

    def release(self, partition: Partition) -> None:
        first = partition.nodes[0] if partition.nodes else -1
        units, given = self._given.get(first, (0, None))
        if given is not partition and given != partition:
            raise Conflict(
                f"no job has the partition of {len(partition.nodes)} nodes from node {first}",
                where="partition",
                remedy="release a placed or taken partition once",
            )
        del self._given[first]
        self._changed(self._taken ^ units)

    def drain(self, nodes: Collection[int]) -> None:
        self._out |= self.topology.mask(nodes)
        self._out_nodes |= frozenset(nodes)
        self._changed(self._taken)

    def resume(self, nodes: Collection[int]) -> None:
        self.topology.mask(nodes)
        self._out_nodes -= frozenset(nodes)
        self._out = self.topology.mask(self._out_nodes)
        self._changed(self._taken)

    def copy(self) -> Mapper:
        twin = Mapper(self.topology)
        twin._taken, twin._out, twin._busy = self._taken, self._out, self._busy
        twin._given = self._given.copy()
        twin._out_nodes = self._out_nodes
        return twin

    def without(self, partitions: Iterable[Partition]) -> Mapper:
        twin = self.copy()
        for partition in partitions:
            twin._out |= self.topology.units_of(partition)
            twin._out_nodes = twin._out_nodes.union(partition.nodes)
        twin._changed(self._taken)
        return twin

    def verify(self, schedule: Sequence[Planned]) -> ScheduleVerdict:
        return verify(self.topology, self._taken, self._out, schedule)

    def _search(self, nodes: int, shape: tuple[int, ...]) -> Location | None:
        if nodes > self.free:
            return None
        return self.topology.best(self._busy, nodes, shape)

    def _changed(self, taken: int) -> None:
        self._taken = taken
        self._busy = taken | self._out

    def _first_node(self, units: int) -> int:
        return min(self.topology.nodes_of(next(bits(units))))
