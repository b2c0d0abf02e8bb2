"""However heavy a job and however many sites: how many are asked, and until when they are waited for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.core.limits import DURATION_S_MAX, UNITS_MAX
from kalends.federation.breadth import ASKED_MAX, ASKED_MIN, sites_to_ask
from kalends.federation.patience import enough, enough_at_ms

NODES = st.integers(1, UNITS_MAX)
LIMITS_S = st.integers(1, DURATION_S_MAX)
SITES = st.integers(0, 20_000)
TIMES_MS = st.floats(0, 10_000)


@given(NODES, LIMITS_S, SITES)
def test_as_many_as_the_job_is_worth_and_as_there_are(nodes: int, limit_s: int, sites: int) -> None:
    asked = sites_to_ask(nodes, limit_s, sites)
    assert min(ASKED_MIN, sites) <= asked <= min(ASKED_MAX, sites)


@given(NODES, NODES, LIMITS_S, LIMITS_S, SITES)
def test_more_work_never_asks_fewer(
    nodes: int, other_nodes: int, limit_s: int, other_s: int, sites: int
) -> None:
    light, heavy = sorted(
        [(nodes, limit_s), (other_nodes, other_s)], key=lambda job: job[0] * job[1]
    )
    assert sites_to_ask(*light, sites) <= sites_to_ask(*heavy, sites)


@given(st.integers(0, 32), st.integers(1, 32), TIMES_MS, TIMES_MS, TIMES_MS, TIMES_MS)
def test_what_is_enough_stays_enough_and_every_wait_ends(
    answered: int, asked: int, elapsed_ms: float, more_ms: float, usual_ms: float, answer_ms: float
) -> None:
    if enough(answered, asked, elapsed_ms, usual_ms, answer_ms):
        assert enough(answered, asked, elapsed_ms + more_ms, usual_ms, answer_ms)
        assert enough(answered + 1, asked, elapsed_ms, usual_ms, answer_ms)
    assert enough(answered, asked, answer_ms, usual_ms, answer_ms)


@given(st.integers(0, 31), st.integers(1, 32), TIMES_MS, TIMES_MS)
def test_a_broker_is_told_when_to_look_again(
    answered: int, asked: int, usual_ms: float, answer_ms: float
) -> None:
    at_ms = enough_at_ms(answered, asked, usual_ms, answer_ms)
    assert enough(answered, asked, at_ms, usual_ms, answer_ms)
    if answered < asked and at_ms >= 1:
        assert not enough(answered, asked, at_ms * (1 - 1e-9), usual_ms, answer_ms)
