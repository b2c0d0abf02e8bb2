"""Jobs that are stopped for more urgent ones, at their queue: who has which nodes, and what is told again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.batch.queue.test_batch_queue import DONE, Room

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Continue, Kill, LookUp, Occupied, StandStill, Start
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import Conflict

LOST = f.JobEnding(kind="lost")


class UrgentRoom(Room):
    """The queue of four nodes under a policy that stops jobs."""

    def __init__(self, **terms: Any) -> None:
        members = {"high": ("everyone",)}
        super().__init__(**{"policy": "preemptive", "class_members": members, **terms})

    def run(self, **fields: Any) -> int:
        """Submit a job that is not urgent, and let its program begin."""
        number = self.submit(**{"nodes": 4, "limit_s": 600, "priority": "low", **fields})
        self.queue.begun(number, self.queue.job(number).attempt, self.now)
        self.settle()
        return number

    def run_and_stop(self, **fields: Any) -> tuple[int, int]:
        """Return a job that was asked to stop, and the more urgent one for which it was."""
        low = self.run(**fields)
        self.now += 100
        urgent = self.submit(nodes=4, limit_s=50, priority="high")
        (stop,) = self.settle()
        assert isinstance(stop, StandStill)
        assert (stop.job.number, stop.attempt, stop.stop) == (low, 1, 1)
        return low, urgent

    def stopped(self, number: int) -> None:
        job = self.queue.job(number)
        self.queue.stopped(number, job.attempt, job.stops, self.now)

    def restarted(self) -> BatchQueue:
        queue = BatchQueue("lab/box", self.terms, self.now, self.stored)
        queue.recover()
        return queue


@pytest.fixture
def room() -> UrgentRoom:
    return UrgentRoom()


def test_nodes_of_a_job_that_stops_are_its_own_until_it_stands_still(room: UrgentRoom) -> None:
    low, urgent = room.run_and_stop()
    job = room.queue.job(low)
    assert (job.phase, job.nodes, room.phase(urgent)) == ("stopping", (0, 1, 2, 3), "queued")
    room.now += 2
    room.stopped(low)
    effects = room.queue.take_effects()
    assert [type(each) for each in effects.actions] == [Start]
    assert [(each.number, each.nodes) for each in effects.occupied] == [(low, 0), (urgent, 4)]
    assert (job.phase, job.nodes, room.phase(urgent)) == ("stopped", (), "starting")


def test_a_stopped_job_goes_on_with_the_time_that_it_has_left_and_is_charged_for_what_it_had() -> (
    None
):
    room = UrgentRoom(tariff={"low": 1})
    low, urgent = room.run_and_stop()
    room.stopped(low)
    room.settle()
    room.now += 40
    room.end(urgent)
    effects = room.queue.take_effects()
    (go_on,) = effects.actions
    assert isinstance(go_on, Continue)
    assert (go_on.job.number, go_on.stop, go_on.nodes) == (low, 1, (0, 1, 2, 3))
    assert effects.occupied[-1] == Occupied(low, 4, 1_140, 1_140 + 500)
    job = room.queue.job(low)
    assert (job.phase, job.limit_s, job.stood_s, job.attempt) == ("running", 600, 40, 1)
    room.now += 60
    room.end(low)
    (over,) = room.queue.take_effects().over
    assert (over.node_seconds, over.credit_seconds, over.stood_s) == (4 * 160, 4 * 160, 40)


def test_a_job_that_ends_before_it_stands_still_has_ended(room: UrgentRoom) -> None:
    low, urgent = room.run_and_stop()
    room.end(low)
    room.queue.stopped(low, 1, 1, room.now)
    assert room.starts() == [urgent]
    assert low in room.queue.flow.table.past


def test_a_job_that_cannot_be_stopped_goes_on_and_is_asked_no_more(room: UrgentRoom) -> None:
    low, urgent = room.run_and_stop()
    assert room.queue.not_stopped(low, 1, 1, "it cannot", room.now)
    assert not room.queue.not_stopped(low, 1, 1, "it cannot", room.now)
    another = room.submit(nodes=4, priority="high")
    assert room.settle() == []
    assert room.phase(low) == "running"
    room.end(low)
    assert room.starts() == [urgent]
    assert room.phase(another) == "queued"


def test_a_job_that_has_not_begun_when_it_is_to_stop_begins_anew_later(room: UrgentRoom) -> None:
    low = room.submit(nodes=4, priority="low")
    room.settle()
    urgent = room.submit(nodes=4, priority="high")
    (stop,) = room.settle()
    assert isinstance(stop, StandStill)
    room.queue.void(low, 1, room.now)
    assert room.starts() == [urgent]
    assert (room.phase(low), room.queue.job(low).attempt) == ("queued", 1)
    room.end(urgent)
    (start,) = room.settle()
    assert isinstance(start, Start)
    assert (start.job.number, start.attempt) == (low, 2)


@pytest.mark.parametrize("lost_when", ["stopping", "stopped"])
@pytest.mark.parametrize("rerun", [False, True])
def test_a_stopped_job_whose_shepherd_dies_is_lost_or_begins_anew(
    room: UrgentRoom, lost_when: str, rerun: bool
) -> None:
    low, urgent = room.run_and_stop(rerun=rerun)
    if lost_when == "stopped":
        room.stopped(low)
    room.queue.ended(low, 1, LOST, room.now)
    assert room.starts() == [urgent]
    if not rerun:
        assert low in room.queue.flow.table.past
        return
    assert room.phase(low) == "queued"
    room.end(urgent)
    (start,) = room.settle()
    assert isinstance(start, Start)
    assert (start.job.number, start.attempt, start.job.limit_s) == (low, 2, 600)


def test_a_stopped_job_that_is_killed_gets_no_nodes_any_more(room: UrgentRoom) -> None:
    low, urgent = room.run_and_stop()
    room.stopped(low)
    with pytest.raises(Conflict, match="job 1 is stopped, not waiting"):
        room.queue.hold(low, "user", room.now)
    room.settle()
    room.queue.cancel(low, "by ann", room.now)
    (kill,) = room.settle()
    assert isinstance(kill, Kill)
    room.end(urgent)
    assert room.settle() == []
    assert (room.phase(low), room.queue.job(low).nodes) == ("ending", ())
    room.end(low, f.JobEnding(kind="killed", status=-9))
    assert not room.queue.flow.table.jobs


def test_a_job_that_is_killed_while_it_stops_has_its_nodes_until_it_has_ended() -> None:
    room = UrgentRoom()
    low, urgent = room.run_and_stop()
    room.queue.cancel(low, "by ann", room.now)
    room.queue.stopped(low, 1, 1, room.now)
    assert (room.phase(low), room.phase(urgent)) == ("ending", "queued")
    room.end(low)
    assert urgent in room.starts()


def test_a_node_that_fails_takes_nothing_from_a_stopped_job(room: UrgentRoom) -> None:
    low, urgent = room.run_and_stop(nodes=3)
    room.stopped(low)
    room.queue.fail([0], "its fan", room.now)
    assert (room.phase(low), room.phase(urgent)) == ("stopped", "ending")
    room.settle()
    room.queue.ended(urgent, 1, DONE, room.now)
    (go_on,) = room.settle()
    assert isinstance(go_on, Continue)
    assert go_on.nodes == (1, 2, 3)


def test_under_another_policy_a_stopped_job_goes_on_too(room: UrgentRoom) -> None:
    low, _ = room.run_and_stop()
    room.queue.set_policy("conservative", room.now)
    room.stopped(low)
    assert room.settle()[0].job.number == low, "it came first, and nobody is more urgent here"
    assert room.phase(low) == "running"


def test_a_job_whose_nodes_are_booked_for_it_is_not_stopped(room: UrgentRoom) -> None:
    fixed = room.submit(nodes=4, limit_s=60, priority="low", at=1_000)
    assert room.starts() == [fixed]
    room.queue.begun(fixed, 1, room.now)
    room.submit(nodes=4, priority="high")
    assert room.settle() == []


def test_after_a_restart_what_was_not_answered_is_asked_again(room: UrgentRoom) -> None:
    low, urgent = room.run_and_stop()
    actions = room.restarted().take_effects().actions
    assert [type(each) for each in actions] == [LookUp, StandStill]
    room.stopped(low)
    room.settle()
    effects = room.restarted().take_effects()
    assert [(type(each), each.job.number) for each in effects.actions] == [
        (LookUp, low), (LookUp, urgent),
    ]  # fmt: skip
    assert [each.number for each in effects.occupied] == [urgent]
    room.end(urgent)
    room.settle()
    actions = room.restarted().take_effects().actions
    assert [type(each) for each in actions] == [LookUp, Continue]
