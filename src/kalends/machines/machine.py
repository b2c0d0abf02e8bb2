"""The mapper of one architecture (Gehring and Ramme 1996, section 2.1).

Schedulers count nodes; only the mapper knows which sets of nodes can be configured. A machine is a
mutable board of free, taken and unavailable nodes: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kalends.core.errors import Conflict
from kalends.machines.partitions import Partition, Planned, ScheduleVerdict
from kalends.machines.topology import Location, Topology, bits
from kalends.machines.verification import verify


class Machine:
    """The mapper of a topology.

    Nodes are numbered from 0. A node is free, taken by one partition, or out of service (drained or
    failed): out of service and taken at once means that it leaves when its partition is released. A unit
    with a node out of service is out as a whole: it cannot be configured. A request's `shape`, the extent in
    each dimension, may be turned; it is refused if the topology has no dimensions.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.nodes = topology.nodes
        """All nodes, in service or not."""
        self._taken = 0
        self._out = 0
        self._busy = 0
        """Units taken or out of service."""
        self._given: dict[int, tuple[int, Partition]] = {}
        """Units and partition of every job, by the partition's first node."""
        self._out_nodes: frozenset[int] = frozenset()

    @property
    def spec(self) -> str:
        """The text that makes the same machine again, such as ``mesh2d:32x32:4x4``."""
        return self.topology.spec

    @property
    def free(self) -> int:
        """Nodes that are free and in service."""
        return self.nodes - self._busy.bit_count() * self.topology.unit_nodes

    @property
    def out_of_service(self) -> int:
        """Nodes that are out of service, or will be when they are released."""
        return self._out.bit_count() * self.topology.unit_nodes

    @property
    def interchangeable(self) -> bool:
        """Whether any free nodes will do, so that counting suffices unless some are kept by name."""
        return self.topology.interchangeable

    @property
    def unit_nodes(self) -> int:
        """Nodes in a unit, the smallest part that can be taken."""
        return self.topology.unit_nodes

    @property
    def units_out(self) -> int:
        """The units that are out of service, or will be when they are released: bit i for unit i."""
        return self._out

    def units_of(self, partition: Partition) -> int:
        """Return the units of a partition. Raises `InvalidInput` unless it is whole units of this machine."""
        return self.topology.units_of(partition)

    def find_beside(self, busy: int, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        """Return what `place` would take if only the units `busy` were taken; no state is used."""
        site = self.topology.best(busy, nodes, tuple(shape))
        return None if site is None else self.topology.partition(site)

    def granted(self, nodes: int, shape: Sequence[int] = ()) -> int:
        """Return the fewest nodes that a request for `nodes` takes: whole units, whole subcubes.

        Independent of the state. 0 if it could never be configured.
        """
        return self.topology.granted(nodes, tuple(shape))

    def could_ever_fit(self, nodes: int, shape: Sequence[int] = ()) -> bool:
        """Return whether the request could be configured on the empty machine with all nodes in service."""
        return self.topology.granted(nodes, tuple(shape)) > 0

    def can_place(self, nodes: int, shape: Sequence[int] = ()) -> bool:
        """Return whether `place` would find room now; takes nothing."""
        return self._search(nodes, tuple(shape)) is not None

    def find(self, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        """Return the free partition that `place` would take, without taking it."""
        site = self._search(nodes, tuple(shape))
        return None if site is None else self.topology.partition(site)

    def place(self, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        """Take a free partition for the request and return it; None, and nothing taken, if there is none."""
        partition = self.find(nodes, shape)
        if partition is not None:
            self.take(partition)
        return partition

    def take(self, partition: Partition) -> None:
        """Take exactly these nodes. Raises `Conflict` of `kalends.core.errors` unless all are free."""
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
        """Give back a partition from `place` or `take`. Raises `Conflict` if it was not taken so."""
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
        """Put nodes out of service: free ones at once, taken ones when they are released.

        Raises `InvalidInput`, and nothing is changed, for nodes that the machine does not have.
        """
        self._out |= self.topology.mask(nodes)
        self._out_nodes |= frozenset(nodes)
        self._changed(self._taken)

    def resume(self, nodes: Collection[int]) -> None:
        """Put nodes back into service; raises as `drain` does."""
        self.topology.mask(nodes)
        self._out_nodes -= frozenset(nodes)
        self._out = self.topology.mask(self._out_nodes)
        self._changed(self._taken)

    def copy(self) -> Machine:
        """Return an independent copy in the same state, to try things on."""
        twin = Machine(self.topology)
        twin._taken, twin._out, twin._busy = self._taken, self._out, self._busy
        twin._given = self._given.copy()
        twin._out_nodes = self._out_nodes
        return twin

    def without(self, partitions: Iterable[Partition]) -> Machine:
        """Return a copy that has the nodes of some partitions out of service, taken or not."""
        twin = self.copy()
        for partition in partitions:
            twin._out |= self.topology.units_of(partition)
            twin._out_nodes = twin._out_nodes.union(partition.nodes)
        twin._changed(self._taken)
        return twin

    def verify(self, schedule: Sequence[Planned]) -> ScheduleVerdict:
        """Return whether a whole schedule can be configured in its order; changes nothing.

        Jobs with a `partition` stay where they are. The others are placed in order of start, each for
        all of its time; a job that does not fit is a conflict, and the rest is checked without it. Nodes
        out of service stay so, and taken nodes without an entry are never given back. Raises
        `InvalidInput` if two entries have the same number.
        """
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
