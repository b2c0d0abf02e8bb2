"""Conservative backfilling on a machine with a topology, slow and from its definition: second by second.

Which of the free places a mapper takes is its own affair (it has its own twin): here an empty machine
is asked whenever somebody needs a place, with all nodes withdrawn that others have in that time.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

import msgspec

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Partition
from kalends.machines.spec import machine_from
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.reservations import Reservation

LATEST_S = 600
"""Everything is over by then."""

Start = tuple[int, int, tuple[int, ...]]
"""When which job, by order of submission, starts on which nodes."""


class Wanted(msgspec.Struct, frozen=True):
    """A job: what it asks for, how long it really runs, and when it is withdrawn if it waits still."""

    submit_s: int
    nodes: int
    requested_s: int
    run_s: int
    shape: tuple[int, ...] = ()
    leaves_s: int = LATEST_S


class Service(msgspec.Struct, frozen=True):
    """Some nodes leave service, or all come back if there are none."""

    at_s: int
    nodes: tuple[int, ...] = ()


class MachineLog(msgspec.Struct, frozen=True):
    spec: str
    jobs: tuple[Wanted, ...]
    reservations: tuple[Reservation, ...] = ()
    services: tuple[Service, ...] = ()

    def cluster(self) -> MappedCluster:
        return MappedCluster(machine_from(self.spec), self.reservations)


def crowded_machine_log(spec: str, seed: int, jobs_max: int = 16) -> MachineLog:
    """Jobs that mostly wait; two of three with reservations, one of three with nodes that fail."""
    draw = random.Random(f"{spec} {seed}")
    machine = machine_from(spec)
    whole = machine.nodes
    jobs, now = [], 0
    for _ in range(draw.randint(3, jobs_max)):
        now += draw.choice((0, 0, 0, 1, 1, 2, 5))
        nodes, shape = draw.randint(1, draw.choice((whole, whole // 2, 1))), ()
        if spec.startswith("mesh2d") and draw.random() < 0.2:
            nodes, shape = 3, (4, 1)
        run_s, requested_s = sorted((draw.randint(1, 9), draw.randint(1, 9)))
        if machine.could_ever_fit(nodes, shape):
            run_s = draw.choice((run_s, requested_s))
            leaves_s = now + draw.randint(1, 12) if draw.random() < 0.15 else LATEST_S
            jobs.append(Wanted(now, nodes, requested_s, run_s, shape, leaves_s))
    kept: list[Reservation] = []
    for _ in range(0 if seed % 3 == 0 else draw.randint(1, 4)):
        start_s = draw.randint(0, 30)
        each = Reservation(start_s, start_s + draw.randint(1, 8), draw.randint(1, whole))
        try:
            MappedCluster(machine, [*kept, each])
        except InvalidInput:
            continue
        kept.append(each)
    services = []
    if seed % 3 == 2:
        for _ in range(draw.randint(1, 3)):
            gone = draw.sample(range(whole), draw.randint(0, 2))
            services.append(Service(draw.randint(0, 30), tuple(gone)))
        services = [*sorted(services, key=lambda each: each.at_s), Service(40)]
    return MachineLog(spec, tuple(jobs), tuple(kept), tuple(services))


class _Job:
    def __init__(self, order: int, wanted: Wanted) -> None:
        self.order = order
        self.wanted = wanted
        self.start_s = -1
        """When it is to start; -1 while there are too few nodes in service."""
        self.turn = 0
        self.nodes: frozenset[int] = frozenset()

    @property
    def until_s(self) -> int:
        return self.start_s + self.wanted.requested_s


class MachineTwin:
    """Decides as `conservative` does; `starts` are all decisions, in order."""

    def __init__(self, log: MachineLog) -> None:
        self.log = log
        self.starts: list[Start] = []
        self.waiting: list[_Job] = []
        self.running: list[_Job] = []
        """In the order in which they began."""
        self.out: set[int] = set()
        self._empty = machine_from(log.spec)
        self._rooms = [
            (room.start_s, room.end_s, frozenset(partition.nodes))
            for room, partition in log.cluster().rooms
        ]
        self._turns = 0
        self._known: dict[tuple[int, tuple[int, ...], frozenset[int]], Partition | None] = {}

    def run(self) -> list[Start]:
        jobs = [_Job(order, wanted) for order, wanted in enumerate(self.log.jobs)]
        for now in range(LATEST_S):
            for service in self.log.services:
                if service.at_s == now:
                    self.out = self.out | set(service.nodes) if service.nodes else set()
                    self._promise_anew(now)
            for job in list(self.waiting):
                if job.wanted.leaves_s == now and job in self.waiting:
                    self.waiting.remove(job)
                    self._look(now)
            for job in jobs:
                if job.wanted.submit_s == now:
                    self.waiting.append(job)
                    others_are_due = any(other.start_s == now for other in self.waiting)
                    self._book(job, now, LATEST_S)
                    if not others_are_due:
                        self._begin(now)
            while over := [job for job in self.running if job.start_s + job.wanted.run_s == now]:
                self.running.remove(over[0])
                self._look(now)
            if any(job.start_s == now for job in self.waiting):
                self._look(now)
        assert not self.waiting
        assert not self.running
        return self.starts

    def _look(self, now: int) -> None:
        for job in list(self.waiting):
            if job.start_s != now:
                self._book(job, now, LATEST_S if job.start_s < 0 else job.start_s)
        self._begin(now)

    def _promise_anew(self, now: int) -> None:
        for job in self.waiting:
            job.start_s = -1
        self._look(now)

    def _book(self, job: _Job, now: int, before_s: int) -> None:
        """The first second from which some place is free for all of the requested time."""
        for start_s in range(now, before_s):
            found = self._place(job, self._busy(job, start_s))
            if found is not None:
                job.start_s, job.nodes = start_s, frozenset(found.nodes)
                self._turns += 1
                job.turn = self._turns
                return

    def _busy(self, job: _Job, start_s: int) -> frozenset[int]:
        """What others have in one of the seconds in which the job would run."""
        end_s = start_s + job.wanted.requested_s
        others: Iterable[tuple[int, int, frozenset[int]]] = [
            *self._rooms,
            *((each.start_s, each.until_s, each.nodes) for each in self.running),
            *(
                (each.start_s, each.until_s, each.nodes)
                for each in self.waiting
                if each is not job and each.start_s >= 0
            ),
        ]
        return frozenset(self.out).union(
            *(nodes for begin_s, over_s, nodes in others if begin_s < end_s and start_s < over_s)
        )

    def _place(self, job: _Job, busy: Collection[int]) -> Partition | None:
        nodes, shape = job.wanted.nodes, job.wanted.shape
        asked = nodes, shape, frozenset(busy)
        if asked not in self._known:
            machine = self._empty.copy()
            machine.drain(busy)
            self._known[asked] = machine.find(nodes, shape)
        return self._known[asked]

    def _begin(self, now: int) -> None:
        """Whose start was reserved first begins first."""
        for job in sorted(self.waiting, key=lambda job: job.turn):
            if job.start_s == now:
                self.waiting.remove(job)
                self.running.append(job)
                self.starts.append((now, job.order, tuple(sorted(job.nodes))))
