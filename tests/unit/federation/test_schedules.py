"""The order of the ways to run a job on a machine, by the aim of its owner."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.federation.schedules import Aim, OfferedSchedule, in_order

AIMS: tuple[Aim, ...] = get_args(Aim)
SOON = OfferedSchedule(0, "a", 4, 100, True, 600, 5.0)
WIDE = OfferedSchedule(1, "a", 16, 400, True, 200, 9.0)
NARROW = OfferedSchedule(2, "a", 1, 0, False, 2_000, 2.0)


@pytest.mark.parametrize(
    ("aim", "best"),
    [
        ("", SOON), ("response", WIDE), ("throughput", NARROW), ("parallel", WIDE),
        ("sequential", NARROW), ("cost", NARROW),
    ],
)  # fmt: skip
def test_each_aim_has_an_order_of_its_own(aim: Aim, best: OfferedSchedule) -> None:
    assert in_order([NARROW, WIDE, SOON], aim)[0] == best


@given(
    st.lists(
        st.builds(
            OfferedSchedule, st.integers(0, 7), st.just("a"), st.integers(1, 9), st.integers(0, 99),
            st.booleans(), st.integers(1, 99), st.floats(0, 9),
        ),
        unique_by=lambda each: each.way,
    ),
    st.randoms(),
    st.sampled_from(AIMS),
)  # fmt: skip
def test_no_schedule_is_lost_and_the_order_does_not_hang_on_that_of_the_queue(
    schedules: list[OfferedSchedule], chance: object, aim: Aim
) -> None:
    ordered = in_order(schedules, aim)
    chance.shuffle(schedules)  # type: ignore[attr-defined]
    assert ordered == in_order(schedules, aim)
    assert sorted(ordered) == sorted(schedules)
