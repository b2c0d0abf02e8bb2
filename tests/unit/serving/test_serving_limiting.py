"""Token buckets: nobody gets more than burst and rate, and nobody pays for another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.core.errors import LimitExceeded
from kalends.serving.http.rate_limits import RateLimiter

STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 400)), max_size=80)


def taken(limiter: RateLimiter, key: str, now_s: float) -> bool:
    try:
        limiter.take(key, now_s)
    except LimitExceeded:
        return False
    return True


@given(steps=STEPS, per_s=st.integers(1, 20), burst=st.integers(1, 10))
def test_in_no_stretch_of_time_passes_more_than_burst_and_rate_allow(
    steps: list[tuple[str, int]], per_s: int, burst: int
) -> None:
    limiter = RateLimiter(per_s=per_s, burst=burst, tracked_max=10)
    now_s, passed = 0.0, []
    for key, wait_ms in steps:
        now_s += wait_ms / 1000
        if taken(limiter, key, now_s):
            passed.append((key, now_s))
    for key in "ab":
        times = [at_s for name, at_s in passed if name == key]
        for first, start_s in enumerate(times):
            for last in range(first, len(times)):
                allowed = burst + (times[last] - start_s) * per_s
                assert last - first + 1 <= allowed + 1e-6


@given(steps=STEPS, per_s=st.integers(1, 20), burst=st.integers(1, 10))
def test_coming_back_when_told_always_passes(
    steps: list[tuple[str, int]], per_s: int, burst: int
) -> None:
    limiter = RateLimiter(per_s=per_s, burst=burst, tracked_max=10)
    now_s = 0.0
    for key, wait_ms in steps:
        now_s += wait_ms / 1000
        try:
            limiter.take(key, now_s)
        except LimitExceeded as error:
            now_s += error.retry_after_s + 1e-9
        else:
            continue
        assert taken(limiter, key, now_s)


@given(wrong=st.integers(1, 40), per_s=st.integers(1, 20), burst=st.integers(1, 10))
def test_a_fine_is_paid_by_who_was_fined_within_the_time_of_two_bursts(
    wrong: int, per_s: int, burst: int
) -> None:
    limiter = RateLimiter(per_s=per_s, burst=burst, tracked_max=10)
    limiter.take("a", 0.0)
    for _ in range(wrong):
        limiter.fine("a", 10)
    assert not taken(limiter, "a", 0.0)
    assert taken(limiter, "b", 0.0)
    assert taken(limiter, "a", (burst + 1) / per_s + 1e-9)


@given(STEPS)
def test_what_one_caller_does_changes_nothing_for_another(steps: list[tuple[str, int]]) -> None:
    def outcomes(only: str | None) -> list[bool]:
        limiter = RateLimiter(per_s=5, burst=2, tracked_max=10)
        now_s, got = 0.0, []
        for key, wait_ms in steps:
            now_s += wait_ms / 1000
            if only in (None, key):
                passed = taken(limiter, key, now_s)
                if key == "a":
                    got.append(passed)
        return got

    assert outcomes(None) == outcomes("a")


def test_the_table_of_callers_is_bounded_and_forgets_the_least_recent() -> None:
    limiter = RateLimiter(per_s=0.001, burst=1, tracked_max=2)
    for key in "ab":
        limiter.take(key, 0.0)
    assert not taken(limiter, "a", 1.0)
    limiter.take("c", 1.0)
    assert len(limiter) == 2
    assert not taken(limiter, "b", 1.0)
    assert not taken(limiter, "c", 1.0)


def test_a_refusal_says_when_to_come_back() -> None:
    limiter = RateLimiter(per_s=4, burst=1, tracked_max=1)
    limiter.take("a", 10.0)
    with pytest.raises(LimitExceeded) as caught:
        limiter.take("a", 10.0)
    assert caught.value.retry_after_s == 0.25
