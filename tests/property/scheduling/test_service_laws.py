"""Every policy while nodes leave service and come back: jobs wait for them, and none is lost."""

from __future__ import annotations

import pytest
from tests import effort
from tests.service_worlds import CLUSTERS, ServiceWorld

from kalends.scheduling.registry import POLICIES

ALL = [info.name + (":50" if info.number and not info.optional else "") for info in POLICIES]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", ALL)
def test_jobs_wait_for_nodes_that_are_out_of_service_and_none_is_lost(
    policy: str, cluster: str
) -> None:
    for seed in range(effort.examples(6)):
        ServiceWorld(policy, cluster, seed).run(30)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("policy", ALL)
def test_the_same_holds_beside_advance_reservations(policy: str, cluster: str) -> None:
    for seed in range(effort.examples(3)):
        ServiceWorld(policy, cluster, seed, reserved=True).run(30)
