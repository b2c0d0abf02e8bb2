"""Every policy decides as its slow twin does: the same starts and stops, at the same times, in order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests import effort
from tests.policy_logs import SmallLog, crowded_log, decided, decided_by_twin, deep_log, small_logs
from tests.policy_twins import TWINS
from tests.pyss_twin import pyss_starts


def same(policy: str, log: SmallLog) -> None:
    assert decided(log, policy) == decided_by_twin(log, policy)
    effort.steps[f"random logs under {policy}"] += 1


@pytest.mark.parametrize("policy", TWINS)
@given(log=small_logs(reserved=False))
@settings(max_examples=effort.examples(30))
def test_a_policy_decides_as_its_slow_twin(policy: str, log: SmallLog) -> None:
    same(policy, log)


@pytest.mark.parametrize("policy", TWINS)
@given(log=small_logs(reserved=True))
@settings(max_examples=effort.examples(30))
def test_a_policy_decides_as_its_slow_twin_among_reservations(policy: str, log: SmallLog) -> None:
    same(policy, log)


@pytest.mark.parametrize("policy", TWINS)
def test_a_policy_decides_as_its_slow_twin_on_crowded_logs(policy: str) -> None:
    for seed in range(effort.examples(200)):
        same(policy, crowded_log(seed))


@pytest.mark.parametrize("seed", [877, 2531])
def test_a_job_stopped_and_started_again_in_one_second_ends_after_those_begun_before(
    seed: int,
) -> None:
    same("preemptive", crowded_log(seed))


def test_conservative_starts_all_jobs_when_pyss_does() -> None:
    for seed in range(effort.examples(500)):
        log = deep_log(seed)
        jobs = [(submit, nodes, asked, run) for submit, nodes, asked, run, _ in log.jobs]
        starts = {order: now for now, order, _ in decided(log, "conservative")}
        assert [starts[order] for order in range(len(jobs))] == pyss_starts(jobs, log.nodes), seed
    effort.steps["random logs under the rules of pyss"] += effort.examples(500)


def test_conservative_starts_first_whose_start_was_reserved_first() -> None:
    """Jobs 2 and 3 start and end in the same seconds; which of them ends first decides about the last two."""
    jobs = ((0, 3, 2, 2, 0), (0, 2, 4, 3, 0), (2, 2, 6, 3, 0), (2, 4, 4, 4, 0), (2, 1, 3, 1, 0))
    log = SmallLog(4, jobs)
    starts = pyss_starts([job[:4] for job in jobs], 4)
    assert sorted((order, now) for now, order, _ in decided(log, "conservative")) == list(
        enumerate(starts)
    )
