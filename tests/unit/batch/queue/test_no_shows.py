"""Reservations whose jobs never come: when the queue has their nodes, and what their holders are told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.reserved_room import ANN, RESERVED, Room

from kalends.core.errors import Conflict
from kalends.core.steps import key_of_part

AFTER_S = 300


def outside(room: Room, nodes: int = 4) -> int:
    """A job of the machine's queue, which needs nodes that are reserved."""
    return room.submit(ANN, reservation="", nodes=nodes)


def test_nodes_of_a_reservation_that_nobody_uses_go_back_to_the_queue() -> None:
    room = Room(no_show_s=AFTER_S)
    room.at(2_000)
    job = outside(room)
    assert room.at(2_299) == []
    assert room.queue.next_due_s() == 2_300
    assert room.at(2_300) == [job]


def test_by_default_they_never_go_back(room: Room) -> None:
    room.at(2_000)
    outside(room)
    assert room.at(2_999) == []


@pytest.mark.parametrize("held", [True, False])
def test_who_has_a_job_there_keeps_the_nodes(held: bool) -> None:
    room = Room(no_show_s=AFTER_S)
    mine = room.submit(limit_s=900, held=held)
    room.at(2_000)
    outside(room)
    assert room.at(2_900) == []
    room.queue.cancel(mine, "", room.now)
    assert len(room.starts()) == int(held), "what ran has used it, what never did has not"


def test_a_reservation_that_was_used_once_is_never_given_back_even_if_it_is_changed() -> None:
    room = Room(no_show_s=AFTER_S)
    mine = room.submit()
    assert room.at(2_000) == [mine]
    room.end(mine)
    room.change(replace(room.slot, booking=8, end=4_000))
    outside(room)
    assert room.at(3_999) == []


def test_a_late_holder_is_told_what_has_become_of_the_reservation() -> None:
    room = Room(no_show_s=AFTER_S)
    room.at(2_300)
    with pytest.raises(Conflict, match="was not used in time, and its nodes were given to others"):
        room.submit()


def test_a_change_of_its_length_brings_no_nodes_back_and_one_of_its_start_does() -> None:
    room = Room(no_show_s=AFTER_S)
    room.at(2_000)
    job = outside(room)
    assert room.at(2_300) == [job]
    room.change(replace(room.slot, booking=8, end=3_500))
    assert room.unplaced == []
    assert set(room.queue.flow.claims()) == {8}
    room.change(replace(room.slot, booking=9, start=3_000))
    room.end(job)
    mine = room.submit()
    assert room.at(3_000) == [mine]


def test_the_time_counts_from_when_a_reservation_came_where_that_is_later() -> None:
    room = Room(no_show_s=AFTER_S)
    room.at(2_200)
    room.change(replace(room.slot, booking=8, nodes=2))
    assert room.queue.next_due_s() == 2_500


def test_a_restart_comes_to_the_same_and_is_told_nothing_twice() -> None:
    room = Room(no_show_s=AFTER_S)
    room.at(2_300)
    again = room.replayed()
    assert again.flow.claims() == {7: room.slot} == room.queue.flow.no_shows.given_back
    assert again.flow.room.unplaced() == set()
    again.claims_changed((7,), (room.slot,), 2_400)
    assert again.flow.room.reservations() == [], "the site asks again for what had no room"


def test_a_reservation_that_would_be_over_before_is_left_alone() -> None:
    room = Room(no_show_s=1_000)
    assert room.queue.flow.no_shows.next_due_s(1_000, room.now) is None
    room.at(2_999)
    assert room.submit(limit_s=1), "it is its user's until it ends"


@pytest.mark.parametrize("killed", [False, True])
def test_when_a_part_of_a_job_in_step_is_over_its_nodes_go_to_the_queue(killed: bool) -> None:
    room = Room()
    part = room.submit(key=key_of_part(RESERVED), nodes=3, limit_s=0)
    assert room.at(2_000) == [part]
    job = outside(room)
    assert room.at(2_500) == []
    if killed:
        room.queue.cancel(part, "enough", room.now)
    room.end(part)
    assert room.starts() == [job]
    with pytest.raises(Conflict, match="was for a job in step, which has ended here"):
        room.submit()
    assert set(room.queue.flow.claims()) == {7}, "the calendar has it until the end"
    assert room.replayed().flow.claims() == room.queue.flow.claims()
    assert room.cancel() == []


def test_the_slot_of_a_part_that_keeps_it_is_there_for_other_jobs(room: Room) -> None:
    part = room.submit(key=key_of_part(RESERVED), nodes=3, limit_s=0, keep_slot=True)
    assert room.at(2_000) == [part]
    job = outside(room)
    room.end(part)
    assert room.starts() == []
    other = room.submit(nodes=3)
    assert room.at(2_500) == [other]
    room.end(other)
    assert room.at(3_000) == [job]


def test_nodes_of_a_part_stay_reserved_while_other_jobs_of_its_user_run_there(room: Room) -> None:
    part = room.submit(key=key_of_part(RESERVED), nodes=2, limit_s=0)
    other = room.submit(nodes=1, limit_s=0)
    assert room.at(2_000) == [part, other]
    job = outside(room)
    room.end(part)
    assert room.starts() == []
    room.end(other)
    assert room.at(2_999) == []
    assert room.at(3_000) == [job]
