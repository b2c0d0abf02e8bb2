"""A live queue under every policy: ends are late, reservations come and go, nothing is used twice."""

from __future__ import annotations

import pytest
from tests import effort
from tests.live_worlds import ALL, CLUSTERS, LiveWorld

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
