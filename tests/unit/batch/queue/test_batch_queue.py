"""The queue of a machine: what it takes, refuses, holds, starts and forgets, fact by fact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import erring_policies
import pytest
from msgspec import structs

from kalends.batch.queue import facts as f
from kalends.batch.queue.effects import Action, Kill, LookUp, Start
from kalends.batch.queue.phases import NEXT_PHASE, JobPhase, next_phase
from kalends.batch.queue.queue import BatchQueue
from kalends.core.errors import (
    Conflict,
    IllegalEvent,
    InvalidInput,
    KeyReused,
    LimitExceeded,
    NotAllowed,
    NotFound,
    StoreDamaged,
)
from kalends.core.jobs import After, JobRequest
from kalends.core.principals import Principal

ANN, BOB = Principal("ann"), Principal("bob")
DONE = f.JobEnding(kind="exit")
FAILED = f.JobEnding(kind="exit", status=2)


class Room:
    """A queue of four nodes, the time there, and keys that nobody has used."""

    def __init__(self, **terms: Any) -> None:
        self.terms = f.Terms(machine="pool:4", **terms)
        self.queue = BatchQueue("lab/box", self.terms, 1_000)
        self.now = 1_000
        self.keys = 0
        self.stored: list[f.JournalEntry] = []
        self.done: list[Action] = []

    def submit(self, who: Principal = ANN, **fields: Any) -> int:
        self.keys += 1
        job = JobRequest(**{"machine": "lab/box", "limit_s": 60, "command": ("true",), **fields})
        number, _ = self.queue.submit(who, job, f"the-key-{self.keys}", self.now)
        return number

    def settle(self) -> list[Action]:
        """What follows from the steps since the last call."""
        effects = self.queue.take_effects()
        self.stored += effects.entries
        return effects.actions

    def starts(self) -> list[int]:
        return [each.job.number for each in self.settle() if isinstance(each, Start)]

    def end(self, number: int, ending: f.JobEnding = DONE) -> None:
        attempt = self.queue.job(number).attempt
        self.queue.begun(number, attempt, self.now)
        self.queue.ended(number, attempt, ending, self.now)

    def phase(self, number: int) -> JobPhase:
        return self.queue.job(number).phase

    def reasons(self, number: int) -> set[f.Reason]:
        return self.queue.job(number).reasons


@pytest.fixture
def room() -> Room:
    return Room()


def test_jobs_start_on_nodes_of_their_own_in_the_order_of_the_policy(room: Room) -> None:
    first, second, third = room.submit(nodes=3), room.submit(nodes=2), room.submit(nodes=1)
    assert room.starts() == [first, third], "the third delays nobody"
    assert room.queue.job(first).nodes == (0, 1, 2)
    assert room.queue.job(third).nodes == (3,)
    room.end(first)
    assert room.starts() == [second]
    assert room.queue.job(second).nodes == (0, 1)


def test_a_key_gives_the_same_job_again_and_no_other(room: Room) -> None:
    job = JobRequest(machine="lab/box", limit_s=60, command=("true",), indices=(1, 2, 3))
    assert room.queue.submit(ANN, job, "the-key", 1_000) == (1, 3)
    assert room.queue.submit(ANN, job, "the-key", 1_001) == (1, 3)
    assert room.queue.submit(BOB, job, "the-key", 1_001) == (4, 3), "keys are their user's own"
    with pytest.raises(KeyReused):
        room.queue.submit(
            ANN, JobRequest(machine="lab/box", limit_s=9, command=("x",)), "the-key", 1
        )


def test_a_job_of_an_array_has_its_own_index_and_not_those_of_all(room: Room) -> None:
    first = room.submit(indices=(3, 4))
    jobs = [room.queue.job(number) for number in (first, first + 1)]
    assert [(job.index, job.array, job.request.indices) for job in jobs] == [
        (3, first, ()), (4, first, ()),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"nodes": 5}, ": 5 nodes can never be free"),
        ({"nodes": 1, "sizes": (1, 2, 9)}, ": 9 nodes can never be free"),
        ({"nodes": 2, "shape": (2, 2)}, ": nodes as 2x2 can never be free"),
        ({"priority": "royal"}, "no priority class royal"),
        ({"after": (After(job=7),)}, "no job 7"),
        ({"command": ()}, "neither a command nor a script"),
        ({"indices": (1, 1)}, "an index is given twice"),
    ],
)
def test_what_can_never_be_right_is_refused_and_nothing_has_happened(
    fields: dict[str, Any], said: str
) -> None:
    room = Room()
    room.settle()
    with pytest.raises(InvalidInput, match=said):
        room.submit(**fields)
    assert not room.queue.take_effects()
    assert room.submit() == 1


def test_a_held_job_waits_for_its_release_and_keeps_its_place(room: Room) -> None:
    running, held, behind = room.submit(nodes=4), room.submit(nodes=4), room.submit(nodes=4)
    room.queue.hold(held, "user", room.now)
    assert (room.phase(held), room.reasons(held)) == ("held", {"user"})
    room.queue.release(held, ["user"], room.now)
    room.settle()
    room.end(running)
    assert room.starts() == [held]
    room.end(held)
    assert room.starts() == [behind]
    with pytest.raises(Conflict, match="not waiting"):
        room.queue.hold(behind, "user", room.now)


def test_only_when_nothing_holds_it_any_more_is_a_job_queued(room: Room) -> None:
    number = room.submit(held=True, not_before=1_500)
    room.queue.hold(number, "operator", room.now)
    assert room.reasons(number) == {"user", "time", "operator"}
    room.queue.release(number, ["user", "operator"], room.now)
    assert room.queue.next_due_s() == 1_500
    room.queue.advance(1_499)
    assert room.starts() == []
    room.queue.advance(1_500)
    assert room.starts() == [number]


@pytest.mark.parametrize(
    ("happened", "ending", "starts"),
    [
        ("succeeded", DONE, True),
        ("succeeded", FAILED, False),
        ("failed", DONE, False),
        ("failed", FAILED, True),
        ("ended", FAILED, True),
    ],
)
def test_a_job_waits_for_what_becomes_of_another(
    room: Room, happened: Any, ending: f.JobEnding, starts: bool
) -> None:
    first = room.submit()
    second = room.submit(after=(After(job=first, happened=happened),))
    assert room.reasons(second) == {"dependency"}
    room.settle()
    room.end(first, ending)
    assert room.starts() == ([second] if starts else [])
    assert (second in room.queue.flow.table.jobs) == starts, "what cannot begin is over"


def test_a_job_that_waits_for_a_start_is_queued_when_the_shepherd_has_begun(room: Room) -> None:
    first = room.submit()
    second = room.submit(after=(After(job=first, happened="started"),))
    room.settle()
    assert room.phase(second) == "held"
    room.queue.begun(first, 1, room.now)
    assert room.starts() == [second]


def test_jobs_over_a_limit_are_held_and_queued_in_order_when_there_is_room_under_it() -> None:
    room = Room(user=f.JobLimits(running=2, jobs=4))
    first, second, third, fourth = (room.submit() for _ in range(4))
    assert room.starts() == [first, second]
    assert room.reasons(third) == room.reasons(fourth) == {"limit"}
    assert room.submit(BOB) == 5
    with pytest.raises(LimitExceeded, match="has 4 jobs, the maximum is 4"):
        room.submit()
    room.settle()
    room.end(second)
    assert room.starts() == [third]


def test_limits_count_the_nodes_that_a_job_is_given_not_those_that_it_has_named() -> None:
    mesh = f.Terms(machine="mesh2d:8x8", user=f.JobLimits(nodes=20, node_seconds=3_000))
    queue = BatchQueue("lab/box", mesh, 1_000)

    def ask(shape: tuple[int, ...], limit_s: int, key: str) -> int:
        job = JobRequest(machine="lab/box", limit_s=limit_s, shape=shape, command=("true",))
        return queue.submit(ANN, job, key, 1_000)[0]

    with pytest.raises(NotAllowed, match="asks for 25 nodes at a time"):
        ask((5, 5), 10, "key-1")
    with pytest.raises(NotAllowed, match="node-hours"):
        ask((4, 4), 200, "key-2")
    first, second = ask((4, 4), 100, "key-3"), ask((4, 4), 10, "key-4")
    assert len(queue.job(first).nodes) == 16
    assert queue.job(second).reasons == {"limit"}


def test_a_job_that_its_project_holds_keeps_none_of_another_project_back() -> None:
    limits = {"user": f.JobLimits(running=1), "project": f.JobLimits(node_seconds=100)}
    room = Room(**limits, period_s=1_000_000)
    used = room.submit(project="spent", limit_s=100)
    room.settle()
    room.now += 100
    room.end(used)
    spent = room.submit(project="spent", limit_s=50)
    running, waiting = (room.submit(project="rich", limit_s=50) for _ in range(2))
    assert room.starts() == [running]
    room.end(running)
    assert room.starts() == [waiting]
    assert room.reasons(spent) == {"limit"}


def test_a_job_that_is_too_long_for_the_rest_of_a_period_keeps_no_shorter_one_back() -> None:
    room = Room(user=f.JobLimits(running=1, node_seconds=100), period_s=1_000_000)
    running = room.submit(limit_s=40)
    long, short = room.submit(limit_s=90), room.submit(limit_s=40)
    assert room.starts() == [running]
    room.now += 20
    room.end(running)
    assert room.starts() == [short]
    assert room.reasons(long) == {"limit"}


def test_jobs_that_wait_for_a_new_period_are_queued_when_it_begins_whatever_else_happens() -> None:
    room = Room(user=f.JobLimits(node_seconds=100), period_s=1_000)
    used, held = room.submit(limit_s=100), room.submit(limit_s=50)
    assert room.starts() == [used]
    room.now += 100
    room.end(used)
    assert room.starts() == []
    assert room.queue.next_due_s() == 2_000
    room.queue.advance(2_000)
    assert room.starts() == [held]
    room.now = 2_000
    room.end(held)
    assert room.queue.next_due_s() is None


def test_node_seconds_of_a_period_are_reserved_before_and_counted_after() -> None:
    room = Room(user=f.JobLimits(node_seconds=100), period_s=1_000)
    first, second = room.submit(limit_s=80), room.submit(limit_s=80)
    assert room.starts() == [first]
    room.now += 10
    room.end(first)
    assert room.starts() == [second], "only 10 of 80 were used"
    room.now += 70
    room.end(second)
    third = room.submit(limit_s=30)
    assert room.reasons(third) == {"limit"}
    with pytest.raises(NotAllowed, match=r"user ann may have 0\.0277778 node-hours"):
        room.submit(limit_s=101)
    room.queue.advance(2_000)
    room.now = 2_000
    room.end(room.submit(BOB, limit_s=5))
    assert third in room.starts(), "a new period"


def test_nobody_is_charged_for_what_was_not_their_doing(room: Room) -> None:
    number = room.submit()
    room.settle()
    room.now += 50
    room.end(number, f.JobEnding(kind="not-started", detail="no such command"))
    (over,) = room.queue.take_effects().over
    assert (over.node_seconds, over.ending and over.ending.detail) == (0, "no such command")


def test_jobs_are_charged_by_use_and_class_to_the_second_and_not_for_what_was_lost() -> None:
    members = {"high": ("everyone",)}
    tariff = {"normal": 10, "high": 30}
    room = Room(policy="easy-priority", class_members=members, tariff=tariff)

    def charged(ending: f.JobEnding, **fields: Any) -> int:
        number = room.submit(nodes=2, **fields)
        room.settle()
        room.now += 7
        room.end(number, ending)
        (over,) = room.queue.take_effects().over
        return over.credit_seconds

    assert charged(DONE) == 2 * 7 * 10
    assert charged(FAILED, priority="high") == 2 * 7 * 30
    assert charged(DONE, priority="low") == 0
    assert charged(f.JobEnding(kind="killed")) == 2 * 7 * 10
    for kind in ("lost", "node-failed", "not-started"):
        assert charged(f.JobEnding(kind=kind)) == 0
    room.queue.record(f.TermsSet(f.Terms(machine="pool:4", tariff={"normal": 1})), room.now)
    assert charged(DONE) == 2 * 7


def test_an_attempt_that_never_began_is_made_again_on_the_same_nodes(room: Room) -> None:
    number = room.submit(nodes=2)
    room.settle()
    room.queue.void(number, 1, room.now)
    (start,) = room.settle()
    assert isinstance(start, Start)
    assert (start.attempt, start.nodes) == (2, (0, 1))
    room.queue.void(number, 1, room.now)
    room.queue.begun(number, 1, room.now)
    assert room.settle() == [], "what is said of an earlier attempt is let go"


def test_a_job_that_is_killed_before_it_begins_is_withdrawn_once_that_is_certain() -> None:
    room = Room()
    number = room.submit(nodes=4)
    room.settle()
    room.queue.cancel(number, "by ann", room.now)
    (kill,) = room.settle()
    assert isinstance(kill, Kill)
    assert room.phase(number) == "ending"
    waiting = room.submit()
    assert room.starts() == [], "its nodes are its own until then"
    room.queue.void(number, 1, room.now)
    assert room.starts() == [waiting]
    with pytest.raises(NotFound):
        room.queue.job(number)


@pytest.mark.parametrize("rerun", [True, False])
def test_only_a_job_that_may_run_twice_runs_again_when_it_was_lost(rerun: bool) -> None:
    room = Room(attempts_max=2)
    number = room.submit(rerun=rerun)
    room.settle()
    room.end(number, f.JobEnding(kind="lost"))
    assert room.starts() == ([number] if rerun else [])
    if rerun:
        room.end(number, f.JobEnding(kind="lost"))
    with pytest.raises(NotFound):
        room.queue.job(number)


def test_a_job_that_runs_again_waits_at_its_old_place(room: Room) -> None:
    lost = room.submit(nodes=4, rerun=True)
    room.settle()
    younger = room.submit(nodes=4)
    room.now += 5
    room.end(lost, f.JobEnding(kind="lost"))
    assert room.starts() == [lost]
    room.end(lost)
    assert room.starts() == [younger]


def test_a_failed_node_ends_its_jobs_and_gets_no_others(room: Room) -> None:
    first, second = room.submit(nodes=2, rerun=True), room.submit(nodes=2)
    room.settle()
    room.queue.fail([1], "its fan", room.now)
    (kill,) = room.settle()
    assert (kill.job.number, isinstance(kill, Kill)) == (first, True)
    room.end(first, f.JobEnding(kind="killed", status=-9))
    assert room.starts() == []
    room.end(second)
    assert room.starts() == [first]
    assert 1 not in room.queue.job(first).nodes
    with pytest.raises(InvalidInput, match="no such nodes"):
        room.queue.drain([4], "", room.now)


@pytest.mark.parametrize("ending", ["lost", "killed"])
def test_what_somebody_has_asked_to_end_does_not_run_again(room: Room, ending: f.EndKind) -> None:
    number = room.submit(rerun=True)
    room.settle()
    room.queue.begun(number, 1, room.now)
    room.queue.fail([0], "its fan", room.now)
    room.queue.cancel(number, "ann", room.now)
    room.queue.cancel(number, "ann", room.now)
    kills = [each.detail for each in room.settle() if isinstance(each, Kill)]
    assert kills == ["its fan", "ann"], "the user's wish is noted though it ends already"
    room.queue.ended(number, 1, f.JobEnding(kind=ending), room.now)
    assert room.starts() == []
    with pytest.raises(NotFound):
        room.queue.job(number)


def test_a_job_whose_node_fails_before_anything_of_it_ran_waits_again() -> None:
    room = Room(attempts_max=1)
    number = room.submit(nodes=2)
    room.settle()
    room.queue.fail([1], "its fan", room.now)
    room.settle()
    room.queue.void(number, 1, room.now)
    assert room.starts() == [number]
    assert room.queue.job(number).nodes == (0, 2)
    room.queue.fail([2], "its fan", room.now)
    room.queue.cancel(number, "ann", room.now)
    room.settle()
    room.queue.void(number, 2, room.now)
    assert room.starts() == [], "unless its user does not want it any more"


def test_a_start_that_was_held_up_leaves_reservations_their_nodes(room: Room) -> None:
    number = room.submit(nodes=2, limit_s=60)
    room.settle()
    room.queue.claims_changed((), (f.NodeClaim(7, 1_060, 1_100, 4),), room.now)
    room.now = 1_030
    room.queue.void(number, 1, room.now)
    assert room.starts() == [], "it would run on the nodes of the reservation"
    assert room.phase(number) == "queued"
    room.now = 1_100
    room.queue.advance(room.now)
    assert room.starts() == [number]


def test_attempts_that_never_began_do_not_count_as_starts() -> None:
    room = Room(attempts_max=2)
    number = room.submit(rerun=True)
    for attempt in (1, 2, 3):
        room.queue.void(number, attempt, room.now)
    room.settle()
    room.end(number, f.JobEnding(kind="lost"))
    assert room.starts() == [number]
    room.end(number, f.JobEnding(kind="lost"))
    assert room.starts() == []


@pytest.mark.parametrize("rerun", [True, False])
@pytest.mark.parametrize("waits", [True, False])
def test_what_has_begun_since_the_store_was_copied_begins_again_only_if_that_does_no_harm(
    room: Room, rerun: bool, waits: bool
) -> None:
    before = room.submit(nodes=4) if waits else 0
    number = room.submit(rerun=rerun)
    room.settle()
    for _ in range(2):
        room.queue.attempts_seen([f.SeenAttempts(number, 2, True)], room.now)
    if waits:
        room.end(before)
    elif not rerun:
        (kill,) = room.settle()
        assert isinstance(kill, Kill)
        room.queue.void(number, 1, room.now)
    else:
        room.queue.begun(number, 1, room.now)
        room.queue.ended(number, 1, f.JobEnding(kind="lost"), room.now)
    starts = [each for each in room.settle() if isinstance(each, Start)]
    assert [(each.job.number, each.attempt) for each in starts] == [(number, 3)] * rerun
    assert len([each for each in room.stored if isinstance(each.fact, f.AttemptsSeen)]) == 1


def test_nothing_begins_before_it_is_known_what_has_begun_since_the_store_was_copied() -> None:
    room = Room()
    room.submit(nodes=2)
    wide, behind = room.submit(nodes=4), room.submit(nodes=2, limit_s=600, rerun=True)
    room.settle()
    seen = [f.SeenAttempts(number, 1, True) for number in (wide, behind)]
    room.queue.attempts_seen(seen, room.now)
    starts = [each for each in room.settle() if isinstance(each, Start)]
    assert [(each.job.number, each.attempt) for each in starts] == [(behind, 2)]
    assert not room.queue.flow.room.out_reasons


def test_a_number_of_an_attempt_that_never_began_is_only_not_used_again(room: Room) -> None:
    before, number = room.submit(nodes=4), room.submit()
    room.queue.attempts_seen([f.SeenAttempts(number, 1, False)], room.now)
    room.settle()
    room.end(before)
    (start,) = room.settle()
    assert isinstance(start, Start)
    assert (start.job.number, start.attempt) == (number, 2)


def test_what_was_told_to_end_is_told_again_after_a_restart(room: Room) -> None:
    number = room.submit()
    room.settle()
    room.queue.begun(number, 1, room.now)
    room.queue.cancel(number, "ann", room.now)
    room.settle()
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    again.recover()
    looks, kills = again.take_effects().actions
    assert isinstance(looks, LookUp)
    assert isinstance(kills, Kill)
    assert (kills.job.number, kills.attempt, kills.detail) == (number, 1, "ann")


def test_a_job_that_has_begun_and_whose_record_is_gone_is_lost(room: Room) -> None:
    number, other = room.submit(nodes=4), room.submit()
    room.settle()
    room.queue.begun(number, 1, room.now)
    room.queue.void(number, 1, room.now)
    (over,) = room.queue.flow.effects.over
    assert (over.phase, over.ending) == (
        "lost", f.JobEnding(kind="lost", detail="the record of its end was removed"),
    )  # fmt: skip
    assert room.starts() == [other]


def test_only_its_members_have_jobs_charged_to_a_project_where_the_owner_names_any() -> None:
    cal = Principal("cal", groups=("biologists",))
    named = Room(members={"dna": ("group:biologists", "user:ann"), "rna": ("user:ann",)})
    for who, project in ((ANN, "dna"), (ANN, "rna"), (cal, "dna"), (BOB, "")):
        named.submit(who, project=project)
    for who, project in ((BOB, "dna"), (cal, "rna"), (ANN, "protein")):
        with pytest.raises(NotAllowed, match=f"a member of project {project}") as refused:
            named.submit(who, project=project)
        assert refused.value.where == "project"
    assert "your projects are dna" in _remedy_of(named, cal, "rna")
    assert "ask the owner" in _remedy_of(named, BOB, "rna")
    Room().submit(BOB, project="anything")


def _remedy_of(room: Room, who: Principal, project: str) -> str:
    with pytest.raises(NotAllowed) as refused:
        room.submit(who, project=project)
    return refused.value.remedy


def test_claims_of_the_calendar_are_left_free_and_their_end_lets_jobs_start(room: Room) -> None:
    room.queue.claims_changed((), (f.NodeClaim(7, 1_030, 1_100, 4),), room.now)
    long, short = room.submit(limit_s=60), room.submit(limit_s=20)
    assert room.starts() == [short]
    room.queue.claims_changed((7,), (f.NodeClaim(8, 1_030, 1_040, 1),), room.now)
    assert room.starts() == [long], "three nodes are free all the time"


def test_a_claim_where_a_job_is_beyond_its_time_is_told(room: Room) -> None:
    room.submit(nodes=4, limit_s=10)
    room.settle()
    room.now += 30
    room.queue.claims_changed((), (f.NodeClaim(7, 1_030, 1_100, 1),), room.now)
    assert room.queue.take_effects().unplaced == [7]


def test_a_job_beyond_its_time_keeps_its_nodes_until_it_is_told_to_have_ended(room: Room) -> None:
    number = room.submit(nodes=4, limit_s=10)
    waiting = room.submit(nodes=1)
    room.settle()
    room.queue.begun(number, 1, room.now)
    for at in (1_010, 1_011, 1_050):
        room.now = at
        room.queue.advance(at)
        assert room.starts() == []
    room.end(number, f.JobEnding(kind="limit", status=-15))
    assert room.starts() == [waiting]


def test_the_policy_is_switched_and_no_job_loses_its_place_or_its_nodes() -> None:
    room = Room(policy="fcfs")
    first, second, third = room.submit(nodes=3), room.submit(nodes=2), room.submit(nodes=1)
    assert room.starts() == [first]
    room.queue.set_policy("easy", room.now)
    assert room.starts() == [third]
    with pytest.raises(InvalidInput, match="unknown policy"):
        room.queue.set_policy("magic", room.now)
    room.end(first)
    assert room.starts() == [second]


def test_a_switched_policy_outlives_a_restart_until_the_owner_sets_other_terms() -> None:
    room = Room(policy="fcfs")
    room.queue.set_policy("easy", room.now)
    room.settle()
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    assert (again.flow.terms.policy, again.flow.configured.policy) == ("easy", "fcfs")
    assert not again.take_effects().entries
    others = structs.replace(room.terms, attempts_max=2)
    owner = BatchQueue("lab/box", others, room.now, room.stored)
    assert owner.flow.terms == owner.flow.configured == others


def test_the_stored_facts_make_the_same_queue_and_what_may_run_is_looked_up(room: Room) -> None:
    first, second = room.submit(nodes=3), room.submit(nodes=2)
    room.settle()
    room.queue.begun(first, 1, room.now)
    room.settle()
    again = BatchQueue("lab/box", room.terms, 500, room.stored)
    assert again.last_s == 1_000, "time never goes back behind what was stored"
    assert [(job.number, job.phase, job.nodes) for job in again.flow.table] == [
        (first, "running", (0, 1, 2)),
        (second, "queued", ()),
    ]
    assert not again.take_effects()
    again.recover()
    effects = again.take_effects()
    assert effects.actions == [LookUp(again.job(first), 1)]
    assert [each.number for each in effects.occupied] == [first]


@pytest.mark.parametrize("broken", ["gap", "back", "headless"])
def test_a_journal_that_no_queue_has_written_is_refused(room: Room, broken: str) -> None:
    room.submit()
    room.submit()
    room.settle()
    entries = room.stored
    if broken == "gap":
        del entries[1]
    elif broken == "headless":
        del entries[0]
    else:
        entries[2] = f.JournalEntry(3, 10, entries[2].fact)
    with pytest.raises(StoreDamaged):
        BatchQueue("lab/box", room.terms, 1_000, entries)


def test_facts_are_read_as_they_were_stored(room: Room) -> None:
    room.submit(after=(), environment={"A": "b"}, indices=(3, 4))
    room.settle()
    for entry in room.stored:
        assert f.decode_fact(f.encode_fact(entry.fact)) == entry.fact


def test_every_phase_is_left_only_by_the_events_of_its_table() -> None:
    events = {event for row in NEXT_PHASE.values() for event in row}
    for phase, row in NEXT_PHASE.items():
        for event in events:
            if event in row:
                assert next_phase(phase, event) == row[event]
            else:
                with pytest.raises(IllegalEvent):
                    next_phase(phase, event)


def test_a_plan_made_anew_gives_everybody_their_place_and_tells_which_promises_are_void() -> None:
    room = Room(policy="conservative")
    running, first = room.submit(nodes=4), room.submit(nodes=4)
    room.queue.hold(first, "user", room.now)
    second = room.submit(nodes=4)
    room.queue.release(first, ["user"], room.now)
    assert room.queue.flow.room.promises() == {first: 1_120, second: 1_060}
    moved = room.queue.replan(room.now)
    assert sorted(moved) == [(first, 1_120, 1_060), (second, 1_060, 1_120)]
    assert room.phase(running) == "starting", "what has nodes keeps them"
    assert room.queue.replan(room.now) == []
    room.starts()
    again = BatchQueue("lab/box", room.terms, room.now, room.stored)
    assert again.flow.room.promises() == {first: 1_060, second: 1_120}


def test_a_policy_that_promises_nothing_can_make_its_plan_anew_too() -> None:
    room = Room(policy="easy")
    room.submit(nodes=4)
    waiting = room.submit(nodes=4)
    assert room.queue.replan(room.now) == []
    assert room.phase(waiting) == "queued"


def test_a_policy_that_takes_too_long_is_disabled_for_good_and_no_job_is_lost() -> None:
    calls = 0

    def watch(call: Callable[[], None]) -> None:
        nonlocal calls
        calls += 1
        call()
        if calls == 6:
            raise TimeoutError("it took a day")

    terms = f.Terms(machine="pool:4", policy="kalends.scheduling.policies.ordered.fcfs:Fcfs")
    queue = BatchQueue("lab/box", terms, 1_000, watch=watch)
    job = JobRequest(machine="lab/box", nodes=3, limit_s=60, command=("true",))
    for number in range(4):
        queue.submit(ANN, job, f"the-key-{number}", 1_000)
    assert queue.fault == f"policy {terms.policy}: it took a day"
    told = calls
    for number in (1, 2, 3, 4):
        assert queue.job(number).nodes == (0, 1, 2)
        queue.begun(number, 1, 1_000)
        queue.ended(number, 1, DONE, 1_000)
    assert calls == told, "it is never asked again"
    stored = queue.take_effects().entries
    again = BatchQueue("lab/box", terms, 1_000, stored, watch=watch)
    assert (again.fault, calls) == (queue.fault, told)
    again.set_policy(terms.policy, 1_000)
    again.submit(ANN, job, "another-key", 1_000)
    assert (again.fault, again.job(5).nodes) == ("", (0, 1, 2))
    assert calls > told, "it decides again"


def decided_by(policy: str, limit_s: int = 60) -> BatchQueue:
    """A queue of four nodes with a job of three, which such a policy has seen."""
    queue = BatchQueue("lab/box", f.Terms(machine="pool:4", policy=policy), 1_000)
    job = JobRequest(machine="lab/box", nodes=3, limit_s=limit_s, command=("true",))
    queue.submit(ANN, job, "the-key", 1_000)
    return queue


def test_a_policy_that_leaves_jobs_waiting_on_an_empty_machine_for_ever_is_disabled() -> None:
    queue = decided_by("erring_policies:Idle")
    assert queue.fault == (
        "policy erring_policies:Idle: 1 jobs were never started, the first is job 1 "
        "(a policy must start every job that fits on the empty cluster)"
    )
    assert queue.job(1).nodes == (0, 1, 2)
    terms = f.Terms(machine="pool:4", policy="erring_policies:Idle")
    again = BatchQueue("lab/box", terms, 1_000, queue.take_effects().entries)
    assert (again.fault, again.job(1).nodes) == (queue.fault, (0, 1, 2))


def test_a_policy_may_leave_the_machine_empty_until_it_wants_to_look_again() -> None:
    queue = decided_by("hostile_policies:AtFullHours")
    assert (queue.fault, queue.job(1).phase) == ("", "queued")
    queue.advance(3_600)
    assert queue.job(1).nodes == (0, 1, 2)


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ("erring_policies:NeverBegins", "NeverBegins raised RuntimeError: no licence"),
        ("hostile_policies:HalfAPolicy", "has no method ended"),
        ("builtins:int", "int raised TypeError"),
    ],
)
def test_a_class_that_is_no_policy_is_disabled_before_any_job_waits(
    policy: str, fault: str
) -> None:
    queue = BatchQueue("lab/box", f.Terms(machine="pool:4", policy=policy), 1_000)
    assert queue.next_due_s() == 1_000
    queue.advance(1_000)
    assert f"policy {policy}: {fault}" in queue.fault
    assert queue.next_due_s() is None


def test_a_policy_that_changes_a_job_is_told_its_own_line_and_the_job() -> None:
    queue = decided_by("erring_policies:ChangesLimits", limit_s=1)
    path = Path(erring_policies.__file__)
    line = path.read_text().splitlines().index("            job.until_s = 1") + 1
    said = f"schedule raised AttributeError: changes until_s of job 1 ({path}:{line})"
    assert said in queue.fault


def test_what_a_policy_of_the_owners_own_has_decided_is_stored_and_read_again() -> None:
    queue = decided_by("kalends.scheduling.policies.ordered.fcfs:Fcfs")
    fact = queue.take_effects().entries[-1].fact
    assert isinstance(fact, f.Decided)
    assert fact.passes == ((f.Allotment(1, 3),),)
    assert f.decode_fact(f.encode_fact(fact)) == fact


@pytest.mark.parametrize(
    "other",
    [{"machine": "pool:8"}, {"machine": "pool:2"}, {"machine": "pool:4", "handed_to": "it"}],
)
def test_a_queue_does_not_go_on_with_another_machine(other: dict[str, str]) -> None:
    stored = [f.JournalEntry(1, 1_000, f.TermsSet(f.Terms(machine="pool:4")))]
    with pytest.raises(InvalidInput, match="the stored queue belongs to"):
        BatchQueue("lab/box", f.Terms(**other), 2_000, stored)
    again = BatchQueue("lab/box", f.Terms(machine="pool:4", no_show_s=5), 2_000, stored)
    assert again.flow.terms.no_show_s == 5


def test_a_journal_that_no_policy_can_have_made_is_told_as_damaged() -> None:
    terms = f.Terms(machine="pool:4", policy="kalends.scheduling.policies.ordered.fcfs:Fcfs")
    stored = [
        f.JournalEntry(1, 1_000, f.TermsSet(terms)),
        f.JournalEntry(2, 1_000, f.Decided(f.PolicyWoken(), ((f.Allotment(1, 3),),))),
    ]
    with pytest.raises(StoreDamaged, match="job 1 cannot have the 3 nodes"):
        BatchQueue("lab/box", terms, 1_000, stored)
