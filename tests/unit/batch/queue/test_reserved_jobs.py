"""Jobs in reservations: who may, when they begin and end, and what becomes of them when it is changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.reserved_room import BOB, RESERVED, Room

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Kill, LookUp, Occupied, Relimit, Start
from kalends.core.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from kalends.core.jobs import LimitWarning

ANOTHER = "0190a000-0000-7000-8000-000000000002"


def test_jobs_begin_in_their_reservation_and_have_its_nodes_among_themselves(room: Room) -> None:
    jobs = [room.submit(nodes=nodes) for nodes in (2, 2, 1)]
    assert room.starts() == []
    assert room.at(1_999) == []
    assert room.at(2_000) == [jobs[0], jobs[2]], "who delays nobody in front begins before"
    assert set(room.queue.job(jobs[0]).nodes).isdisjoint(room.queue.job(jobs[2]).nodes)
    room.end(jobs[0])
    assert room.starts() == [jobs[1]]


def test_no_node_is_counted_twice_beside_the_queue(room: Room) -> None:
    inside = room.submit(nodes=2)
    room.at(2_000)
    outside = room.submit(nodes=1, reservation="", limit_s=5_000)
    assert room.starts() == [outside], "one node is nobody's reservation"
    behind = room.submit(nodes=1, reservation="", limit_s=10)
    assert room.starts() == [], "the third node of the reservation is kept for its jobs"
    room.end(inside)
    assert room.starts() == [], "and so are those that come back"
    room.at(3_000)
    assert room.queue.job(behind).on_nodes


def test_a_job_in_its_slot_has_nothing_of_the_calendar_but_what_the_reservation_has() -> None:
    room = Room()
    number = room.submit()
    room.queue.advance(2_000)
    room.now = 2_000
    room.settle()
    assert [each.nodes for each in room.occupied] == [0]
    room.queue.begun(number, 1, room.now)
    room.at(3_000)
    assert room.occupied[-1] == Occupied(number, 1, 3_000, 3_001), (
        "beyond its slot it is in the way"
    )


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"who": BOB}, NotFound, "no reservation of yours"),
        ({"reservation": ANOTHER}, NotFound, "no reservation of yours"),
        ({"nodes": 4}, InvalidInput, "does not fit into that reservation, which has 3 nodes for"),
        ({"limit_s": 1_001}, InvalidInput, "does not fit"),
        ({"limit_s": 0, "warning": LimitWarning(before_s=1_000)}, InvalidInput, "does not fit"),
        ({"reservation": "", "limit_s": 0}, InvalidInput, "the time limit is missing"),
    ],
)
def test_what_can_never_run_in_a_reservation_is_refused_at_once_with_the_reason(
    fields: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        Room().submit(**fields)


def test_a_reservation_that_is_over_or_gone_takes_no_jobs(room: Room) -> None:
    room.at(2_950)
    with pytest.raises(InvalidInput, match="3 nodes for 50s"):
        room.submit(limit_s=51)
    room.now = 3_000
    with pytest.raises(Conflict, match="has ended"):
        room.submit()
    gone = Room()
    gone.cancel()
    with pytest.raises(Conflict, match="was cancelled"):
        gone.submit()
    with pytest.raises(NotFound):
        gone.submit(who=BOB)


def test_without_a_limit_a_job_runs_until_the_slot_ends_and_is_warned_before(room: Room) -> None:
    number = room.submit(limit_s=0, warning=LimitWarning(before_s=60))
    room.at(1_999)
    room.queue.advance(2_000)
    room.now = 2_000
    (start,) = (each for each in room.settle() if isinstance(each, Start))
    assert (start.job.number, start.job.limit_s) == (number, 1_000)
    late = room.submit(limit_s=0)
    room.queue.advance(2_900)
    assert room.queue.job(late).until_s == 3_000


def test_a_job_whose_start_was_held_up_ends_with_its_slot_all_the_same(room: Room) -> None:
    whole, short = room.submit(limit_s=0), room.submit(limit_s=60)
    room.queue.advance(2_000)
    room.settle()
    room.now = 2_045
    room.queue.begun(whole, 1, room.now, at_s=2_040)
    room.queue.begun(short, 1, room.now, at_s=2_040)
    limits = [
        (each.job.number, each.limit_s) for each in room.settle() if isinstance(each, Relimit)
    ]
    assert limits == [(whole, 960)], "the other one has its minute, for the slot has room for it"


def test_who_has_no_time_left_is_withdrawn_and_told(room: Room) -> None:
    first, second = room.submit(nodes=3, limit_s=900), room.submit(nodes=3, limit_s=900)
    assert room.at(2_000) == [first]
    room.now = 2_160
    room.queue.hold(second, "user", room.now)
    assert room.phase(second) == "held", "a minute late it could begin still"
    room.now = 2_161
    room.queue.release(second, ["user"], room.now)
    assert second not in room.queue.flow.table.jobs
    overs = room.queue.take_effects().over
    assert [(job.phase, job.kill_detail) for job in overs] == [
        ("withdrawn", "its reservation has no nodes or no time left for it")
    ]


def test_waiting_jobs_follow_a_reservation_that_is_moved(room: Room) -> None:
    number = room.submit()
    room.change(f.NodeClaim(8, 5_000, 6_000, 2, RESERVED, "ann"))
    assert room.at(2_500) == []
    assert room.at(5_000) == [number]


def test_running_jobs_stay_in_a_reservation_that_goes_on_and_have_its_time(room: Room) -> None:
    whole, short = room.submit(limit_s=0), room.submit(limit_s=100)
    room.at(2_000)
    actions = room.change(f.NodeClaim(8, 2_000, 4_000, 2, RESERVED, "ann"))
    assert [(each.job.number, each.limit_s) for each in actions if isinstance(each, Relimit)] == [
        (whole, 2_000)
    ]
    assert not [each for each in actions if isinstance(each, Kill)]
    actions = room.change(f.NodeClaim(9, 1_500, 2_050, 2, RESERVED, "ann"))
    assert [each.limit_s for each in actions if isinstance(each, Relimit)] == [50, 50]
    assert room.queue.job(short).until_s == 2_050


def test_of_a_smaller_reservation_those_that_began_last_are_ended_and_told(room: Room) -> None:
    first, second = room.submit(nodes=2), room.submit(nodes=1)
    assert room.at(2_000) == [first, second]
    kills = [each for each in room.change(replace(room.slot, nodes=2)) if isinstance(each, Kill)]
    assert [(each.job.number, each.detail) for each in kills] == [
        (second, "its reservation no longer has these nodes")
    ]
    third = room.submit(nodes=1)
    room.end(second, f.JobEnding(kind="killed"))
    assert room.starts() == [], "both nodes of it are the first one's"
    room.end(first)
    assert room.starts() == [third]


def test_with_a_reservation_that_is_cancelled_its_jobs_end(room: Room) -> None:
    running, waiting = room.submit(nodes=3), room.submit(nodes=3)
    room.at(2_000)
    actions = room.cancel()
    assert [each.job.number for each in actions if isinstance(each, Kill)] == [running]
    assert waiting not in room.queue.flow.table.jobs
    outside = room.submit(nodes=4, reservation="", limit_s=10)
    assert room.starts() == [], "its nodes are its own until all of it is gone"
    room.end(running, f.JobEnding(kind="killed"))
    assert room.starts() == [outside]


def test_a_hold_becomes_a_slot_when_it_is_locked(room: Room) -> None:
    hold = f.NodeClaim(9, 1_100, 1_200, 1)
    room.queue.claims_changed((), (hold,), room.now)
    locked = replace(hold, reservation=ANOTHER, user="bob")
    room.queue.claims_changed((9,), (locked,), room.now)
    room.settle()
    number = room.submit(BOB, reservation=ANOTHER, limit_s=0)
    assert room.at(1_100) == [number]


def test_a_slot_whose_nodes_are_in_use_is_kept_when_they_come_back(room: Room) -> None:
    late = room.submit(reservation="", nodes=4, limit_s=1_000)
    assert room.starts() == [late]
    inside = room.submit(nodes=3)
    assert room.at(2_001) == [], "a job beyond its time has them"
    room.end(late)
    assert room.starts() == [inside]


def test_a_job_that_never_began_before_its_slot_was_over_never_runs(room: Room) -> None:
    number = room.submit(limit_s=0)
    room.at(1_999)
    room.queue.advance(2_000)
    room.settle()
    room.queue.void(number, 1, 3_001)
    effects = room.queue.take_effects()
    assert not [each for each in effects.actions if isinstance(each, Start)]
    assert [job.phase for job in effects.over] == ["withdrawn"]


def test_a_later_attempt_has_what_is_left_of_the_time(room: Room) -> None:
    number = room.submit(limit_s=500)
    room.at(1_999)
    room.queue.advance(2_000)
    room.settle()
    room.queue.void(number, 1, 2_100)
    (start,) = (each for each in room.settle() if isinstance(each, Start))
    assert (start.attempt, start.job.limit_s) == (2, 400)


def test_limits_of_users_do_not_keep_their_own_nodes_from_them() -> None:
    room = Room(user=f.JobLimits(nodes=1, running=1, jobs=3))
    outside = room.submit(reservation="")
    inside = [room.submit(nodes=2, limit_s=0), room.submit(nodes=1, limit_s=0)]
    room.starts()
    assert room.queue.job(outside).on_nodes
    assert room.at(2_000) == inside


def test_a_restart_comes_to_the_same_jobs_slots_and_limits(room: Room) -> None:
    jobs = [room.submit(nodes=2, limit_s=0), room.submit(nodes=1), room.submit(nodes=3)]
    room.at(2_000)
    room.change(f.NodeClaim(8, 1_500, 2_500, 3, RESERVED, "ann"))
    again = room.replayed()
    seen = [
        [(job.number, job.phase, job.reservation, job.slot, job.nodes, job.until_s, job.limit_s)
         for job in queue.flow.table]
        for queue in (room.queue, again)
    ]  # fmt: skip
    assert seen[0] == seen[1]
    again.recover()
    actions = again.take_effects().actions
    assert [each.job.number for each in actions if isinstance(each, LookUp)] == jobs[:2]
    assert [each.limit_s for each in actions if isinstance(each, Relimit)] == [500, 100]


def test_on_a_machine_with_a_topology_jobs_get_partitions_of_the_reserved_nodes() -> None:
    room = Room("mesh2d:4x2")
    pair, single = room.submit(nodes=2, shape=(1, 2)), room.submit(nodes=1)
    outside = room.submit(nodes=4, reservation="", limit_s=5_000)
    assert room.starts() == [outside], "the three nodes are a square of four"
    assert room.at(2_000) == [pair, single]
    taken = [node for each in (pair, single, outside) for node in room.queue.job(each).nodes]
    assert len(taken) == len(set(taken)) == 7
    before = room.queue.job(pair).nodes
    room.change(f.NodeClaim(8, 1_500, 4_000, 3, RESERVED, "ann"))
    assert room.queue.job(pair).nodes == before
    assert not room.unplaced


def test_a_job_with_a_fixed_start_has_its_nodes_booked_and_begins_then(room: Room) -> None:
    number = room.submit(BOB, reservation="", at=1_400, limit_s=200, nodes=2)
    assert room.starts() == []
    assert room.occupied == [Occupied(number, 2, 1_400, 1_600)]
    behind = room.submit(reservation="", nodes=3, limit_s=450)
    assert room.starts() == [], "it would still have nodes that are booked"
    assert room.at(1_400) == [number]
    room.end(number)
    assert room.starts() == [behind], "what is not used any more is everybody's"
    assert Occupied(number, 0, 0, 0) in room.occupied


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"at": 999}, InvalidInput, "has passed"),
        ({"at": 1_950, "nodes": 2}, Conflict, "2 nodes are not free from 1950"),
        ({"at": 1_100, "held": True}, InvalidInput, "a fixed start cannot be combined"),
        ({"at": 1_100, "reservation": RESERVED}, InvalidInput, "a fixed start cannot be combined"),
        ({"at": 1_100, "nodes": 5}, InvalidInput, "can never be free"),
    ],
)
def test_a_fixed_start_that_cannot_be_is_refused_and_nothing_has_happened(
    room: Room, fields: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        room.submit(**{"reservation": "", **fields})
    assert not room.queue.take_effects()


def test_a_fixed_start_needs_room_under_the_limits_when_it_is_booked() -> None:
    room = Room(user=f.JobLimits(running=1))
    room.submit(reservation="", nodes=1)
    with pytest.raises(LimitExceeded, match="user ann may run 1 jobs at a time"):
        room.submit(reservation="", at=1_200, limit_s=10)


def test_a_withdrawn_job_gives_back_what_was_booked_for_it(room: Room) -> None:
    number = room.submit(reservation="", at=1_500, limit_s=200, nodes=2)
    room.queue.cancel(number, "by ann", room.now)
    room.settle()
    assert room.occupied == [Occupied(number, 2, 1_500, 1_700), Occupied(number, 0, 0, 0)]
    assert room.submit(reservation="", at=1_500, limit_s=400, nodes=4)


def test_a_job_that_is_late_ends_with_its_booking_and_is_withdrawn_after_that(room: Room) -> None:
    late = room.submit(reservation="", nodes=4, limit_s=100)
    assert room.starts() == [late]
    fixed, never = (
        room.submit(reservation="", nodes=2, at=1_100, limit_s=limit_s) for limit_s in (50, 20)
    )
    assert room.at(1_130) == [], "another job has their nodes, beyond its time"
    assert never not in room.queue.flow.table.jobs
    room.end(late)
    (start,) = (each for each in room.settle() if isinstance(each, Start))
    assert (start.job.number, start.job.limit_s) == (fixed, 20)


def test_whose_time_is_all_of_the_reservation_begins_also_if_the_site_is_late(room: Room) -> None:
    number = room.submit(limit_s=1_000)
    room.queue.advance(2_007)
    (start,) = (each for each in room.settle() if isinstance(each, Start))
    assert (start.job.number, start.job.limit_s) == (number, 993)


def test_a_restart_books_fixed_starts_again(room: Room) -> None:
    number = room.submit(reservation="", at=1_500, limit_s=200, nodes=2)
    room.settle()
    again = room.replayed()
    again.recover()
    assert again.take_effects().occupied == [Occupied(number, 2, 1_500, 1_700)]
    assert again.flow.room.claims() == {7: room.slot}, "the calendar's claims are another's"
    again.advance(1_500)
    (start,) = again.take_effects().actions
    assert isinstance(start, Start)
    assert (start.job.number, start.job.limit_s) == (number, 200)
