"""What a reservation is said to delay is what it does delay, under every policy that runs live."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import effort

from kalends.core.errors import Conflict
from kalends.scheduling.cluster import Cluster
from kalends.scheduling.job import Job
from kalends.scheduling.prediction.frozen import delays, predicted_starts
from kalends.scheduling.registry import policy_maker
from kalends.scheduling.reservations import Reservation
from kalends.scheduling.scheduler import Scheduler

NODES = 8
NOW = 1_000
JOBS = st.lists(st.tuples(st.integers(1, NODES), st.integers(1, 20)), min_size=1, max_size=10)
SPANS = st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(1, NODES))


def scheduler_with(policy: str, jobs: list[tuple[int, int]]) -> Scheduler:
    scheduler = Scheduler(policy_maker(policy)(Cluster(NODES, live=True)))
    for number, (nodes, minutes) in enumerate(jobs, 1):
        scheduler.submit(Job(number, NOW, nodes, 60 * minutes), NOW)
    return scheduler


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "sjf", "ffdh*", "ffih"])
@settings(max_examples=effort.examples(25))
@given(jobs=JOBS, span=SPANS)
def test_delays_are_those_that_follow_when_it_is_reserved(
    policy: str, jobs: list[tuple[int, int]], span: tuple[int, int, int]
) -> None:
    begin, minutes, nodes = span
    wanted = Reservation(NOW + 60 * begin, NOW + 60 * (begin + minutes), nodes, "asked about")
    scheduler = scheduler_with(policy, jobs)
    before = predicted_starts(scheduler, NOW)
    found = delays(scheduler, wanted, NOW, before)
    assert predicted_starts(scheduler, NOW) == before, "nothing was changed by asking"
    try:
        scheduler.reserve(wanted, NOW)
    except Conflict:
        assert found is None
        return
    after = {job.id: start_s for job, start_s in predicted_starts(scheduler, NOW).items()}
    later = {
        job.id: after[job.id] - start_s
        for job, start_s in before.items()
        if after.get(job.id, start_s) > start_s
    }
    assert found == later
