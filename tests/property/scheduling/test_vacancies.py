"""What is said to start at once does, under every policy, on every kind of machine."""

from __future__ import annotations

from copy import deepcopy

import pytest
from tests.effort import EFFORT
from tests.live_worlds import ALL, CLUSTERS, EVENTS, LiveWorld

from kalends.scheduling import Job, Scheduler
from kalends.scheduling.prediction.vacancies import vacancies

LONGEST_S = 1_000


def world_at(policy: str, cluster: str, seed: int) -> LiveWorld:
    world = LiveWorld(policy, cluster, seed)
    for _ in range(5 + 5 * (seed % 8)):
        world.pass_time(world.draw.choice((0, 0, 1, 1, 2, 5)))
        world.draw.choice(EVENTS)(world)
    world.tell("wake")
    return world


def starts(scheduler: Scheduler, now: int, nodes: int, length_s: int) -> bool:
    """Whether such a job would really start, of a live queue where who is to stop stands still."""
    job, copied = Job(10_000, now, nodes, length_s), deepcopy(scheduler)
    copied.submit(job, now)
    while stopping := [each for _, _, each in copied.cluster.ends if each.stopping]:
        copied.stopped(stopping[0], now)
    return bool(job.granted)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", ALL)
def test_every_opening_can_be_filled_at_once(policy: str, cluster: str) -> None:
    seen = 0
    for seed in range(8 * EFFORT):
        world = world_at(policy, cluster, seed)
        before = list(world.scheduler.policy.waiting())
        found = vacancies(world.scheduler, world.now, LONGEST_S)
        assert list(world.scheduler.policy.waiting()) == before
        assert [each.nodes for each in found] == sorted(
            {each.nodes for each in found}, reverse=True
        )
        for nodes, until_s in found:
            assert starts(world.scheduler, world.now, nodes, min(until_s - world.now, LONGEST_S))
        seen += len(found)
    assert seen, "no world had any"


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_no_opening_could_be_longer(policy: str) -> None:
    for seed in range(10 * EFFORT):
        world = world_at(policy, "counted", seed)
        for nodes, until_s in vacancies(world.scheduler, world.now, LONGEST_S):
            length_s = until_s - world.now + 1
            assert length_s > LONGEST_S or not starts(world.scheduler, world.now, nodes, length_s)
