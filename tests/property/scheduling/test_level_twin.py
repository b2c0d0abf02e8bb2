"""Every level policy starts every job when its slow twin does: exact and wrong estimates, counting and
mapped machines, with and without the handshake, thresholds and advance reservations."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests import effort
from tests.level_twin import Fixed, LevelTwin, Mapper, Twin, Wish

from kalends.core.errors import InvalidInput
from kalends.machines.partitions import Partition, Planned
from kalends.machines.spec import machine_from
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.levels.packing import (
    FcfsStar,
    Ffdh,
    FfdhStar,
    Ffih,
    FfihStar,
    LevelPolicy,
)
from kalends.scheduling.policies.levels.voting import Ivs
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

POLICIES: dict[str, type[LevelPolicy]] = {
    "ffdh": Ffdh, "ffih": Ffih, "ffdh*": FfdhStar, "ffih*": FfihStar, "fcfs*": FcfsStar, "ivs": Ivs,
}  # fmt: skip
Drawn = tuple[int, int, int, int, int, bool]
"""Submitted, nodes, requested, run, priority, interactive."""
MACHINES = ["mesh2d:4x4", "mesh2d:6x2", "hypercube:3", "mesh2d:4x4:2x2:io=border"]


def mapper_of(machine_text: str) -> Mapper:
    """The machine's own mapper, told everything anew each time."""

    def ask(fixed: list[Fixed], wishes: list[Wish]) -> list[Any]:
        schedule = [
            Planned(-1 - number, len(place), start, end, (), Partition(tuple(place)))
            for number, (start, end, place) in enumerate(fixed)
        ]
        schedule += [
            Planned(number, nodes, start, end) for number, (nodes, start, end) in enumerate(wishes)
        ]
        verdict = machine_from(machine_text).verify(schedule)
        found = [verdict.partitions.get(number) for number in range(len(wishes))]
        return [each and each.nodes for each in found]

    return ask


def random_jobs(draw: random.Random, nodes: int) -> list[Drawn]:
    """A few, a crowd now and then."""
    exact, now, jobs = draw.random() < 0.4, 0, []
    widest, longest = draw.choice((nodes, nodes // 2)), draw.choice((3, 9))
    for _ in range(draw.randint(2, 14)):
        now += draw.choice((0, 0, 1, 2, 5))
        requested = draw.randint(1, longest)
        run = requested if exact else draw.randint(1, requested)
        jobs.append((now, draw.randint(1, widest), requested, run, draw.randint(0, 3),
                     draw.random() < 0.5))  # fmt: skip
    return jobs


def early_crowd(draw: random.Random, nodes: int) -> list[Drawn]:
    """Many, none of them wide, that mostly end before their time."""
    now, jobs = 0, []
    for _ in range(draw.randint(25, 45)):
        now += draw.choice((0, 0, 1, 2))
        requested = draw.randint(1, 12)
        run = draw.randint(1, requested)
        jobs.append((now, draw.randint(1, nodes // 2), requested, run, 0, draw.random() < 0.5))
    return jobs


def compare(
    rule: str,
    seed: int,
    *,
    mapped: bool,
    reserved: bool = False,
    log_of: Callable[[random.Random, int], list[Drawn]] = random_jobs,
) -> None:
    draw = random.Random(seed)
    machine_text = draw.choice(MACHINES)
    verified, threshold = draw.random() < 0.5, draw.choice((0, 0, 4, 30))
    nodes = machine_from(machine_text).nodes
    reservations = []
    if reserved:
        start = draw.randint(0, 20)
        reservations = [Reservation(start, start + draw.randint(1, 9), draw.randint(1, nodes))]
    cluster = (
        MappedCluster(machine_from(machine_text), reservations)
        if mapped
        else Cluster(nodes, reservations)
    )
    log = log_of(draw, nodes)
    log = [job for job in log if not mapped or cluster.could_ever_fit(as_job(0, job))]
    twin = LevelTwin(rule, nodes, mapper_of(machine_text) if mapped else None, verified, threshold)
    rooms = cluster.rooms if isinstance(cluster, MappedCluster) else []
    twin.reserved = [
        (room.start_s, room.end_s, room.nodes, partition.nodes) for room, partition in rooms
    ] or [(each.start_s, each.end_s, each.nodes, None) for each in reservations]
    machine = machine_from(machine_text)
    twins = [
        Twin(
            order,
            submit,
            machine.granted(wide) if mapped else wide,
            requested,
            run,
            priority,
            inter,
        )
        for order, (submit, wide, requested, run, priority, inter) in enumerate(log)
    ]
    twin.run(twins)
    jobs = [as_job(number, job) for number, job in enumerate(log)]
    policy = POLICIES[rule](cluster, threshold_s=threshold, verified=verified)
    assert len(list(replay(jobs, Scheduler(policy)))) == len(jobs)
    assert [job.start_s for job in jobs] == [job.until - job.requested for job in twins], seed
    if mapped:
        assert [job.partition and job.partition.nodes for job in jobs] == [
            job.place for job in twins
        ], seed


def as_job(number: int, job: Drawn) -> SimulatedJob:
    submit, nodes, requested, run, priority, interactive = job
    return SimulatedJob(
        id=number, submit_s=submit, nodes=nodes, requested_s=requested, run_s=run,
        priority=priority, interactive=interactive,
    )  # fmt: skip


def seeds(everyday: int) -> range:
    return range(effort.examples(everyday))


@pytest.mark.parametrize("rule", POLICIES)
def test_jobs_start_when_the_slow_twin_says_where_nodes_are_counted(rule: str) -> None:
    for seed in seeds(150):
        compare(rule, seed, mapped=False)
        effort.steps[f"logs {rule}, counting"] += 1


@pytest.mark.parametrize("rule", POLICIES)
def test_jobs_start_where_and_when_the_slow_twin_says_beside_a_mapper(rule: str) -> None:
    for seed in seeds(60):
        compare(rule, seed, mapped=True)
        effort.steps[f"logs {rule}, mapped"] += 1


@pytest.mark.parametrize("rule", POLICIES)
def test_who_is_moved_to_the_start_of_others_takes_its_turn_in_the_order_of_packing(
    rule: str,
) -> None:
    """Only where many wait and all end early does it matter."""
    for seed in range(effort.examples(14)):
        compare(rule, seed, mapped=False, log_of=early_crowd)
        effort.steps[f"logs {rule}, early ends"] += 1


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("rule", POLICIES)
def test_jobs_start_when_the_slow_twin_says_beside_advance_reservations(
    rule: str, mapped: bool
) -> None:
    for seed in seeds(40):
        try:
            compare(rule, seed, mapped=mapped, reserved=True)
        except InvalidInput:
            continue  # The machine has no such partition.
        effort.steps[f"logs {rule}, reservations"] += 1
