"""A job is charged for what it had, also where the clock of its site was wrong in its time."""

from __future__ import annotations

import pytest
from tests.unit.batch.queue.test_batch_queue import Room
from tests.unit.batch.queue.test_batch_sizes import SizeRoom
from tests.unit.batch.queue.test_batch_stops import UrgentRoom

from kalends.batch.queue import facts as f
from kalends.batch.queue.queue import BatchQueue


def ran(seconds: float) -> f.JobEnding:
    return f.JobEnding(kind="exit", ran_s=seconds)


@pytest.mark.parametrize(
    ("passed_s", "ran_s", "charged"),
    [
        (7, 6.4, 7),  # Whole seconds, and what starting takes.
        (159, 100.0, 159),
        (7_378, 100.0, 100),  # The clock was two hours ahead at a restart.
        (3_900, 3_600.0, 3_900),
        (9_000, 3_600.4, 3_600),
        (0, 40.7, 40),  # The queue's time stood still.
        (5, 40.0, 40),
        (0, 0.3, 0),
        (7_378, 0.0, 7_378),  # Nobody knows how long it ran.
    ],
)
def test_the_shepherds_clock_counts_where_the_queues_cannot_be_right(
    passed_s: int, ran_s: float, charged: int
) -> None:
    room = Room(tariff={"normal": 10})
    number = room.submit(nodes=2)
    room.settle()
    room.now += passed_s
    room.end(number, ran(ran_s))
    effects = room.queue.take_effects()
    (over,) = effects.over
    assert over.node_seconds == 2 * charged
    assert over.credit_seconds == 10 * over.node_seconds
    room.stored += effects.entries
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    for queue in (room.queue, again):
        (used,) = [use.used for who, use in queue.flow.accounts.uses.items() if who.name == "ann"]
        assert sum(used.values()) == over.node_seconds, "also when it is made again"


def test_a_job_that_stood_still_is_charged_for_the_time_that_it_ran() -> None:
    room = UrgentRoom()
    low, urgent = room.run_and_stop()
    room.stopped(low)
    room.now += 50
    room.end(urgent, ran(50.0))
    room.now += 9_000
    room.queue.ended(low, 1, ran(150.0), room.now)
    over = {each.number: each for each in room.queue.take_effects().over}
    assert over[low].node_seconds == 4 * 150
    assert over[urgent].node_seconds == 4 * 50


def test_a_job_that_has_changed_its_size_is_charged_for_each_size_in_proportion() -> None:
    room = SizeRoom()
    number, change = room.grown_beside()
    room.queue.size_changed(number, change, 4, 0.2, room.now)
    room.now += 999  # of which the shepherd knows 99, of 1,000 in all
    room.end(number, ran(100.0))
    (over,) = room.queue.take_effects().over
    assert over.node_seconds == (1 * 1 + 4 * 999) * 100 // 1_000
