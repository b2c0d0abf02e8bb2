"""Jobs that change their size, at their queue: who is asked, what nodes they have, and until when."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.batch.queue.test_batch_queue import DONE, Room

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Occupied, Relimit, Resize, Start, Withdraw
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.views import view_of
from kalends.contract.job_calls import JobView
from kalends.core.errors import Conflict, InvalidInput, NotAllowed
from kalends.core.jobs import JobRequest
from kalends.scheduling.prediction.predictor import PredictingScheduler


class SizeRoom(Room):
    """The queue of four nodes under a policy that changes sizes."""

    def __init__(self, **terms: Any) -> None:
        super().__init__(**{"policy": "reconfigurable", **terms})

    def run(self, **fields: Any) -> int:
        """Submit a job that can change from one to four nodes, and let its program begin."""
        number = self.submit(**{"sizes": (1, 2, 4), "malleable": True, "limit_s": 600, **fields})
        self.queue.begun(number, self.queue.job(number).attempt, self.now)
        return number

    def later(self, by_s: int = 1) -> None:
        self.now += by_s
        self.queue.advance(self.now)

    def nodes(self, number: int) -> tuple[int, ...]:
        return self.queue.job(number).nodes

    def grown_beside(self) -> tuple[int, int]:
        """Have a job on node 3 that was asked to grow to all four, and return it and its change."""
        blocker = self.submit(nodes=3)
        number = self.run(limit_s=600)
        self.settle()
        self.later()
        self.end(blocker)
        (ask,) = self.settle()
        assert isinstance(ask, Resize)
        assert (ask.job.number, ask.nodes) == (number, (0, 1, 2, 3))
        return number, ask.change


@pytest.fixture
def room() -> SizeRoom:
    return SizeRoom()


def test_free_nodes_go_to_a_running_job_which_has_them_from_the_ask_on(room: SizeRoom) -> None:
    number, change = room.grown_beside()
    assert (room.phase(number), room.nodes(number)) == ("changing", (0, 1, 2, 3))
    room.now += 3
    room.queue.size_changed(number, change, 4, 0.2, room.now)
    assert (room.phase(number), room.nodes(number)) == ("running", (0, 1, 2, 3))
    room.now += 7
    room.end(number)
    (over,) = room.queue.take_effects().over
    assert over.node_seconds == 1 * 1 + 4 * 10


@pytest.mark.parametrize("said", [0, 1, 3, 7])
def test_a_growth_that_is_refused_gives_back_just_what_it_had_gained(said: int) -> None:
    room = SizeRoom()
    number, change = room.grown_beside()
    room.queue.size_changed(number, change, said, 0.0, room.now)
    assert (room.phase(number), room.nodes(number)) == ("running", (3,))
    waiting = room.submit(nodes=3)
    assert room.starts() == [waiting]
    assert room.nodes(waiting) == (0, 1, 2)


def test_a_shrink_frees_nodes_when_it_has_been_made_and_not_before(room: SizeRoom) -> None:
    number = room.run()
    assert len(room.nodes(number)) == 4
    room.settle()
    room.later()
    waiting = room.submit(nodes=2)
    effects = room.queue.take_effects()
    (ask,) = effects.actions
    assert isinstance(ask, Resize)
    assert ask.nodes == (0, 1)
    assert [each.nodes for each in effects.occupied if each.number == number] == [4]
    room.queue.size_changed(number, ask.change, 2, 0.0, room.now)
    effects = room.queue.take_effects()
    assert [type(each) for each in effects.actions] == [Start]
    assert [(each.number, each.nodes) for each in effects.occupied] == [(number, 2), (waiting, 2)]
    assert room.nodes(waiting) == (2, 3)


def test_a_change_that_is_answered_twice_or_late_changes_nothing(room: SizeRoom) -> None:
    number, change = room.grown_beside()
    room.queue.size_changed(number, change + 1, 4, 0.0, room.now)
    assert room.phase(number) == "changing"
    room.queue.size_changed(number, change, 4, 0.0, room.now)
    room.queue.size_changed(number, change, 0, 0.0, room.now)
    assert len(room.nodes(number)) == 4


@pytest.mark.parametrize(
    ("nodes", "why", "told"),
    [
        (0, "in the midst of a solve", "in the midst of a solve"),
        (0, "", "the program reports 0 ranks, not 4"),
        (3, "", "the program reports 3 ranks, not 4"),
    ],
)
def test_its_user_is_told_since_when_a_job_is_to_change_and_why_it_does_not(
    room: SizeRoom, nodes: int, why: str, told: str
) -> None:
    number, change = room.grown_beside()
    asked_s = room.now
    room.now += 3

    def seen(*, whole: bool = True) -> JobView:
        return view_of(room.queue, room.queue.job(number), {}, room.now, whole=whole)

    assert (seen().changing_to, seen().changing_since, seen().refused) == (4, asked_s, "")
    room.submit(nodes=3)  # Nothing is left to grow to when the answer comes.
    room.queue.size_changed(number, change, nodes, 0.0, room.now, why)
    assert (seen().refused, seen().refused_at) == (told, room.now)
    assert seen(whole=False).refused == "", "a program's words are for its user"


def test_a_change_that_nobody_answers_is_taken_back_and_over_when_that_has_been_heard() -> None:
    room = SizeRoom(change_s=30)
    number, change = room.grown_beside()
    assert room.queue.next_due_s() == room.now + 30
    room.later(29)
    assert room.settle() == []
    room.later(1)
    (back,) = room.settle()
    assert isinstance(back, Withdraw)
    assert (back.change, back.nodes) == (change, (3,))
    room.later(60)
    assert room.settle() == [], "it is told once"
    assert len(room.nodes(number)) == 4, "its program may just be growing"
    room.queue.size_changed(number, change, 0, 0.0, room.now)
    entry = room.queue.job(number).entry
    assert entry is not None
    assert entry.before is not None
    assert entry.before.nodes == 1, "it was free, and then asked once more"
    (again,) = (each for each in room.settle() if isinstance(each, Resize))
    assert again.change == change + 1


def test_a_change_that_comes_to_be_while_it_is_taken_back_has_been_made() -> None:
    room = SizeRoom(change_s=30)
    number, change = room.grown_beside()
    room.later(30)
    assert [type(each) for each in room.settle()] == [Withdraw]
    waiting = room.submit(nodes=1)
    room.later(60)
    assert room.settle() == [], "its program may be in the midst of it: all four are its own"
    room.queue.size_changed(number, change, 4, 2.0, room.now)
    (ask,) = (each for each in room.settle() if isinstance(each, Resize))
    assert (ask.change, ask.nodes, room.phase(waiting)) == (change + 1, (0, 1), "queued")


@pytest.mark.parametrize("withdrawn", [False, True])
def test_after_a_restart_an_open_change_is_asked_for_or_taken_back_again(withdrawn: bool) -> None:
    room = SizeRoom(change_s=30)
    number, change = room.grown_beside()
    if withdrawn:
        room.later(30)
        room.settle()
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    assert (again.job(number).phase, again.job(number).nodes) == ("changing", (0, 1, 2, 3))
    again.recover()
    told = [each for each in again.take_effects().actions if isinstance(each, Resize | Withdraw)]
    kind, nodes = (Withdraw, (3,)) if withdrawn else (Resize, (0, 1, 2, 3))
    assert told == [kind(again.job(number), 1, change, nodes)]


@pytest.mark.parametrize("how", ["not begun", "ending"])
def test_only_a_job_whose_program_runs_is_asked_to_change(room: SizeRoom, how: str) -> None:
    number = room.submit(sizes=(1, 2, 4), malleable=True, limit_s=600)
    if how == "ending":
        room.queue.begun(number, 1, room.now)
        room.queue.cancel(number, "by ann", room.now)
    room.settle()
    room.later()
    room.submit(nodes=1)
    assert room.settle() == []
    if how == "not begun":
        room.queue.begun(number, 1, room.now)
        assert [type(each) for each in room.settle()] == [Resize]


def test_a_job_that_ends_in_a_change_leaves_all_that_it_had_or_was_to_have(room: SizeRoom) -> None:
    number, _ = room.grown_beside()
    waiting = room.submit(nodes=4)
    room.settle()
    room.queue.ended(number, 1, DONE, room.now)
    assert room.starts() == [waiting]


def test_a_node_that_fails_ends_a_job_that_was_just_given_it(room: SizeRoom) -> None:
    number, _ = room.grown_beside()
    room.queue.fail([1], "its fan", room.now)
    assert room.phase(number) == "ending"


def test_a_program_gets_the_size_that_it_wants_or_the_reason_why_not(room: SizeRoom) -> None:
    number = room.run()
    room.settle()
    room.later()
    with pytest.raises(Conflict, match="its job is for 1, 2, 4 nodes"):
        room.queue.wanted(number, 3, room.now)
    room.queue.wanted(number, 4, room.now)
    assert room.settle() == [], "it has that"
    room.queue.wanted(number, 1, room.now)
    (ask,) = room.settle()
    assert isinstance(ask, Resize)
    assert ask.nodes == (0,)
    with pytest.raises(Conflict, match="the job changes its size, or ends"):
        room.queue.wanted(number, 4, room.now)
    room.queue.size_changed(number, ask.change, 1, 0.0, room.now)
    room.settle()
    room.queue.wanted(number, 2, room.now)
    (ask,) = room.settle()
    assert isinstance(ask, Resize)
    assert ask.nodes == (0, 1), "it need not rest before, as the policy would have it"


def test_a_wish_for_more_is_denied_while_others_wait_or_nothing_is_free(room: SizeRoom) -> None:
    number = room.run(sizes=(2, 4), nodes=2)
    room.settle()
    room.later()
    room.queue.wanted(number, 2, room.now)
    room.queue.size_changed(number, 1, 2, 0.0, room.now)
    blocker = room.submit(nodes=2)
    room.settle()
    room.queue.begun(blocker, 1, room.now)
    with pytest.raises(Conflict, match="0 nodes are free"):
        room.queue.wanted(number, 4, room.now)
    room.submit(nodes=3)
    with pytest.raises(Conflict, match="other jobs wait for nodes"):
        room.queue.wanted(number, 4, room.now)
    wishes = [entry for entry in room.stored if isinstance(entry.said, f.SizeWanted)]
    assert len(wishes) == 1, "what is denied is no fact"


def test_a_policy_that_changes_no_sizes_denies_every_wish() -> None:
    room = SizeRoom(policy="adaptive")
    number = room.run()
    with pytest.raises(Conflict, match="the policy of this machine changes no sizes"):
        room.queue.wanted(number, 1, room.now)


@pytest.mark.parametrize("ending_s", [0, 15])
def test_the_limit_follows_the_size_where_a_job_has_one_for_each(ending_s: int) -> None:
    """What ending it takes is the same on every size."""
    room = SizeRoom(ending_s=ending_s)
    limits = {"sizes": (1, 2, 4), "limits_s": (400, 220, 120), "limit_s": 400}
    blocker = room.submit(nodes=3, limit_s=1_000)
    number = room.run(**limits)
    job = room.queue.job(number)
    assert (job.limit_s, len(job.nodes)) == (400, 1)
    room.settle()
    room.later(100)
    room.end(blocker)
    room.settle()
    room.now += 2
    room.queue.size_changed(number, 1, 4, 2.0, room.now)
    # 300 of 400 s were left at 1,100, and are worth 90 on four nodes.
    (limit,) = (each for each in room.settle() if isinstance(each, Relimit))
    assert limit.limit_s == job.limit_s == 102 + 90
    assert job.entry is not None
    assert job.entry.until_s == job.started_s + 192 + ending_s


def test_what_a_change_has_taken_is_what_the_next_one_is_expected_to_take(room: SizeRoom) -> None:
    number, change = room.grown_beside()
    room.now += 5
    room.queue.size_changed(number, change, 4, 3.4, room.now)
    entry = room.queue.job(number).entry
    assert entry is not None
    assert entry.molds is not None
    assert entry.molds.reconfiguration_s == 3
    waiting = room.submit(nodes=1)
    asked_s = room.now
    room.queue.size_changed(number, change + 1, 2, 3.4, room.now)
    room.settle()
    room.end(waiting)
    assert room.settle() == [], "nodes are free, and it rests"
    assert room.queue.next_due_s() == asked_s + 10 * 3


def test_a_job_of_several_sizes_counts_with_the_most_that_it_may_take() -> None:
    room = SizeRoom(user=f.JobLimits(node_seconds=480))
    fields = {"sizes": (1, 2, 4), "limits_s": (400, 220, 120), "limit_s": 400}
    room.submit(**fields)
    with pytest.raises(NotAllowed, match=r"asks for 0\.134444 node-hours"):
        room.submit(**{**fields, "limits_s": (400, 220, 121)})


@pytest.mark.parametrize(
    "limits_s", [(400, 220), (400, 220, 100, 50), (300, 220, 100), (500, 220, 100)]
)
def test_limits_that_do_not_belong_to_the_sizes_are_refused(limits_s: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"limits for 3 sizes|longest limit is not limit_s"):
        JobRequest(
            machine="lab/box", command=("true",), sizes=(1, 2, 4), limits_s=limits_s, limit_s=400
        ).check()


def test_what_the_calendar_has_of_a_job_follows_its_size(room: SizeRoom) -> None:
    number, change = room.grown_beside()
    room.queue.size_changed(number, change, 0, 0.0, room.now)
    occupied = [each for each in room.queue.take_effects().occupied if each.number == number]
    entry = room.queue.job(number).entry
    assert entry is not None
    assert occupied[0] == Occupied(number, 1, room.now, 1_000 + 600)


def test_who_follows_the_facts_comes_to_the_same_sizes_and_can_predict() -> None:
    room = SizeRoom(change_s=30)
    number, change = room.grown_beside()
    room.queue.size_changed(number, change, 4, 2.0, room.now)
    room.later(40)
    waiting = room.submit(nodes=2)
    room.settle()
    follower = BatchQueue("lab/box", None, 0, room.stored, scheduler_type=PredictingScheduler)
    assert follower.job(number).phase == "changing"
    assert follower.job(number).nodes == room.nodes(number)
    scheduler = follower.flow.room.scheduler
    assert isinstance(scheduler, PredictingScheduler)
    (prediction,) = scheduler.predict_all(room.now).values()
    assert prediction.requested_s >= room.now
    assert follower.job(waiting).phase == "queued"
