"""What a user's limits leave of the gaps of a machine."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.plans import gaps_within
from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.contract.job_calls import NodeGap
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal

NOW = 1_000
GAPS = [NodeGap(nodes=8, until=1_100), NodeGap(nodes=4, until=1_500), NodeGap(nodes=2, until=0)]


def within(user: str, job: JobRequest | None = None, **limits: Any) -> list[tuple[int, int]]:
    """The gaps for `user` after Ann has submitted a job."""
    terms = f.Terms(machine="pool:8", user=f.JobLimits(**limits))
    queue = BatchQueue("lab/box", terms, NOW)
    if job is not None:
        queue.submit(Principal("ann"), job, "the-key-1", NOW)
    left = queue.flow.accounts.left(user, NOW)
    found = gaps_within(GAPS, NOW, left.nodes, left.longest_s, left.node_seconds)
    return [(gap.nodes, gap.until) for gap in found]


ONE = JobRequest(machine="lab/box", nodes=5, limit_s=60, command=("true",))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [(8, 1_100), (4, 1_500), (2, 0)]),
        ({"nodes": 8}, [(3, 1_500), (2, 0)]),
        ({"nodes": 5}, []),
        ({"running": 1}, []),
        ({"longest_s": 300}, [(8, 1_100), (4, 1_300), (2, 1_300)]),
        ({"node_seconds": 1_100}, [(8, 1_100), (4, 1_200), (2, 1_400)]),
        ({"node_seconds": 300}, []),
    ],
)
def test_only_what_limits_leave_beside_ones_own_jobs_is_a_gap(
    limits: dict[str, int], expected: list[tuple[int, int]]
) -> None:
    assert within("ann", ONE, **limits) == expected


def test_the_jobs_of_others_take_nothing_of_ones_own_limits() -> None:
    assert within("bob", ONE, nodes=8) == [(8, 1_100), (4, 1_500), (2, 0)]
