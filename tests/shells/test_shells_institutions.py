"""Brokers of several institutions sell what several owners have, and take back."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_what_two_brokers_were_told_is_true_while_customers_change_it_and_owners_take_back() -> (
    None
):
    check("institutions", 3)


@pytest.mark.parametrize(
    "mutation",
    [
        "an_owner_asks_once",
        "nobody_goes_for_a_part",
        "what_was_taken_back_is_forgotten",
        "say_then_store",
    ],
)
def test_a_mistake_shows_among_several_institutions(mutation: str) -> None:
    assert seeds_to_catch("institutions", mutation, 60) is not None
