"""The interface of a mapper for one architecture (Gehring and Ramme 1996, section 2.1).

Schedulers count nodes; only the mapper knows which sets of nodes can be configured. A machine is a
mutable board of free, taken and unavailable nodes: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

import msgspec


class Partition(msgspec.Struct, frozen=True):
    """A set of nodes given to one job.

    `nodes` are the numbers of its nodes, ascending. It may hold more than were requested: whole atomic
    units, whole subcubes. `shape` is its extent in each dimension (empty if the topology has none),
    `origin` its lowest corner.
    """

    nodes: tuple[int, ...]
    shape: tuple[int, ...] = ()
    origin: tuple[int, ...] = ()


class Planned(msgspec.Struct, frozen=True):
    """A partition of `nodes` nodes that a schedule wants during ``[start_s, end_s)``.

    `shape` is the requested extent, empty for any. `partition` is set if the nodes are already taken, by
    a running job or by an advance reservation of named nodes.
    """

    job: int
    nodes: int
    start_s: int
    end_s: int
    shape: tuple[int, ...] = ()
    partition: Partition | None = None


class PlacementConflict(msgspec.Struct, frozen=True):
    """A planned job that cannot be configured at its start, next to those before it in the schedule.

    `suggested_s` is the earliest start, at or after the planned one, at which it could be configured if
    all others of the schedule stay where they are. None: never, with the nodes that are in service. A
    `partition` that overlaps another one is a conflict, too.
    """

    job: int
    suggested_s: int | None


class ScheduleVerdict(msgspec.Struct, frozen=True):
    """The mapper's answer to a schedule: the place of each job, and the jobs that do not fit as planned."""

    partitions: dict[int, Partition]
    conflicts: tuple[PlacementConflict, ...]


class Machine(Protocol):
    """The mapper of one architecture.

    Nodes are numbered from 0. A node is free, taken by one partition, or out of service (drained or
    failed): out of service and taken at once means that it leaves when its partition is released.
    Nodes that can only be had together, an atomic unit, leave service together. A request's `shape`,
    the extent in each dimension, may be turned; it is refused if the topology has no dimensions.
    """

    @property
    def nodes(self) -> int:
        """All nodes, in service or not."""
        ...

    @property
    def free(self) -> int:
        """Nodes that are free and in service."""
        ...

    @property
    def out_of_service(self) -> int:
        """Nodes that are out of service, or will be when they are released."""
        ...

    @property
    def spec(self) -> str:
        """The text that makes the same machine again, such as ``mesh2d:32x32:4x4``."""
        ...

    @property
    def interchangeable(self) -> bool:
        """Whether any free nodes will do, so that counting suffices unless some are kept by name."""
        ...

    @property
    def unit_nodes(self) -> int:
        """Nodes in a unit, the smallest part that can be taken."""
        ...

    @property
    def units_out(self) -> int:
        """The units that are out of service, or will be when they are released: bit i for unit i."""
        ...

    def units_of(self, partition: Partition) -> int:
        """Return the units of a partition. Raises `InvalidInput` unless it is whole units of this machine."""
        ...

    def find_beside(self, busy: int, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        """Return what `place` would take if only the units `busy` were taken; no state is used."""
        ...

    def granted(self, nodes: int, shape: Sequence[int] = ()) -> int:
        """Return the fewest nodes that a request for `nodes` takes: whole units, whole subcubes.

        Independent of the state. 0 if it could never be configured.
        """
        ...

    def could_ever_fit(self, nodes: int, shape: Sequence[int] = ()) -> bool:
        """Return whether the request could be configured on the empty machine with all nodes in service."""
        ...

    def can_place(self, nodes: int, shape: Sequence[int] = ()) -> bool:
        """Return whether `place` would find room now; takes nothing."""
        ...

    def find(self, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        """Return the free partition that `place` would take, without taking it."""
        ...

    def place(self, nodes: int, shape: Sequence[int] = ()) -> Partition | None:
        """Take a free partition for the request and return it; None, and nothing taken, if there is none."""
        ...

    def take(self, partition: Partition) -> None:
        """Take exactly these nodes. Raises `Conflict` of `kalends.core.errors` unless all are free."""
        ...

    def release(self, partition: Partition) -> None:
        """Give back a partition from `place` or `take`. Raises `Conflict` if it was not taken so."""
        ...

    def drain(self, nodes: Collection[int]) -> None:
        """Put nodes out of service: free ones at once, taken ones when they are released.

        Raises `InvalidInput`, and nothing is changed, for nodes that the machine does not have.
        """
        ...

    def resume(self, nodes: Collection[int]) -> None:
        """Put nodes back into service; raises as `drain` does."""
        ...

    def copy(self) -> Machine:
        """Return an independent copy in the same state, to try things on."""
        ...

    def without(self, partitions: Iterable[Partition]) -> Machine:
        """Return a copy that has the nodes of some partitions out of service, taken or not."""
        ...

    def verify(self, schedule: Sequence[Planned]) -> ScheduleVerdict:
        """Return whether a whole schedule can be configured in its order; changes nothing.

        Jobs with a `partition` stay where they are. The others are placed in order of start, each for
        all of its time; a job that does not fit is a conflict, and the rest is checked without it. Nodes
        out of service stay so, and taken nodes without an entry are never given back. Raises
        `InvalidInput` if two entries have the same number.
        """
        ...
