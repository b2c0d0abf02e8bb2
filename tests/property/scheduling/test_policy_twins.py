"""Every policy decides as its slow twin does: the same starts and stops, at the same times, in order."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from tests import effort
from tests.policy_logs import SmallLog, crowded_log, decided, decided_by_twin, small_logs
from tests.policy_twins import TWINS

from kalends.scheduling.indexed_profile import IndexedProfile
from kalends.scheduling.policies.backfill import conservative


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


def test_conservative_decides_as_its_slow_twin_in_plans_that_are_indexed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conservative, "STEPS_MANY", 2)
    monkeypatch.setattr(conservative, "IndexedProfile", partial(IndexedProfile, stretch_steps=3))
    for seed in range(effort.examples(200)):
        same("conservative", crowded_log(seed))


@pytest.mark.parametrize("seed", [877, 2531])
def test_a_job_stopped_and_started_again_in_one_second_ends_after_those_begun_before(
    seed: int,
) -> None:
    same("preemptive", crowded_log(seed))
