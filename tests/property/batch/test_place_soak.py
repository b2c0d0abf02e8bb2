"""Promised places begin in time, however many others are given, taken and withdrawn: a slice of the soak."""

from __future__ import annotations

import pytest
from tests.property.batch.place_soak import soak


def test_of_three_thousand_promised_places_none_is_taken_or_begins_late() -> None:
    tally, late = soak(3_000, 1)
    assert not late
    assert tally["begun"] >= 3_000
    assert tally["begun earlier"] < tally["begun"], "some promises are used up to their last second"
    assert tally["taken"] < 0.7 * tally["offered"]


@pytest.mark.parametrize("wrong", [{"counted_s": 1}, {"ending_s": 0}])
def test_places_are_late_where_the_time_of_decisions_or_of_ends_is_not_counted(
    wrong: dict[str, int],
) -> None:
    _, late = soak(1_000, 1, **wrong)
    assert late


def test_what_cannot_be_ended_in_the_time_for_it_may_cost_others_their_places() -> None:
    _, late = soak(1_000, 1, over_s=30)
    assert late
