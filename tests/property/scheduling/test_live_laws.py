"""A live queue under every policy: ends are late, reservations come and go, nothing is used twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import effort
from tests.live_worlds import ALL, CLUSTERS, LiveWorld
from tests.policy_logs import SmallLog, crowded_log, decided

from kalends.scheduling import Cluster, Job, Scheduler
from kalends.scheduling.node_numbers import NodeNumbers
from kalends.scheduling.policies.backfill.conservative import Conservative
from kalends.scheduling.registry import POLICIES

OWN = ["easy", "conservative", "ffdh*", "preemptive", "reconfigurable"]
"""Policies of every kind that also run as if they were a user's."""


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", ALL)
def test_whatever_happens_no_node_is_used_twice_and_no_job_is_lost(
    policy: str, cluster: str
) -> None:
    for seed in range(effort.examples(5)):
        LiveWorld(policy, cluster, seed).run(40)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", ALL)
def test_the_same_events_give_the_same_starts_again(policy: str, cluster: str) -> None:
    for seed in range(100, 100 + effort.examples(2)):
        world = LiveWorld(policy, cluster, seed)
        world.run(30)
        assert world.replayed() == world.starts


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", OWN)
def test_the_same_holds_under_a_policy_of_the_owners_own(policy: str, cluster: str) -> None:
    where = next(info.where for info in POLICIES if info.name == policy)
    for seed in range(effort.examples(5)):
        LiveWorld(where, cluster, seed).run(40)


@pytest.mark.parametrize("policy", ALL)
def test_a_live_queue_decides_as_the_simulator_does_as_long_as_nobody_is_late(policy: str) -> None:
    def live(log: SmallLog) -> Cluster:
        return Cluster(log.nodes, log.reserved(), live=True)

    for seed in range(effort.examples(30)):
        log = crowded_log(seed)
        early = tuple((at, nodes, more + 1, run, rank) for at, nodes, more, run, rank in log.jobs)
        log = SmallLog(log.nodes, early, log.reservations)
        assert decided(log, policy, live) == decided(log, policy)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9)), max_size=12), st.integers(0, 9))
def test_promises_are_made_anew_in_order_of_submission_when_a_job_is_late(
    waiting: list[tuple[int, int]], late_s: int
) -> None:
    """The twin looks at every second."""
    policy = Conservative(Cluster(8, live=True))
    scheduler = Scheduler(policy)
    late = Job(0, 0, 8, 5)
    scheduler.submit(late, 0)
    for number, (nodes, length_s) in enumerate(waiting, 1):
        scheduler.submit(Job(number, 0, nodes, length_s), 0)
    promised = {job: policy.promised(job) for job in policy.waiting()}
    now = 5 + late_s
    scheduler.wake(now)
    free = [0] * late.until_s + [8] * 200

    def book(job: Job, start_s: int, nodes: int) -> None:
        for at in range(start_s, start_s + job.requested_s):
            free[at] -= nodes

    def fits(job: Job, start_s: int) -> bool:
        return min(free[start_s : start_s + job.requested_s]) >= job.nodes

    for job, start_s in promised.items():
        start_s = max(start_s, now)
        if not fits(job, start_s):
            start_s = next(at for at in range(now, 200) if fits(job, at))
        promised[job] = start_s
        book(job, start_s, job.nodes)
    for job, start_s in promised.items():
        book(job, start_s, -job.nodes)
        promised[job] = next(at for at in range(now, start_s + 1) if fits(job, at))
        book(job, promised[job], job.nodes)
    assert {job: policy.promised(job) for job in policy.waiting()} == promised


@given(st.lists(st.tuples(st.sampled_from("tgdr"), st.integers(0, 99)), max_size=40))
def test_nodes_have_one_job_each_and_none_of_those_out_of_service_is_given(
    events: list[tuple[str, int]],
) -> None:
    """A set of idle nodes is the twin: the lowest that are in service are given."""
    numbers = NodeNumbers(8)
    idle, out = set(range(8)), frozenset[int]()
    given_away = []
    for event, number in events:
        if event == "t":
            ready = sorted(idle - out)
            lowest = ready[: number % (len(ready) + 1)]
            partition = numbers.take(len(lowest))
            assert list(partition.nodes) == lowest
            idle.difference_update(lowest)
            given_away.append(partition)
        elif event == "g" and given_away:
            partition = given_away.pop(number % len(given_away))
            numbers.give_back(partition)
            idle.update(partition.nodes)
        else:
            out = out ^ {number % 8}
            numbers.serve_all_but(out)
