"""What owners make of requests is told their users, whichever replica dies and whoever is away."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_every_change_by_an_owner_is_told_under_one_id_and_nobody_hears_of_another_s() -> None:
    check("telling", 3)


@pytest.mark.parametrize(
    "mutation",
    [
        "letters_live_in_memory",
        "all_are_told_of_everything",
        "what_was_told_stays_in_the_store",
    ],
)
def test_the_hunt_finds_what_it_hunts_for(mutation: str) -> None:
    assert seeds_to_catch("telling", mutation, 20) is not None
