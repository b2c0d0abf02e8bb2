"""Links between the shipped servers hold, and what was said over them is not lost when they break."""

from __future__ import annotations

import pytest

from tests.shells.running import check, seeds_to_catch


def test_a_link_that_was_idle_for_many_minutes_takes_a_booking_at_once() -> None:
    check("idle", 4)


def test_a_replica_that_stands_still_with_the_lock_of_the_store_keeps_no_other_from_answering() -> (
    None
):
    check("pause", 2)


def test_a_row_that_cannot_be_read_stops_no_heart_and_no_booking_of_others() -> None:
    check("row", 3)


def test_who_waits_on_a_list_is_woken_however_often_links_break_meanwhile() -> None:
    check("wake", 8)


@pytest.mark.parametrize(
    ("hunt", "mutation"),
    [
        ("idle", "links_prove_themselves_once"),
        ("wake", "lists_take_every_word_as_heard"),
        ("pause", "a_lock_is_a_failure"),
        ("row", "one_row_spoils_all"),
    ],
)
def test_the_hunt_finds_what_it_hunts_for(hunt: str, mutation: str) -> None:
    assert seeds_to_catch(hunt, mutation, 100) is not None
