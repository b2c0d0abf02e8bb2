"""Backfilling where nodes have names: conservative as its slow twin, and no promise is ever broken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from tests import effort
from tests.mapped_twin import LATEST_S, MachineLog, MachineTwin, Service, Start, crowded_machine_log

from kalends.machines.spec import machine_from
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.backfill.conservative import Conservative
from kalends.scheduling.policies.backfill.conservative_placed import PlacedConservative
from kalends.scheduling.prediction.frozen import predicted_starts
from kalends.scheduling.profile import NEVER
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob

SMALL = [
    "mesh2d:4x3",
    "mesh2d:8x6:2x2:io=border",
    "mesh2d:3x3:1x1:io=border:fit=first",
    "hypercube:3",
    "torus3d:3x2x2",
    "pool:6",
]
LOGS = range(effort.examples(25))


class Driven:
    """A scheduler that is told all of a log, and what it decided and promised."""

    name = "conservative"

    def __init__(self, log: MachineLog) -> None:
        self.log = log
        self.cluster = log.cluster()
        self.policy = policy_maker(self.name)(self.cluster)
        self.scheduler = Scheduler(self.policy)
        self.running: list[tuple[int, SimulatedJob]] = []
        self.starts: list[Start] = []
        self.promised: dict[SimulatedJob, int] = {}
        """The last promise to each waiting job; those of before nodes changed service are void."""
        self.looked_s = -1
        """When the policy looked last."""
        self.kept = 0
        """Jobs that had to wait, and were started when promised or before."""

    def run(self) -> list[Start]:
        coming = [
            SimulatedJob(
                id=100 + order, submit_s=wanted.submit_s, nodes=wanted.nodes, shape=wanted.shape,
                requested_s=wanted.requested_s, run_s=wanted.run_s,
            )
            for order, wanted in enumerate(self.log.jobs)
        ]  # fmt: skip
        services = list(self.log.services)
        leaving = sorted({wanted.leaves_s for wanted in self.log.jobs} - {LATEST_S})
        now = 0
        while True:
            times = [job.submit_s for job in coming[:1]] + [each.at_s for each in services[:1]]
            times += leaving[:1]
            times += [end_s for end_s, _ in self.running]
            wake_s = self.scheduler.wake_at(now)
            if not times and wake_s is None:
                return self.starts
            now = min(times if wake_s is None else [*times, wake_s])
            while services and services[0].at_s == now:
                self.serve(services.pop(0), now)
            if leaving and leaving[0] == now:
                self.withdraw_at(leaving.pop(0))
            while coming and coming[0].submit_s == now:
                self.submit(coming.pop(0), now)
            while over := [each for each in self.running if each[0] == now]:
                self.running.remove(over[0])
                self.told(self.scheduler.end(over[0][1], now), now)
            if self.looked_s != now or self.scheduler.wake_at(now) == now:
                self.told(self.scheduler.wake(now), now)

    def serve(self, service: Service, now: int) -> None:
        if service.nodes:
            self.cluster.drain(service.nodes)
        else:
            self.cluster.resume(range(self.cluster.nodes))
        self.promised.clear()
        self.told(self.scheduler.wake(now), now)

    def withdraw_at(self, now: int) -> None:
        for job in list(self.policy.waiting()):
            if self.log.jobs[job.id - 100].leaves_s == now and not job.granted:
                self.promised.pop(job, None)
                self.told(self.scheduler.withdraw(job, now), now)

    def submit(self, job: SimulatedJob, now: int) -> None:
        self.told(self.scheduler.submit(job, now), now)

    def told(self, touched: list[SimulatedJob], now: int) -> None:
        """The policy has looked: note who has started, and what is promised to the others."""
        self.looked_s = now
        for job in touched:
            assert job.partition is not None
            self.starts.append((now, job.order, job.partition.nodes))
            self.running.append((now + job.run_s, job))
            if job in self.promised:
                assert now <= self.promised.pop(job), "a job starts when promised, or before"
                self.kept += 1
        for job, promised_s in self.promises(now):
            assert promised_s <= self.promised.get(job, promised_s), "a promise only gets earlier"
            self.promised[job] = promised_s

    def promises(self, now: int) -> Iterator[tuple[SimulatedJob, int]]:
        assert isinstance(self.policy, PlacedConservative)
        for job in self.policy.waiting():
            yield job, self.policy.promised(job)


class DrivenEasy(Driven):
    """Only the head of the queue is promised anything."""

    name = "easy"

    def promises(self, now: int) -> Iterator[tuple[SimulatedJob, int]]:
        for job in islice(self.policy.waiting(), 1):
            shadow_s = self.cluster.promise(job, now).shadow_s
            assert shadow_s > now, "a head that fits is started"
            yield job, shadow_s


@pytest.mark.parametrize("spec", SMALL)
def test_conservative_on_a_machine_decides_as_its_slow_twin(spec: str) -> None:
    for seed in LOGS:
        log = crowded_machine_log(spec, seed)
        if spec.startswith("pool") and not log.reservations:
            continue
        assert Driven(log).run() == MachineTwin(log).run(), log
        effort.steps["random logs under conservative on machines"] += 1


MACHINES = ["mesh2d:6x5", "mesh2d:12x8:2x2:io=inner", "hypercube:5", "torus3d:4x3x2", "pool:24"]


@pytest.mark.parametrize("drive", [Driven, DrivenEasy])
@pytest.mark.parametrize("spec", MACHINES)
def test_nobody_starts_later_than_promised_unless_nodes_leave_service(
    spec: str, drive: type[Driven]
) -> None:
    kept = 0
    for seed in LOGS:
        driven = drive(crowded_machine_log(spec, 3 * seed + 1 + seed % 2, jobs_max=60))
        driven.run()
        kept += driven.kept
    assert kept > 5 * len(LOGS), "jobs must wait, or nothing is promised"
    effort.steps[f"promises of {drive.name} on machines"] += kept


def test_a_job_is_promised_when_its_nodes_are_neighbours_not_when_there_are_enough() -> None:
    scheduler = Scheduler(policy_maker("conservative")(MappedCluster(machine_from("mesh2d:3x1"))))
    first, second, third = (
        SimulatedJob(id=at, submit_s=0, nodes=1, requested_s=length_s, run_s=length_s)
        for at, length_s in enumerate((5, 10, 5))
    )
    for job in (first, second, third):
        assert scheduler.submit(job, 0) == [job]
    assert [job.partition.nodes for job in (first, second, third)] == [(0,), (1,), (2,)]
    pair = SimulatedJob(id=3, submit_s=1, nodes=2, requested_s=5, run_s=5)
    scheduler.submit(pair, 1)
    assert scheduler.policy.promised(pair) == 10
    assert not scheduler.end(first, 5) + scheduler.end(third, 5)
    assert scheduler.end(second, 9) == [pair]


def test_a_shorter_job_goes_before_only_on_nodes_that_leave_the_promise_standing() -> None:
    scheduler = Scheduler(policy_maker("conservative")(MappedCluster(machine_from("mesh2d:4x1"))))
    long, wide, narrow = (
        SimulatedJob(id=at, submit_s=0, nodes=nodes, requested_s=length_s, run_s=length_s)
        for at, (nodes, length_s) in enumerate(((2, 10), (3, 10), (1, 30)))
    )
    for job in (long, wide, narrow):
        scheduler.submit(job, 0)
    assert long.partition.nodes == (0, 1)
    assert scheduler.policy.promised(wide) == 10
    assert narrow.partition.nodes == (3,), "node 2 is reserved from 10 on"


def test_named_nodes_are_reserved_where_counting_them_would_not_do() -> None:
    kept = [Reservation(5, 9, 1)]
    policies = {
        spec: [
            type(policy_maker("conservative")(MappedCluster(machine_from(spec), rooms)))
            for rooms in ((), kept)
        ]
        for spec in ("pool:4", "mesh2d:2x2")
    }
    assert policies == {
        "pool:4": [Conservative, PlacedConservative],
        "mesh2d:2x2": [PlacedConservative, PlacedConservative],
    }


def test_a_job_that_waits_for_nodes_to_come_back_is_promised_nothing_and_holds_nothing_back() -> (
    None
):
    cluster = MappedCluster(machine_from("mesh2d:3x1"))
    scheduler = Scheduler(policy_maker("conservative")(cluster))
    cluster.drain([1])
    pair = SimulatedJob(id=0, submit_s=0, nodes=2, requested_s=5, run_s=5)
    single = SimulatedJob(id=1, submit_s=0, nodes=1, requested_s=5, run_s=5)
    assert not scheduler.submit(pair, 0)
    assert scheduler.policy.promised(pair) == NEVER
    assert scheduler.submit(single, 0) == [single]
    cluster.resume([1])
    assert scheduler.wake(1) == [pair]


def test_after_an_end_that_was_told_too_late_all_are_promised_anew() -> None:
    scheduler = Scheduler(policy_maker("conservative")(MappedCluster(machine_from("mesh2d:3x1"))))
    first, second, third = (
        SimulatedJob(id=at, submit_s=0, nodes=3, requested_s=10, run_s=10) for at in range(3)
    )
    for job in (first, second, third):
        scheduler.submit(job, 0)
    assert scheduler.policy.promised(third) == 20
    assert scheduler.end(first, 12) == [second]
    assert scheduler.policy.promised(third) == 22
    assert not scheduler.withdraw(third, 30)
    assert not scheduler.end(second, 31)


class Predicting(Driven):
    def told(self, touched: list[SimulatedJob], now: int) -> None:
        super().told(touched, now)
        predicted = predicted_starts(self.scheduler, now)
        assert predicted.keys() == self.promised.keys()
        assert all(start_s <= self.promised[job] for job, start_s in predicted.items())


@pytest.mark.parametrize("spec", ["mesh2d:4x3", "hypercube:3"])
def test_a_frozen_copy_starts_everybody_when_promised_or_before_and_changes_nothing(
    spec: str,
) -> None:
    for seed in LOGS:
        log = crowded_machine_log(spec, 3 * seed)
        assert Predicting(log).run() == Driven(log).run()
