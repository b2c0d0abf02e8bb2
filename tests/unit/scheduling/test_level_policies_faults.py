"""What does not go as planned: nodes that leave service, ends that come late, advance reservations on a
machine with a topology. Nobody starves, nobody gets a node that is not to be had."""

from __future__ import annotations

import random

import pytest
from tests import effort

from kalends.machines.spec import machine_from
from kalends.scheduling import Cluster, Job, Reservation, Scheduler, policy_maker
from kalends.scheduling.mapped import MappedCluster
from kalends.scheduling.policies.levels.packing import Ffdh, LevelPolicy
from kalends.scheduling.registry import POLICIES
from kalends.simulation.job import SimulatedJob
from kalends.simulation.kernel import replay

BORDER = "mesh2d:8x8:2x2:io=border"
LEVELS = ["ffdh", "ffih", "ffdh*", "ffih*", "fcfs*", "ivs", "ivs-autonomous"]
EVERY = [f"{info.name}:10" if info.number else info.name for info in POLICIES]
every_level_policy = pytest.mark.parametrize("name", LEVELS)


def random_log(draw: random.Random, nodes: int) -> list[SimulatedJob]:
    jobs, now = [], 0
    for number in range(draw.randint(2, 18)):
        now += draw.choice((0, 0, 1, 3))
        requested_s = draw.randint(1, 12)
        jobs.append(
            SimulatedJob(
                id=number, submit_s=now, nodes=draw.randint(1, draw.choice((nodes // 8, nodes))),
                requested_s=requested_s, run_s=draw.randint(1, requested_s),
                priority=draw.randint(0, 3), interactive=draw.random() < 0.5,
            )
        )  # fmt: skip
    return jobs


def busy_seconds(job: SimulatedJob) -> set[int]:
    paused = {second for start_s, end_s in job.pauses for second in range(start_s, end_s)}
    return set(range(job.start_s, job.end_s)) - paused


@pytest.mark.parametrize("name", EVERY)
def test_every_policy_starts_every_job_on_a_mesh_beside_reservations_and_keeps_them(
    name: str,
) -> None:
    for seed in range(effort.examples(12)):
        draw = random.Random(seed)
        cluster = mesh_with_rooms(draw)
        jobs = [job for job in random_log(draw, 64) if cluster.could_ever_fit(job)]
        ended = list(replay(jobs, Scheduler(policy_maker(name)(cluster))))
        assert len(ended) == len(jobs)
        for job in jobs:
            assert job.partition is not None
            # Who was stopped and went on may have had other nodes before.
            if not job.pauses:
                for room, partition in cluster.rooms:
                    kept = set(range(room.start_s, room.end_s)) & busy_seconds(job)
                    assert not kept or not set(partition.nodes) & set(job.partition.nodes)
        effort.steps[f"logs {name}, reservations on a mesh"] += 1


def mesh_with_rooms(draw: random.Random) -> MappedCluster:
    starts = [20 * number + draw.randint(0, 5) for number in range(draw.randint(1, 3))]
    return MappedCluster(
        machine_from(BORDER),
        [Reservation(at, at + draw.randint(1, 14), draw.randint(1, 40)) for at in starts],
    )


@pytest.mark.parametrize("name", LEVELS[:-1])
def test_whom_the_mapper_has_verified_beside_reservations_starts_no_later_than_promised(
    name: str,
) -> None:
    for seed in range(effort.examples(40)):
        draw = random.Random(seed)
        cluster = mesh_with_rooms(draw)
        policy = policy_maker(name)(cluster)
        assert isinstance(policy, LevelPolicy)
        promised: dict[int, int] = {}
        policy.entered = lambda job, start_s, promised=promised: promised.update({job.id: start_s})
        jobs = [job for job in random_log(draw, 64) if cluster.could_ever_fit(job)]
        for job in replay(jobs, Scheduler(policy)):
            assert job.start_s <= promised[job.id], seed


def test_a_partition_that_is_reserved_for_some_of_the_time_is_not_given_by_name() -> None:
    cluster = MappedCluster(machine_from("mesh2d:4x4"), [Reservation(5, 9, 4)])
    [(_, kept)] = cluster.rooms
    early, long, late = job(0, 4, 5), job(1, 4, 6), job(2, 4, 6)
    assert not cluster.start_on(long, kept, 0)
    assert cluster.free == 16
    assert cluster.start_on(early, kept, 0)
    cluster.end(early)
    assert not cluster.start_on(late, kept, 8)
    assert cluster.start_on(late, kept, 9)


def cluster_of(text: str) -> Cluster:
    return MappedCluster(machine_from(text)) if text != "count" else Cluster(16)


@pytest.mark.parametrize("machine", ["count", "mesh2d:4x4", "mesh2d:4x4:2x2:io=border"])
@every_level_policy
def test_nodes_come_and_go_and_every_job_starts_in_the_end_on_nodes_in_service(
    name: str, machine: str
) -> None:
    for seed in range(effort.examples(15)):
        draw = random.Random(seed)
        cluster = cluster_of(machine)
        scheduler = Scheduler(policy_maker(name)(cluster))
        coming = random_log(draw, 16)
        coming = [job for job in coming if cluster.could_ever_fit(job)]
        running: list[SimulatedJob] = []
        out: set[int] = set()
        begun = 0

        def note(touched: list[Job], now: int, running: list[SimulatedJob] = running) -> int:
            for job in touched:
                assert isinstance(job, SimulatedJob)
                job.reckon(now)
                running.append(job)
            return len(touched)

        expected = len(coming)
        for now in range(400):
            while coming and coming[0].submit_s == now:
                begun += note(scheduler.submit(coming.pop(0), now), now)
            for job in [each for each in running if each.end_s == now]:
                running.remove(job)
                begun += note(scheduler.end(job, now), now)
            # In the end everything is repaired.
            wanted = set(draw.sample(range(16), draw.randint(0, 9))) if now < 60 else set()
            if now % 7 == 3:
                cluster.resume(out)
                cluster.drain(wanted)
                out = wanted
                before = set(running_ids(running))
                begun += note(scheduler.wake(now), now)
                for job in running:
                    if job.id not in before and job.partition is not None:
                        assert not set(job.partition.nodes) & out
            wake_s = scheduler.wake_at(now)
            assert wake_s is None or wake_s > now
            begun += note(scheduler.wake(now), now)
        assert begun == expected, seed
        assert not running
        effort.steps[f"logs {name}, nodes out of service"] += 1


def running_ids(running: list[SimulatedJob]) -> list[int]:
    return [job.id for job in running]


def job(number: int, nodes: int, requested_s: int) -> Job:
    return Job(id=number, submit_s=0, nodes=nodes, requested_s=requested_s)


@pytest.mark.parametrize("machine", ["count", "mesh2d:4x4"])
@every_level_policy
def test_who_needs_drained_nodes_is_held_while_others_go_on_and_starts_when_they_are_back(
    name: str, machine: str
) -> None:
    cluster = cluster_of(machine)
    scheduler = Scheduler(policy_maker(name)(cluster))
    first, wide, small, gone = job(0, 16, 5), job(1, 16, 5), job(2, 4, 5), job(3, 15, 5)
    for each in (first, wide, small, gone):
        scheduler.submit(each, 0)
    cluster.drain([0, 1, 2, 3])
    assert scheduler.wake(1) == []
    assert scheduler.end(first, 5) == [small]
    assert list(scheduler.policy.waiting()) == [wide, gone]
    assert scheduler.end(small, 10) == []
    assert scheduler.wake_at(10) is None, "nothing to be done until somebody repairs them"
    scheduler.withdraw(gone, 11)
    assert list(scheduler.policy.waiting()) == [wide]
    cluster.resume([0, 1, 2, 3])
    assert scheduler.wake(20) == [wide]


@every_level_policy
def test_a_job_submitted_while_too_few_nodes_are_in_service_waits_for_them(name: str) -> None:
    cluster = cluster_of("mesh2d:4x4")
    scheduler = Scheduler(policy_maker(name)(cluster))
    cluster.drain([5])
    wide, small = job(0, 16, 5), job(1, 4, 5)
    assert scheduler.submit(wide, 0) == []
    assert scheduler.submit(small, 0) == [small]
    assert scheduler.end(small, 5) == []
    cluster.resume([5])
    assert scheduler.wake(6) == [wide]


@pytest.mark.parametrize("machine", ["count", "mesh2d:4x4"])
@every_level_policy
def test_a_job_killed_at_its_limit_may_end_some_seconds_late(name: str, machine: str) -> None:
    """Its nodes count as free from its limit on; who is planned behind it starts, and nothing is lost."""
    cluster = cluster_of(machine)
    scheduler = Scheduler(policy_maker(name)(cluster))
    late, second, third = job(0, 16, 5), job(1, 8, 4), job(2, 16, 4)
    for each in (late, second, third):
        scheduler.submit(each, 0)
    begun = scheduler.wake(5)
    assert begun[:1] in ([second], [third])
    begun += scheduler.end(late, 8)
    for now in range(9, 20):
        for each in [each for each in (second, third) if each.granted and each.until_s <= now]:
            begun += scheduler.end(each, now)
        begun += scheduler.wake(now)
    assert sorted(each.id for each in begun) == [1, 2]
    assert cluster.free == 16


def test_a_queue_that_wakes_later_than_a_level_should_begin_goes_on() -> None:
    """Who is refused then must not be put into that level, whose beginning has passed."""
    scheduler = Scheduler(policy_maker("ffih")(Cluster(8, live=True)))
    first, second, third, fourth = job(0, 4, 5), job(1, 6, 5), job(2, 7, 5), job(3, 7, 20)
    for each, now in ((first, 0), (second, 2), (third, 75), (fourth, 400)):
        scheduler.submit(each, now)
    assert scheduler.end(first, 420) == [second]
    scheduler.reserve(Reservation(525, 581, 4, "c"), 472)
    now, begun = 543, scheduler.end(second, 543)
    for each in (third, fourth):
        while each not in begun:
            wake_s = scheduler.wake_at(now)
            assert wake_s is not None
            now = wake_s
            begun += scheduler.wake(now)
        now = max(now, each.until_s)
        begun += scheduler.end(each, now)
    assert scheduler.waiting == 0


def test_a_job_that_the_machine_refused_goes_first_at_the_next_scheduling_point() -> None:
    """Last in its level it would be refused again, by those of its level, and starve in the long run."""
    cluster = cluster_of("mesh2d:4x4")
    wishes = [(16, 1), (8, 3), (4, 3), (9, 3), (4, 3)]
    jobs = [
        SimulatedJob(id=number, submit_s=0, nodes=nodes, requested_s=length_s, run_s=length_s)
        for number, (nodes, length_s) in enumerate(wishes)
    ]
    list(replay(jobs, Scheduler(Ffdh(cluster, verified=False))))
    # The job of 9 nodes is planned beside one of 4, at 4; a square of 9 leaves no square of 4.
    assert [job.start_s for job in jobs] == [0, 1, 4, 7, 7]
