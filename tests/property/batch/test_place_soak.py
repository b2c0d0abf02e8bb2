"""Promised places begin in time, however many others are given, taken and withdrawn: a slice of the soak."""

from __future__ import annotations

from tests.property.batch.place_soak import soak


def test_of_three_thousand_promised_places_none_begins_late() -> None:
    tally, late = soak(3_000, 1)
    assert not late
    assert tally["begun"] >= 3_000
    waited = tally["begun"] - tally["taken after their promised start"]
    assert tally["begun earlier"] < waited, "some promises are used up to their last second"
    assert tally["taken"] < 0.7 * tally["offered"]


def test_places_begin_late_where_the_time_of_decisions_is_not_counted() -> None:
    _, late = soak(1_000, 1, counted_s=1)
    assert late
