"""A cluster that names nodes: every job gets a partition of a machine with a topology."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from math import prod

from msgspec import structs

from kalends.core.errors import Conflict, InvalidInput
from kalends.machines.machine import Machine
from kalends.machines.partitions import Partition, Planned
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.leeway import ShadowLeeway
from kalends.scheduling.place_plans import MappedPlan
from kalends.scheduling.profile import NEVER
from kalends.scheduling.promise import Promise
from kalends.scheduling.reservations import Reservation, check_arrival, no_room

Room = tuple[Reservation, Partition]
"""An advance reservation, counted in the nodes that it really has, and these nodes."""


class MappedCluster(Cluster):
    """A cluster whose mapper decides which nodes a job gets, if any.

    `Job.partition` names them, and stays when the job has ended; `Job.granted` counts them: whole
    atomic units, so it may be more than the job asked for. The `plan` counts nodes like that of any
    cluster, so a policy that plans by it may find at a planned start that the free nodes make no
    partition: this is the autonomous mode of Gehring and Ramme 1996 (section 4.1). Only `promise` and
    `start` look at the nodes themselves.

    Advance reservations get their partitions once, when they are made, by the mapper's own verification;
    from then on they are those nodes, and no job that would still run in the time of a reservation is
    placed there.

    As with any cluster that is not live, a partition counts as free once the requested time of its job is
    over, even if the job's end, in the same second, has not been reported.
    """

    counts = False

    def __init__(
        self, machine: Machine, reservations: Iterable[Reservation] = (), *, live: bool = False
    ) -> None:
        """`machine` is empty, and belongs to the cluster from now on.

        Raises `InvalidInput` if it has jobs, or cannot give all reservations their nodes.
        """
        in_service = machine.nodes - machine.out_of_service
        if machine.free != in_service:
            raise InvalidInput(
                f"{in_service - machine.free} nodes are taken", where="machine",
                remedy="give a machine without jobs",
            )  # fmt: skip
        self.made_rooms = made_rooms(machine, sorted(reservations))
        """The reservations as they were made."""
        self.rooms = self.made_rooms
        """The nodes that they keep free, without those of their guests."""
        super().__init__(machine.nodes, [reservation for reservation, _ in self.rooms], live=live)
        self.machine = machine
        self.out_of_service = machine.out_of_service
        self.free = in_service
        self._vacated: set[int] = set()
        """Running jobs, by order, whose nodes count as free because their time is over."""

    @property
    def as_counted(self) -> bool:
        """Whether a job needs only enough free nodes: any will do, and none are ever kept by name."""
        return self.machine.interchangeable and not self.reserved and not self.live

    def could_ever_fit(self, job: Job) -> bool:
        return self.machine.could_ever_fit(job.nodes, job.shape)

    def fits_in_service(self, job: Job) -> bool:
        if not self.out_of_service:
            return self.could_ever_fit(job)
        board = self.machine.copy()
        for _, order, running in self.ends:
            if order not in self._vacated:
                assert running.partition is not None
                board.release(running.partition)
        return board.can_place(job.nodes, job.shape)

    def width(self, job: Job) -> int:
        return self.machine.granted(job.nodes, job.shape)

    def can_start(self, job: Job, now: int) -> bool:
        return self._board(now, now + job.requested_s).can_place(job.nodes, job.shape)

    def start(self, job: Job, now: int) -> bool:
        partition = self.would_get(job, now)
        if partition is None:
            return False
        self.machine.take(partition)
        job.partition = partition
        self._begin(job, len(partition.nodes), now)
        return True

    def start_on(self, job: Job, partition: Partition, now: int) -> bool:
        """Start a waiting job on exactly these nodes if all are free, not reserved; return whether it did."""
        self._vacate(now)
        if not self.unreserved(partition, now, now + job.requested_s):
            return False
        try:
            self.machine.take(partition)
        except Conflict:
            return False
        job.partition = partition
        self._begin(job, len(partition.nodes), now)
        return True

    def start_in(self, name: str, job: Job, now: int) -> bool:
        room = next((each for each in self.rooms if each[0].name == name), None)
        if room is None:
            return False
        self._vacate(now)
        reservation, kept = room
        others = set(range(self.machine.nodes)).difference(kept.nodes)
        partition = self.machine.without([Partition(tuple(others))]).find(job.nodes, job.shape)
        if partition is None:
            return False
        self.machine.take(partition)
        job.partition = partition
        job.requested_s = reservation.end_s - now
        self._begin(job, len(partition.nodes), now)
        self.guests.admit(name, job)
        self._renew_reservations()
        return True

    def unreserved(self, partition: Partition, start_s: int, end_s: int) -> bool:
        """Return whether no advance reservation has any of these nodes during ``[start_s, end_s)``."""
        nodes = set(partition.nodes)
        return all(
            end_s <= room.start_s or room.end_s <= start_s or nodes.isdisjoint(reserved.nodes)
            for room, reserved in self.rooms
        )

    def would_get(self, job: Job, now: int) -> Partition | None:
        """Return the partition that `start` would give; takes nothing."""
        return self._board(now, now + job.requested_s).find(job.nodes, job.shape)

    def end(self, job: Job) -> None:
        super().end(job)
        self._free_nodes(job)
        self._vacated.discard(job.order)

    def fits_without(self, job: Job, now: int, gone: Collection[Job]) -> bool:
        self._vacate(now)
        machine, self.machine = self.machine, self.machine.copy()
        for each in gone:
            if each.order not in self._vacated:
                assert each.partition is not None
                self.machine.release(each.partition)
        fits = super().fits_without(job, now, gone)
        self.machine = machine
        return fits

    def room(self, now: int) -> int:
        """Return the nodes that are free, in service and not reserved; here each counts once."""
        return self._board(now, now + 1).free

    def drain(self, nodes: Collection[int], back_s: int = 0) -> None:
        self.machine.drain(nodes)
        self.out_nodes |= frozenset(nodes)
        self._count_out_of_service(self.machine.out_of_service)

    def resume(self, nodes: Collection[int]) -> None:
        self.machine.resume(nodes)
        self.out_nodes -= frozenset(nodes)
        self._count_out_of_service(self.machine.out_of_service)

    def have_room(
        self,
        came: Iterable[Reservation],
        gone: Collection[str],
        now: int,
        planned: Sequence[Planned] = (),
    ) -> bool:
        """Return whether all new reservations have a place, next to `planned`, once others are `gone`."""
        before = self.made_rooms
        self.made_rooms = [each for each in before if each[0].name not in gone]
        guests = [job for name in gone for job in self.guests.of(name)]
        try:
            for wanted in came:
                inside = staying(guests, wanted, now)
                found = self._place_for(wanted, now, inside, planned)
                self.made_rooms = [*self.made_rooms, (wanted, found)]
        except Conflict:
            return False
        finally:
            self.made_rooms = before
        return True

    def check_room(
        self,
        wanted: Reservation,
        now: int,
        guests: Collection[Job] = (),
        planned: Sequence[Planned] = (),
        *,
        sparing: bool = False,
    ) -> Partition:
        check_arrival(wanted, now)
        if planned:
            try:
                return self._place_for(wanted, now, guests, planned)
            except Conflict:
                if sparing:
                    raise
        return self._place_for(wanted, now, guests, ())

    def _place_for(
        self, wanted: Reservation, now: int, guests: Collection[Job], planned: Sequence[Planned]
    ) -> Partition:
        """Return a place for a reservation next to the nodes of `planned`; raises `Conflict`."""
        others = self._rooms_but(wanted.name, now)
        before = next((nodes for room, nodes in self.made_rooms if room.name == wanted.name), None)
        # A shape is met by whole units, which `wanted` may count.
        nodes = prod(wanted.shape) if wanted.shape else wanted.nodes
        granted = self.machine.granted(nodes, wanted.shape)
        if guests or (before and not self._may_keep(before, granted)):
            before = None
        inside = [node for job in guests for node in nodes_of(job)]
        beside = [*self.fixed(others, guests, wanted.end_s), *planned]
        number, begin_s = -1 - len(others), max(wanted.start_s, now)
        shape = () if inside else wanted.shape
        rest = nodes - len(inside)
        for partition in (before, None) if before else (None,):
            asked = Planned(number, rest, begin_s, wanted.end_s, shape, partition)
            verdict = self.machine.verify([*beside, asked] if rest > 0 else beside)
            found = verdict.partitions.get(number) if rest > 0 else Partition(())
            if found is not None:
                break
        named = {number, *(job.order for job in guests)}
        in_the_way = [each for each in verdict.conflicts if each.job in named]
        if found is None or in_the_way:
            raise no_room(wanted, next((each.suggested_s for each in in_the_way), None))
        return Partition(tuple(sorted((*inside, *found.nodes)))) if inside else found

    def leave_nodes_out(self, now: int, planned: Sequence[Planned]) -> None:
        """Give other nodes to reservations with nodes out of service, if there are any and no guests yet."""
        for room, kept in self.made_rooms:
            out = not self.out_nodes.isdisjoint(kept.nodes)
            if out and room.end_s > now and not self.guests.of(room.name):
                with suppress(Conflict):
                    self.reserve(room, now, (), planned)

    def _may_keep(self, before: Partition, granted: int) -> bool:
        return len(before.nodes) == granted and self.out_nodes.isdisjoint(before.nodes)

    def unreserve(self, name: str, now: int) -> None:
        super().unreserve(name, now)
        self._keep(self._rooms_but(name, now))

    def fixed(
        self, rooms: Iterable[Room], guests: Collection[Job] = (), end_s: int = 0
    ) -> list[Planned]:
        """Return the entries that no plan can move: running jobs and these reservations, on their nodes.

        Nodes of reservations that jobs use count with the jobs; `guests` stay until `end_s`.
        """
        running = [
            Planned(
                job.order, job.granted, job.start_s, end_s if job in guests else until_s, job.shape,
                job.partition,
            )
            for until_s, _, job in self.ends
        ]  # fmt: skip
        left = self._left_of(rooms)
        return running + [
            Planned(-1 - number, room.nodes, room.start_s, room.end_s, (), partition)
            for number, (room, partition) in enumerate(left)
        ]

    def promise(self, job: Job, now: int) -> Promise:
        """Return the first end of a requested time, or of a reservation, at which the mapper has a place."""
        self._vacate(now)
        granted = self.machine.granted(job.nodes, job.shape)
        board = self.machine.copy()
        running = [each for each in self.ends if each[1] not in self._vacated]
        ends = {until_s for until_s, _, _ in running}
        ends.update(room.end_s for room, _ in self.rooms if room.end_s > now)
        gone = 0
        for time_s in sorted({now, *ends}):
            while gone < len(running) and running[gone][0] <= time_s:
                partition = running[gone][2].partition
                assert partition is not None
                board.release(partition)
                gone += 1
            if board.free >= granted:
                then = self._without_rooms(board, time_s, time_s + job.requested_s)
                if then.can_place(job.nodes, job.shape):
                    leeway = ShadowLeeway(self.room(now), time_s, then.free - granted)
                    return MappedPromise(time_s, leeway, self, job, then)
        return Promise(NEVER, self.leeway(now))

    def place_of(self, job: Job) -> Partition:
        """Return the place of a running job."""
        assert job.partition is not None
        return job.partition

    def plan_of_places(self, now: int) -> MappedPlan:
        """Return the busy units from `now` on, if all running jobs end when they are expected to."""
        taken = [(room.start_s, room.end_s, partition) for room, partition in self.rooms]
        for until_s, _, job in self.ends:
            assert job.partition is not None
            taken.append((now, until_s, job.partition))
        return MappedPlan(now, self.machine, taken)

    def _rooms_but(self, name: str, now: int) -> list[Room]:
        return [each for each in self.made_rooms if each[0].end_s > now and each[0].name != name]

    def _keep_free(self, wanted: Reservation, found: Partition | None, now: int) -> None:
        assert found is not None
        self._keep([*self._rooms_but(wanted.name, now), (counted(wanted, found), found)])

    def _keep(self, rooms: list[Room]) -> None:
        self.made_rooms = sorted(rooms, key=lambda room: room[0])
        self._reserve_all([room for room, _ in self.made_rooms])
        self.rooms = self._left_of(self.made_rooms)

    def _renew_reservations(self) -> None:
        self._keep(self.made_rooms)

    def _left_of(self, rooms: Iterable[Room]) -> list[Room]:
        """Return the nodes that these reservations keep free."""
        rooms = list(rooms)
        if not self.guests:
            return rooms
        nodes = {room.name: kept for room, kept in rooms}
        left = []
        for room in self.guests.left_of(room for room, _ in rooms):
            taken = {node for job in self.guests.of(room.name) for node in nodes_of(job)}
            kept = nodes[room.name]
            if taken:
                kept = Partition(tuple(node for node in kept.nodes if node not in taken))
            left.append((room, kept))
        return left

    def _node_numbers(self) -> None:
        """Number nothing: the mapper does."""

    def _board(self, now: int, until_s: int) -> Machine:
        """Return the machine as a job during ``[now, until_s)`` would see it."""
        self._vacate(now)
        return self._without_rooms(self.machine, now, until_s)

    def _without_rooms(self, board: Machine, start_s: int, end_s: int) -> Machine:
        """Return `board` without the nodes reserved at some time in ``[start_s, end_s)``."""
        kept = [
            partition
            for room, partition in self.rooms
            if room.start_s < end_s and start_s < room.end_s
        ]
        return board.without(kept) if kept else board

    def _vacate(self, now: int) -> None:
        for until_s, order, job in self.ends:
            if until_s > now:
                return
            self._free_nodes(job)
            self._vacated.add(order)

    def _free_nodes(self, job: Job) -> None:
        if job.order not in self._vacated:
            assert job.partition is not None
            self.machine.release(job.partition)


class MappedPromise(Promise):
    """EASY's promise of a place: jobs before the head end by then, or leave a place for it."""

    cluster: MappedCluster
    head: Job
    then: Machine
    """The machine at the shadow time, as the head will see it."""

    def allows(self, job: Job, now: int) -> bool:
        if now + job.requested_s <= self.shadow_s:
            return True
        partition = self.cluster.would_get(job, now)
        if partition is None:
            return False
        then = self.then.without([partition])
        return then.can_place(self.head.nodes, self.head.shape)

    def started(self, job: Job, now: int) -> None:
        self.leeway.take(job.granted, now)
        if now + job.requested_s > self.shadow_s:
            assert job.partition is not None
            self.then = self.then.without([job.partition])


def made_rooms(machine: Machine, reservations: list[Reservation]) -> list[Room]:
    """Return each with the nodes that the mapper gives it; raises `InvalidInput` if it cannot."""
    verdict = machine.verify(
        [
            Planned(number, each.nodes, each.start_s, each.end_s, each.shape)
            for number, each in enumerate(reservations)
        ]
    )
    for conflict in verdict.conflicts:
        refused, free_s = reservations[conflict.job], conflict.suggested_s
        raise InvalidInput(
            f"{machine.spec} has no partition of {refused.nodes} nodes from {refused.start_s}",
            where=f"reservation {refused.name}".strip(),
            remedy="make it smaller"
            if free_s is None
            else f"make it smaller, or begin at {free_s}",
        )
    return [
        (counted(each, partition), partition)
        for each, partition in zip(
            reservations, (verdict.partitions[number] for number in range(len(reservations))),
            strict=True,
        )
    ]  # fmt: skip


def counted(wanted: Reservation, partition: Partition) -> Reservation:
    """Return the reservation with the nodes that it really has."""
    return structs.replace(wanted, nodes=len(partition.nodes))


def staying(guests: Iterable[Job], wanted: Reservation, now: int) -> list[Job]:
    """Return the jobs that continue in the reservation that replaces theirs: the earliest ones."""
    left = wanted.nodes if wanted.start_s <= now else 0
    found = []
    for job in sorted(guests, key=lambda job: (job.start_s, job.order)):
        if job.granted <= left:
            left -= job.granted
            found.append(job)
    return found


def nodes_of(job: Job) -> tuple[int, ...]:
    """Return the nodes of a running job."""
    assert job.partition is not None
    return job.partition.nodes
