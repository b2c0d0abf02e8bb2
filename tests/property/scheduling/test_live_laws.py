"""A live queue under every policy: ends are late, reservations come and go, nothing is used twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import effort
from tests.live_worlds import ALL, CLUSTERS, LiveWorld
from tests.policy_logs import SmallLog, crowded_log, decided

from kalends.scheduling import Cluster, Job
from kalends.scheduling.node_numbers import NodeNumbers
from kalends.scheduling.policies.backfill.promises import displaced
from kalends.scheduling.profile import Profile
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


BUSY = st.lists(st.tuples(st.integers(0, 15), st.integers(1, 9), st.integers(1, 5)), max_size=8)


@given(BUSY, BUSY)
def test_those_submitted_last_give_way_where_room_is_missing(
    busy: list[tuple[int, int, int]], promised: list[tuple[int, int, int]]
) -> None:
    free = Profile.of(0, 8, [(start, start + length, nodes) for start, length, nodes in busy])
    jobs = [Job(number, 0, 1, 1, order=number) for number in range(len(promised))]
    taken = [(at, at + length, nodes) for at, length, nodes in promised]
    gone: set[int] = set()
    for time_s in range(30):
        while True:
            there = [
                number
                for number, (start_s, end_s, _) in enumerate(taken)
                if start_s <= time_s < end_s and number not in gone
            ]
            if not there or sum(taken[number][2] for number in there) <= free.at(time_s):
                break
            gone.add(there[-1])
    found = displaced([(*each, job) for each, job in zip(taken, jobs, strict=True)], free)
    assert [job.order for job in found] == sorted(gone)


@given(st.lists(st.tuples(st.sampled_from("tgdr"), st.integers(0, 99)), max_size=40))
def test_nodes_have_one_job_each_and_none_of_those_out_of_service_is_given(
    events: list[tuple[str, int]],
) -> None:
    """A set of idle nodes is the twin: of each part, the lowest that are in service are given."""
    numbers, parts = NodeNumbers([3, 5]), (range(3), range(3, 8))
    idle, out = set(range(8)), frozenset[int]()
    given_away = []
    for event, number in events:
        if event == "t":
            ready = [sorted(idle.intersection(part) - out) for part in parts]
            counts = [number % (len(each) + 1) for each in ready]
            lowest = [
                node for each, count in zip(ready, counts, strict=True) for node in each[:count]
            ]
            partition = numbers.take(counts)
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
