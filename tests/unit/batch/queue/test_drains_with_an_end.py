"""Nodes that are drained until a time: plans count on them, and they are back by themselves."""

from __future__ import annotations

import pytest
from tests.unit.batch.queue.test_batch_queue import Room

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import InvalidInput
from kalends.scheduling.policy import promised_start


def drained(policy: str = "easy", nodes: tuple[int, ...] = (0, 1)) -> tuple[Room, int]:
    """A room of four nodes, of which some are drained for two hours; and when these are over."""
    room = Room(policy=policy)
    until_s = room.now + 7_200
    room.queue.drain(nodes, "no jobs for two hours", room.now, until_s)
    return room, until_s


def pass_until(room: Room, end_s: int) -> None:
    """Let the time pass as a service does: whenever something is due."""
    while (due_s := room.queue.next_due_s()) is not None and due_s <= end_s:
        room.now = max(room.now, due_s)
        room.queue.advance(room.now)
    room.now = max(room.now, end_s)


@pytest.mark.parametrize("policy", ["easy", "conservative", "easy-priority"])
def test_a_job_that_needs_drained_nodes_is_promised_their_end_and_starts_then(policy: str) -> None:
    room, until_s = drained(policy)
    wide = room.submit(nodes=4, limit_s=600)
    assert not room.queue.job(wide).on_nodes
    entry = room.queue.job(wide).entry
    assert entry is not None
    scheduler = room.queue.flow.room.scheduler
    if policy == "conservative":
        assert promised_start(scheduler.policy, entry) == until_s
    else:
        assert scheduler.cluster.promise(entry, room.now).shadow_s == until_s
    pass_until(room, until_s - 1)
    assert not room.queue.job(wide).on_nodes
    pass_until(room, until_s)
    assert room.queue.job(wide).on_nodes
    assert not scheduler.cluster.out_nodes


def test_other_jobs_run_beside_what_is_drained_and_delay_nobody_who_waits_for_it() -> None:
    room, until_s = drained()
    wide = room.submit(nodes=4, limit_s=600)
    short, long = room.submit(nodes=2, limit_s=3_600), room.submit(nodes=1, limit_s=9_000)
    assert room.queue.job(short).on_nodes
    assert not room.queue.job(long).on_nodes, "it would delay the job of four nodes"
    assert {*room.queue.job(short).nodes} == {2, 3}
    room.now += 3_600
    room.end(short, f.JobEnding(kind="exit", ran_s=3_600.0))
    pass_until(room, until_s)
    assert room.queue.job(wide).on_nodes


def test_the_future_that_is_foreseen_has_the_nodes_again() -> None:
    room, until_s = drained(nodes=(0, 1, 2, 3))
    room.submit(nodes=3, limit_s=600)
    twin = room.queue.flow.room.scheduler.frozen({})
    now = room.now
    started: list[int] = []
    while not started and (next_s := twin.wake_at(now)) is not None:
        now = next_s
        started = [now for _ in twin.wake(now)]
    assert started == [until_s]


def test_a_restart_knows_the_end_and_a_later_word_of_the_operator_counts() -> None:
    room, until_s = drained()
    room.stored += room.queue.take_effects().entries
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    assert again.next_due_s() == until_s
    again.drain((0,), "for longer", room.now)
    assert again.flow.room.back == {1: until_s}
    again.fail((1,), "burnt", room.now)
    assert again.next_due_s() is None
    again.advance(until_s)
    assert again.flow.room.scheduler.cluster.out_nodes == {0, 1}
    again.drain((0,), "", room.now, until_s)
    again.resume((0, 1), room.now)
    assert again.next_due_s() is None


def test_an_event_that_comes_late_finds_the_nodes_back() -> None:
    room, until_s = drained()
    room.now = until_s + 50
    number = room.submit(nodes=4)
    assert room.queue.job(number).on_nodes


def test_nodes_are_back_by_themselves_on_a_topology_too() -> None:
    room = Room()
    room.terms = f.Terms(machine="mesh2d:2x2")
    room.queue = BatchQueue("lab/box", room.terms, room.now)
    until_s = room.now + 60
    room.queue.drain((0,), "", room.now, until_s)
    number = room.submit(nodes=4)
    assert not room.queue.job(number).on_nodes
    pass_until(room, until_s)
    assert room.queue.job(number).on_nodes


def test_an_end_in_the_past_is_refused() -> None:
    room = Room()
    with pytest.raises(InvalidInput, match="that time has passed") as refused:
        room.queue.drain((0,), "", room.now, room.now)
    assert refused.value.where == "until"
    assert not room.queue.flow.room.scheduler.cluster.out_nodes
