"""Clocks of the shipped servers may say anything: nothing that was told is lost by it."""

from __future__ import annotations

from tests.shells.running import check


def test_clocks_that_are_wrong_by_years_end_nothing_and_refuse_nothing_for_ever() -> None:
    check("years", 4)


def test_a_site_whose_clock_is_minutes_off_is_booked_at_over_new_links() -> None:
    check("skew", 5)
