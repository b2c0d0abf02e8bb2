"""Servers of different owners are upgraded one after the other, in any order, while bookings go on."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_bookings_go_on_while_owners_upgrade_in_any_order() -> None:
    check("upgrades", 2)


@pytest.mark.parametrize(
    "mutation", ["everybody_is_told_everything", "what_matters_is_left_out_like_a_hint"]
)
def test_a_server_that_says_what_others_do_not_know_shows(mutation: str) -> None:
    assert seeds_to_catch("upgrades", mutation, 5) is not None
