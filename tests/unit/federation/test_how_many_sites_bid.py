"""Heavy jobs ask more sites than light ones, and bids are not waited for without end."""

from __future__ import annotations

import pytest

from kalends.federation.breadth import sites_to_ask
from kalends.federation.patience import enough, enough_at_ms

HOUR_S = 3_600


@pytest.mark.parametrize(
    ("nodes", "limit_s", "asked"),
    [(1, 1, 2), (1, 120, 2), (1, HOUR_S, 10), (16, HOUR_S, 18), (256, 24 * HOUR_S, 32)],
)
def test_the_heavier_a_job_the_more_sites_are_asked(nodes: int, limit_s: int, asked: int) -> None:
    assert sites_to_ask(nodes, limit_s, 1_000) == asked


def test_no_more_sites_are_asked_than_there_are() -> None:
    assert [sites_to_ask(64, HOUR_S, sites) for sites in (0, 1, 2, 7)] == [0, 1, 2, 7]


def test_a_broker_decides_once_all_have_answered() -> None:
    assert enough(4, 4, 1.0, 80.0, 1_000.0)
    assert not enough(3, 4, 1.0, 80.0, 1_000.0)


@pytest.mark.parametrize(
    ("answered", "asked", "after_ms"),
    [
        (3, 4, 160), (2, 4, 320), (1, 4, 1_000), (6, 8, 160), (5, 8, 320), (4, 8, 320), (3, 8, 1_000),
        (2, 3, 160), (1, 3, 320), (1, 2, 160), (0, 2, 1_000), (0, 1, 1_000),
    ],
)  # fmt: skip
def test_the_fewer_have_answered_the_longer_the_others_are_waited_for(
    answered: int, asked: int, after_ms: float
) -> None:
    assert not enough(answered, asked, after_ms - 1, 80.0, 1_000.0)
    assert enough(answered, asked, after_ms, 80.0, 1_000.0)


def test_at_the_deadline_a_broker_decides_however_slow_the_silent_ones_are() -> None:
    assert [enough_at_ms(answered, 5, 900.0, 1_000.0) for answered in range(5)] == [1_000.0] * 5
