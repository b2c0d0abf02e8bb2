"""Jobs that are offered their place in the queue: when they begin, and what others get meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.unit.batch.queue.test_batch_queue import ANN, Room

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Start
from kalends.batch.queue.offers import PlaceOffers, are_soft
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import Conflict, InvalidInput
from kalends.core.jobs import JobRequest, Notify


class OfferRoom(Room):
    def __init__(self, policy: str = "conservative", **terms: Any) -> None:
        super().__init__(policy=policy, **terms)
        self.offers = PlaceOffers(self.queue)

    def offer(self, counted_s: int = 10, **fields: Any) -> int:
        self.keys += 1
        job = JobRequest(**{"machine": "lab/box", "limit_s": 60, "command": ("true",), **fields})
        return self.offers.offer(ANN, job, f"the-key-{self.keys}", counted_s, self.now)


@pytest.fixture
def room() -> OfferRoom:
    return OfferRoom()


def test_an_offered_job_keeps_its_nodes_idle_and_begins_once_it_is_taken(room: OfferRoom) -> None:
    number = room.offer(nodes=4, limit_s=60)
    assert room.settle() == []
    assert (room.phase(number), room.queue.job(number).nodes) == ("kept", (0, 1, 2, 3))
    another = room.submit(nodes=1, limit_s=60)
    room.now += 5
    room.offers.take(number, room.now)
    room.offers.take(number, room.now)
    assert [type(each) for each in room.settle()] == [Start]
    job = room.queue.job(number)
    assert (job.phase, job.limit_s, job.started_s) == ("starting", 60, room.now)
    assert room.phase(another) == "queued"


def test_what_is_promised_of_an_offer_is_kept_if_it_is_taken_at_the_last_moment() -> None:
    room = OfferRoom()
    kept = room.offer(counted_s=10, nodes=4, limit_s=60)
    soon, later = room.offer(nodes=4, limit_s=60), room.offer(nodes=4, limit_s=60)
    start_by = room.offers.start_by
    assert start_by(kept) == room.now, "where it is taken at once"
    assert start_by(kept, room.now + 10) == room.now + 10
    assert [start_by(each, room.now + 100) for each in (soon, later)] == [1_100, 1_140]
    assert start_by(kept, room.now + 11) == 0, "its nodes may be somebody's by then"


def test_the_nodes_of_a_job_are_planned_until_it_has_been_ended() -> None:
    room = OfferRoom(ending_s=15)
    first = room.submit(nodes=4, limit_s=60)
    behind = room.offer(nodes=4, limit_s=60)
    assert room.offers.start_by(behind) == room.now + 75
    room.settle()
    assert room.queue.job(first).limit_s == 60
    room.now += 74
    room.queue.advance(room.now)
    assert room.offers.start_by(behind) == room.now + 1
    room.offers.take(behind, room.now)
    room.end(first)
    assert room.starts() == [behind]
    assert room.queue.job(behind).limit_s == 60


def test_a_job_that_is_still_there_beyond_the_time_for_its_end_is_late() -> None:
    room = OfferRoom(ending_s=15)
    room.submit(nodes=4, limit_s=60)
    behind = room.submit(nodes=4, limit_s=60)
    room.settle()
    room.now += 75
    room.queue.advance(room.now)
    assert room.offers.start_by(behind) == room.now + 1


def test_jobs_that_were_submitted_before_the_owner_changed_that_time_keep_theirs() -> None:
    room = OfferRoom()
    before = room.submit(nodes=4, limit_s=60)
    room.queue.record(f.TermsSet(structs.replace(room.terms, ending_s=15)), room.now)
    after = room.submit(nodes=4, limit_s=60)
    last = room.submit(nodes=4, limit_s=60)
    assert [room.offers.start_by(each) - room.now for each in (before, after, last)] == [0, 60, 135]


def test_who_stands_behind_an_offer_moves_up_when_it_ends(room: OfferRoom) -> None:
    number = room.offer(nodes=4, limit_s=60)
    behind = room.submit(nodes=4, limit_s=60)
    assert room.offers.start_by(behind) == room.now + 70
    room.now += 1
    room.queue.cancel(number, "another offer was taken", room.now)
    assert room.starts() == [behind]
    assert number not in room.queue.flow.table.jobs


def test_an_offer_that_is_taken_while_it_waits_is_a_job_as_others(room: OfferRoom) -> None:
    first = room.submit(nodes=4, limit_s=60)
    room.settle()
    number = room.offer(nodes=4, limit_s=60)
    room.offers.take(number, room.now)
    room.now += 30
    room.end(first)
    assert room.starts() == [number]
    assert room.queue.job(number).limit_s == 60


def test_an_offer_whose_nodes_were_kept_for_too_long_is_given_all_of_its_time_anew() -> None:
    room = OfferRoom()
    number = room.offer(counted_s=10, nodes=4, limit_s=60)
    room.now += 300
    room.queue.advance(room.now)
    room.offers.take(number, room.now)
    assert room.starts() == [number]
    job = room.queue.job(number)
    assert (job.limit_s, job.entry.until_s) == (60, room.now + 60)  # type: ignore[union-attr]


def test_nodes_are_kept_idle_no_longer_than_the_owner_allows_where_nobody_decides() -> None:
    room = OfferRoom(undecided_s=100)
    number = room.offer(nodes=4, limit_s=60)
    behind = room.submit(nodes=4, limit_s=60)
    room.now += 99
    room.queue.advance(room.now)
    assert (room.phase(number), room.starts()) == ("kept", [])
    room.now += 1
    room.queue.advance(room.now)
    assert (room.phase(number), room.starts()) == ("held", [behind])
    meanwhile = room.submit(nodes=4, limit_s=60)
    room.offers.take(number, room.now)
    assert room.phase(number) == "queued", "what was promised is not forgotten"
    later = room.submit(nodes=4, limit_s=60)
    started = []
    for ended in (behind, meanwhile, number):
        room.now += 10
        room.end(ended)
        started += room.starts()
    assert started == [meanwhile, number, later], "it is in line from when it was decided"


def test_an_offer_that_is_not_decided_waits_in_its_line_until_nodes_are_kept_for_it() -> None:
    room = OfferRoom(undecided_s=100)
    first = room.submit(nodes=4, limit_s=600)
    number = room.offer(nodes=4, limit_s=60)
    room.settle()
    room.now += 300
    room.queue.advance(room.now)
    assert room.phase(number) == "queued"
    room.end(first)
    assert room.phase(number) == "kept"


def test_an_offer_whose_nodes_others_have_may_end_as_any() -> None:
    room = OfferRoom(undecided_s=100)
    number = room.offer(nodes=4, limit_s=60)
    room.now += 100
    room.queue.advance(room.now)
    room.queue.cancel(number, "it was not taken", room.now)
    assert number not in room.queue.flow.table.jobs
    assert room.queue.next_due_s() is None


def test_an_owner_may_let_nodes_be_kept_for_ever(room: OfferRoom) -> None:
    number = room.offer(nodes=4, limit_s=60)
    room.now += 86_400
    room.queue.advance(room.now)
    assert room.phase(number) == "kept"


def test_nodes_that_were_kept_idle_are_not_charged(room: OfferRoom) -> None:
    number = room.offer(nodes=4, limit_s=60)
    room.now += 8
    room.offers.take(number, room.now)
    room.settle()
    room.now += 10
    room.end(number)
    (over,) = room.queue.take_effects().over
    assert over.node_seconds == 40


def test_an_offer_whose_node_fails_waits_again(room: OfferRoom) -> None:
    number = room.offer(nodes=4, limit_s=60)
    room.queue.fail([0], "its fan", room.now)
    assert room.phase(number) == "queued"
    room.queue.resume([0], room.now)
    assert room.phase(number) == "kept"


def test_after_a_restart_an_offer_is_where_it_was_and_nothing_is_looked_up(room: OfferRoom) -> None:
    number = room.offer(nodes=4, limit_s=60)
    room.settle()
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    again.recover()
    assert again.take_effects().actions == []
    assert again.job(number).phase == "kept"
    PlaceOffers(again).take(number, room.now)
    assert [type(each) for each in again.take_effects().actions] == [Start]


def test_an_offer_cannot_be_held_and_only_plain_jobs_are_offered(room: OfferRoom) -> None:
    number = room.offer(nodes=1)
    with pytest.raises(Conflict, match="only offered"):
        room.queue.hold(number, "user", room.now)
    with pytest.raises(InvalidInput, match="nothing but nodes"):
        room.offer(nodes=1, indices=(1, 2))


def test_only_places_that_nobody_has_taken_may_be_forgotten_by_a_store(room: OfferRoom) -> None:

    def soft() -> bool:
        return are_soft(room.queue.take_effects())

    assert not soft(), "it has terms"
    first, behind = room.offer(nodes=4, limit_s=60), room.offer(nodes=1)
    assert soft()
    room.queue.cancel(behind, "not taken", room.now)
    assert soft()
    room.submit(nodes=1)
    assert not soft(), "somebody was told of a job"
    room.queue.cancel(first, "not taken", room.now)
    assert not soft(), "a program starts on what came free"
    taken = room.offer(nodes=1)
    assert soft()
    room.offers.take(taken, room.now)
    assert not soft()


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(2, 50), st.sampled_from(["job", "offer", "go", "no"])
        ),
        max_size=14,
    ),
    st.integers(1, 15),
)
def test_no_job_starts_later_than_was_promised_though_programs_have_to_be_killed(
    arrivals: list[tuple[int, int, str]], ending_s: int
) -> None:
    """Offers are decided in time."""
    _play(OfferRoom(ending_s=ending_s), arrivals, ending_s)


def test_promises_fail_where_the_time_to_kill_programs_is_not_planned() -> None:
    behind = [(2, 30, "job"), (2, 5, "job"), (4, 5, "job"), (2, 20, "job")]
    _play(OfferRoom(ending_s=15), behind, 15)
    with pytest.raises(AssertionError, match="begins"):
        _play(OfferRoom(ending_s=0), behind, 15)


def _play(room: OfferRoom, arrivals: list[tuple[int, int, str]], over_s: int) -> None:
    """Programs are there until the last second of `over_s` beyond their limits."""
    promised: dict[int, int] = {}
    undecided: dict[int, tuple[int, bool]] = {}
    for nodes, limit_s, kind in arrivals:
        decided_s = 0
        if kind == "job":
            number = room.submit(nodes=nodes, limit_s=limit_s)
        else:
            decided_s = room.now + 10
            number = room.offer(10, nodes=nodes, limit_s=limit_s)
            undecided[number] = room.now + 2 * nodes + 2, kind != "no"
        promised[number] = room.offers.start_by(number, decided_s)
        for _ in range(limit_s % 3):
            _let_happen(room, undecided, promised, over_s)
            room.now += 1
        _let_happen(room, undecided, promised, over_s)
    for _ in range(1_000):
        room.now += 1
        _let_happen(room, undecided, promised, over_s)
    assert not room.queue.flow.table.jobs


def _let_happen(
    room: OfferRoom,
    undecided: dict[int, tuple[int, bool]],
    promised: dict[int, int],
    over_s: int,
) -> None:
    """Decide what is due; what is over its limit ends."""
    for number, (at_s, taken) in list(undecided.items()):
        if at_s <= room.now:
            del undecided[number]
            if taken:
                room.offers.take(number, room.now)
            else:
                room.queue.cancel(number, "another was taken", room.now)
    for job in list(room.queue.flow.table):
        if job.phase == "running" and job.started_s + job.limit_s + over_s - 1 <= room.now:
            room.end(job.number)
    room.queue.advance(room.now)
    for each in room.settle():
        assert isinstance(each, Start)
        number, at_s = each.job.number, each.job.started_s
        assert at_s <= promised[number], f"{number} begins at {at_s}, and not by {promised[number]}"
        room.queue.begun(number, each.attempt, room.now)


def test_of_an_offer_that_nobody_took_nothing_is_kept_charged_or_told(room: OfferRoom) -> None:
    notify = Notify(when=("begin", "end", "fail"))
    kept = room.offer(nodes=4, notify=notify)
    queued = room.offer(nodes=4, notify=notify)
    room.queue.take_effects()
    room.now += 5
    for number in (kept, queued):
        room.queue.cancel(number, "another offer was taken", room.now)
    effects = room.queue.take_effects()
    assert effects.milestones == []
    table = room.queue.flow.table
    assert (table.jobs, table.past, table.submissions) == ({}, {}, {})
    assert all(use.jobs == 0 and not any(use.used.values()) for use in uses(room))


def uses(room: OfferRoom) -> list[Any]:
    return list(room.queue.flow.accounts.uses.values())
