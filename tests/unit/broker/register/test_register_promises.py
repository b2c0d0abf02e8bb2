"""What a register promises, in whatever it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import structs
from tests.support.register_twin import Tables
from tests.unit.broker.register.test_register import KEYS, OWNERS, RIDS, T0, record_of

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Registered, encode_record
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import writes as w
from kalends.broker.register.writes import LeaseRenewal, MadeGood, PutBack, Resign, Retire
from kalends.contract.calls import PlacedEnd, PlacedJob
from kalends.contract.messages import Want
from kalends.core.clock import ASTRAY_MS
from kalends.core.errors import Problem
from kalends.core.jobs import JobRequest
from kalends.core.steps import StepPart
from kalends.notices.request_notice import Occasion, RequestNotice

Write = Callable[[Sequence[w.Write]], Sequence[Any]]
Look = Callable[[], Tables]
LOST = Problem(type="t", title="t", status=503, detail="d", code="unavailable")
SCRIPT = "b" * 64


def test_who_retires_takes_earlier_starts_of_the_same_replica_along_and_no_others(
    write: Write, tables: Look
) -> None:
    for owner in ("npaci_1-1:1", "npaci_1-1:2", "npaci_1-11:3", "npacix1-1:4"):
        write([LeaseRenewal(owner, 0)])
    write([LeaseRenewal("npacix1-1:4", 0), Retire("npaci_1-1", "npaci_1-1:2")])
    assert dict(tables()["replica"]) == {"npaci_1-1:2": 1, "npaci_1-11:3": 1, "npacix1-1:4": 2}
    write([Resign("npaci_1-1:2")])
    assert tables()["replica"] == [("npaci_1-11:3", 1), ("npacix1-1:4", 2)]


def test_the_bound_of_the_logical_clock_goes_back_only_where_a_clock_was_wrong(
    write: Write, tables: Look
) -> None:
    write([LeaseRenewal(OWNERS[0], ASTRAY_MS + 500), LeaseRenewal(OWNERS[1], 500)])
    assert tables()["meta"] == [(ASTRAY_MS + 500, False)]
    write([LeaseRenewal(OWNERS[1], 499)])
    assert tables()["meta"] == [(499, False)]


def test_a_job_may_start_at_the_first_site_that_asks_and_at_no_other(
    write: Write,
) -> None:
    record = record_of(RIDS[0], KEYS[0])
    record.chosen = {"east": (1,), "west": (2,)}
    commit = r.Commit(record.rid, 1, "", encode_record(record), places=("east", "west"))
    write([r.Begin(record), commit])
    first, second, again = write([ask("west"), ask("east"), ask("west")])
    assert (first.won, second.won, again.won) == (True, False, True)
    assert second.record is not None
    assert second.record.job.started == "west"
    write([r.Cancel(record.rid, OWNERS[0], encode_record(record))])
    (late,) = write([ask("west")])
    assert not late.won


@pytest.mark.parametrize("places", [1, 2])
def test_a_register_that_was_put_back_lets_no_job_start_that_may_have_started_elsewhere(
    write: Write, places: int
) -> None:
    record = record_of(RIDS[0], KEYS[0])
    record.chosen = dict.fromkeys(("east", "west")[:places], (1,))
    commit = r.Commit(record.rid, 1, "", encode_record(record), places=tuple(record.chosen))
    write([r.Begin(record), commit])
    write([PutBack()])
    write([MadeGood((), LOST)])
    (asked,) = write([ask("east")])
    assert asked.won == (places == 1)


# Jobs that start again elsewhere


def job(*, at_most_once: bool = False) -> JobRequest:
    return JobRequest(
        machine="", limit_s=60, command=("true",), rerun=True, at_most_once=at_most_once
    )


def started_in_the_east(write: Write, what: JobRequest) -> None:
    commit(write, 0, "east", what)
    (begun,) = write([ask("east")])
    assert begun.won


def commit(
    write: Write, number: int, site: str, what: JobRequest,
    *, running: bool = True, before: int = 0,
) -> Registered:  # fmt: skip
    """A place at `site`: the first one, or in that of the request number `before`, where it is `running`."""
    record = record_of(RIDS[number], f"key-of-{number}", reservation=RIDS[0])
    record.spec = msgspec.structs.replace(record.spec, what=r.Placement(what))
    record.chosen = {site: (1,)}
    record.job = r.JobFacts(placed=PlacedJob(machine=f"{site}/m", number=1))
    record.replaces = RIDS[before] if number else ""
    op = r.Commit(
        record.rid, 1, record.replaces, encode_record(record), (site,), elsewhere=bool(number),
        running=running, again=not what.at_most_once,
    )  # fmt: skip
    result = write([r.Begin(record), op])[1]
    assert isinstance(result, Registered)
    return result


def ended(end: str, number: int = 0, site: str = "east") -> r.NoteEnd:
    end_of_it = PlacedEnd(at=T0, end=end)  # type: ignore[arg-type]  # an EndWord
    return r.NoteEnd(RIDS[number], 1, site, end_of_it, "reply")


@pytest.mark.parametrize("at_most_once", [True, False])
def test_a_job_that_was_moved_starts_only_once_its_end_where_it_ran_is_written_down(
    write: Write, at_most_once: bool
) -> None:
    what = job(at_most_once=at_most_once)
    started_in_the_east(write, what)
    assert commit(write, 1, "west", what).won
    too_early, end, then = write([ask("west", 1), ended("killed"), ask("west", 1)])
    assert (too_early.won, end.won, then.won) == (False, True, True)
    (back,) = write([ask("east")])
    assert not back.won


@pytest.mark.parametrize(
    ("at_most_once", "lost", "starts"),
    [(False, ("east",), True), (False, ("north",), False), (True, ("east",), False)],
)
def test_a_lost_site_is_waited_for_unless_the_job_may_run_twice(
    write: Write, at_most_once: bool, lost: tuple[str, ...], starts: bool
) -> None:
    what = job(at_most_once=at_most_once)
    started_in_the_east(write, what)
    commit(write, 1, "west", what)
    (asked,) = write([ask("west", 1, lost)])
    assert asked.won == starts


@pytest.mark.parametrize("end", ["exit", "limit"])
def test_a_job_that_ends_by_itself_while_it_is_moved_does_not_start_again(
    write: Write, end: str
) -> None:
    started_in_the_east(write, job())
    commit(write, 1, "west", job())
    _, asked = write([ended(end), ask("west", 1)])
    assert not asked.won
    assert asked.record is not None
    assert asked.record.job.ended is not None
    assert asked.record.job.ended.end == end


def test_what_was_moved_twice_still_waits_for_the_end_where_it_ran(
    write: Write,
) -> None:
    started_in_the_east(write, job())
    commit(write, 1, "west", job())
    assert not commit(write, 2, "north", job(), before=1).won  # It has not started there.
    assert commit(write, 3, "north", job(), before=1, running=False).won
    early, _, then = write([ask("north", 3), ended("killed"), ask("north", 3)])
    assert (early.won, then.won) == (False, True)


def test_a_job_that_has_ended_or_did_not_run_as_was_taken_stays_where_it_is(
    write: Write,
) -> None:
    commit(write, 0, "east", job())
    assert not commit(write, 1, "west", job()).won
    write([ask("east"), ended("exit")])
    assert not commit(write, 2, "west", job()).won


def test_a_register_that_has_forgotten_a_start_and_a_move_waits_for_the_end_all_the_same(
    write: Write,
) -> None:
    commit(write, 0, "east", job())
    write([PutBack()])
    moved = record_of(RIDS[1], "key-of-1", reservation=RIDS[0])
    moved.state, moved.replaces, moved.changes, moved.chosen = "commit", RIDS[0], 1, {"west": (1,)}
    write([r.Recover(moved)])
    write([MadeGood((), LOST)])
    early, _, then = write([ask("west", 1), ended("killed"), ask("west", 1)])
    assert (early.won, then.won) == (False, True)


def test_what_was_before_a_move_that_was_recovered_is_not_known_and_nothing_starts(
    write: Write,
) -> None:
    moved = record_of(RIDS[1], "key-of-1", reservation=RIDS[0])
    moved.state, moved.replaces, moved.chosen = "commit", RIDS[0], {"west": (1,)}
    write([r.Recover(moved)])
    (asked,) = write([ask("west", 1)])
    assert not asked.won
    assert asked.record is not None
    assert asked.record.job.started == r.FORGOTTEN


def test_an_end_by_a_clock_that_is_behind_lets_the_next_start_come(
    write: Write,
) -> None:
    started_in_the_east(write, job())
    commit(write, 1, "west", job())
    past = r.NoteEnd(RIDS[0], 1, "east", PlacedEnd(at=5, end="killed"), "reply")
    noted, asked = write([past, ask("west", 1)])
    assert (noted.won, asked.won) == (True, True)


def ask(site: str, number: int = 0, lost: tuple[str, ...] = ()) -> r.Permit:
    return r.Permit(RIDS[number], 1, site, "reply", proved=True, lost=lost)


# What is kept of a request


def test_what_was_not_offered_is_handed_over_by_no_commit_even_if_it_replaces_nothing(
    write: Write,
) -> None:
    record = record_of(RIDS[0], KEYS[0])
    heir = r.Heir(RIDS[1], "ann", "bob", T0)
    write([r.Begin(record)])
    (taken,) = write([r.Commit(record.rid, 1, "", encode_record(record), heir=heir)])
    assert not taken.won


def test_who_begins_with_a_script_keeps_its_source_until_it_is_decided(
    write: Write, tables: Look
) -> None:
    begun = with_script()
    write([r.Begin(begun, "the source")])
    assert tables()["script"] == [(SCRIPT, "the source")]
    write([r.Commit(begun.rid, 1, "", encode_record(begun))])
    assert tables()["script"] == []


def test_a_source_is_kept_for_who_begins_while_its_last_name_is_deleted(
    write: Write, tables: Look
) -> None:
    named = w.Named("mine", SCRIPT, 8, (), 1)
    keep = w.KeepScript("anna", named, "the source", 1)
    write([keep, r.Begin(with_script(), "the source"), w.ForgetScript("anna", "mine")])
    assert tables()["script"] == [(SCRIPT, "the source")]


def test_a_source_goes_with_its_last_name_and_the_name_is_remembered_as_deleted(
    write: Write, tables: Look
) -> None:
    mine, yours = (
        w.KeepScript(user, w.Named("mine", SCRIPT, 8, (), 1), "x", 1) for user in ("anna", "bert")
    )
    write([mine, yours, w.ForgetScript("anna", SCRIPT)])
    assert tables()["script"] == [(SCRIPT, "x")]
    deleted = write([w.ForgetScript("bert", "mine"), w.ForgetScript("bert", "mine")])
    assert deleted == [(yours.named,), (yours.named,)]
    assert tables()["script"] == []
    assert [each[-1] for each in tables()["script_name"]] == [True, True]


def test_a_user_has_no_more_names_and_addresses_than_the_limits_even_within_one_transaction(
    write: Write, tables: Look
) -> None:
    keeps = [w.KeepScript("anna", w.Named(name, SCRIPT, 8, (), 1), "x", 2) for name in "abc"]
    assert [bool(each) for each in write(keeps)] == [True, True, False]
    found = write([w.KeepAddress(w.NoticeAddress("anna", to, "UTC", 1), 2) for to in "abc"])
    assert found == [1, 1, 0]
    assert len(tables()["notice_address"]) == len(tables()["script_name"]) == 2


def test_a_user_has_no_more_feeds_than_the_limit_and_a_name_stands_for_the_last(
    write: Write, tables: Look
) -> None:
    keeps = [w.KeepFeed(w.Feed("anna", name, f"of {name}", 1), 2) for name in "abc"]
    assert write(keeps) == [1, 1, 0]
    assert write([w.KeepFeed(w.Feed("anna", "a", "another", 2), 2)]) == [1]
    assert tables()["feed"] == [("anna", "a", "another", 2), ("anna", "b", "of b", 1)]
    gone = [w.ForgetFeed("bert", "a"), w.ForgetFeed("anna", "a"), w.ForgetFeed("anna", "a")]
    assert write(gone) == [0, 1, 0]
    assert tables()["feed"] == [("anna", "b", "of b", 1)]


def test_what_is_recovered_uses_no_script_any_more(write: Write, tables: Look) -> None:
    begun = with_script()
    write([r.Begin(begun, "the source")])
    write([r.Recover(structs.replace(begun, state="commit"))])
    assert (tables()["script"], tables()["script_use"]) == ([], [])


def test_what_is_not_certain_leaves_no_tombstone(write: Write) -> None:
    ask = r.Ask(RIDS[0], 1, "a secret", "here", "here", proved=True, certain=False)
    assert write([ask, r.Begin(record_of(RIDS[0], KEYS[0]))])[1].won


def test_a_tombstone_belongs_to_no_user_and_to_no_reservation_of_others(
    write: Write, tables: Look
) -> None:
    write([r.Ask(rid, 1, "a secret", "here", "here", proved=True) for rid in RIDS[:2]])
    found = [(row[1], row[3]) for row in tables()["request"]]
    assert sorted(found) == sorted(("", rid) for rid in RIDS[:2])


def test_a_change_that_is_recovered_over_a_tombstone_is_known_by_its_key_and_its_reservation(
    write: Write,
) -> None:
    tombstone = r.Ask(RIDS[1], 1, "a secret", "here", "here", proved=True)
    first = record_of(RIDS[0], KEYS[0])
    body = encode_record(first)
    write([r.Begin(first), r.Commit(first.rid, 1, "", body), tombstone])
    change = record_of(RIDS[1], KEYS[1], reservation=first.rid)
    change.state, change.replaces, change.changes = "commit", first.rid, 1
    assert write([r.Recover(change)])[0].won
    repeated = write([r.Begin(record_of(RIDS[2], KEYS[1]))])[0]
    assert repeated.record.rid == change.rid
    older = structs.replace(first, state="commit", changes=0)
    write([r.Recover(older)])
    (found,) = write([r.Read(first.rid)])
    assert found.record.state == "replaced"


def test_a_tombstone_is_recovered_even_where_another_request_has_its_key_by_now(
    write: Write,
) -> None:
    tombstone = r.Ask(RIDS[0], 1, "a secret", "here", "here", proved=True)
    forgotten, again = (record_of(rid, KEYS[0]) for rid in RIDS[:2])
    write([tombstone, r.Begin(again)])
    forgotten.state = "commit"
    assert write([r.Recover(forgotten)])[0].won
    repeated, found = write([r.Begin(record_of(RIDS[2], KEYS[0])), r.Read(forgotten.rid)])
    assert (repeated.record.rid, found.record.state) == (again.rid, "commit")


def test_a_part_that_asks_after_a_change_is_told_when_all_start(write: Write) -> None:
    first = in_step(0)
    write([r.Begin(first), r.Commit(first.rid, 1, "", encode_record(first))])
    (assembled,) = write([assemble(0)])
    assert (assembled.won, assembled.begins_ms) == (True, T0 * 1_000 + 5)
    change = in_step(1)
    change.replaces = first.rid
    commit = r.Commit(change.rid, 1, first.rid, encode_record(change))
    write([r.Finish(first.rid, "commit"), r.Begin(change), commit])
    (late,) = write([assemble(1)])
    assert (late.won, late.begins_ms) == (True, T0 * 1_000 + 5)
    assert late.record.job.started == assembled.record.job.started


def test_a_site_that_asks_to_start_its_part_of_a_job_in_step_alone_changes_nothing(
    write: Write, tables: Look
) -> None:
    record = in_step(0)
    write([r.Begin(record), r.Commit(record.rid, 1, "", encode_record(record))])
    asked, noted = write([ask("east"), r.NoteBegan(record.rid, "east/m", T0)])
    assert (asked.won, noted.won) == (False, False)
    assert tables()["start"] == []


def test_a_register_is_made_good_once_and_gives_up_what_was_open(
    write: Write, tables: Look
) -> None:
    open_one, committed = record_of(RIDS[0], KEYS[0]), record_of(RIDS[1], KEYS[1])
    write([r.Begin(open_one), r.Begin(committed)])
    write([r.Commit(committed.rid, 1, "", encode_record(committed))])
    good = MadeGood((Live("1" * 32, 9),), LOST)
    assert write([good, PutBack(), good, good]) == [None, None, 1, None]
    assert tables()["life"] == [("1" * 32, 9)]
    failed, kept = write([r.Read(open_one.rid), r.Read(committed.rid)])
    assert (failed.record.state, failed.record.done) == ("closed", True)
    assert failed.record.problem == structs.replace(LOST, request_id=open_one.rid)
    assert kept.record.state == "commit"


def with_script() -> Record:
    begun = record_of(RIDS[0], KEYS[0])
    begun.spec = structs.replace(begun.spec, agent="mine", script=SCRIPT)
    return begun


def in_step(number: int) -> Record:
    """A request whose two parts start together."""
    record = record_of(RIDS[number], f"key-of-{number}", reservation=RIDS[0])
    record.job = r.JobFacts(machines=("east/m", "west/m"))
    record.chosen = {"east": (1,), "west": (2,)}
    record.wants = tuple(Want(machine, T0, T0 + 60, 1) for machine in record.job.machines)
    return record


def assemble(number: int) -> r.Assemble:
    parts = (StepPart("east/m", 1), StepPart("west/m", 2))
    return r.Assemble(RIDS[number], 1, "east", "reply", parts, True, T0 * 1_000 + 5)


# Notices


def test_a_decision_that_is_made_brings_its_notice_to_who_is_told_somewhere(
    write: Write, tables: Look
) -> None:
    record = record_of(RIDS[0], KEYS[0])
    told = notice(record)
    commit = r.Commit(record.rid, 1, "", encode_record(record), notices=(told,))
    write([w.KeepAddress(w.NoticeAddress("anna", "", "UTC", 1), 1), r.Begin(record)])
    assert [each.won for each in write([commit, commit])] == [True, False]
    assert tables()["notice"] == [(1, "anna", msgspec.msgpack.encode(told))]


def test_for_who_is_told_nowhere_nothing_is_kept(write: Write, tables: Look) -> None:
    record = record_of(RIDS[0], KEYS[0])
    commit = r.Commit(record.rid, 1, "", encode_record(record), notices=(notice(record),))
    write([r.Begin(record), commit])
    assert tables()["notice"] == []


def test_of_two_replicas_that_read_what_is_due_one_posts_the_reminder_of_what_still_stands(
    write: Write, tables: Look
) -> None:
    address = w.NoticeAddress("anna", "", "UTC", 1, remind_s=3_600, reminded_at=1)
    records = [record_of(RIDS[0], KEYS[0]), record_of(RIDS[1], KEYS[1])]
    write([w.KeepAddress(address, 1), *(r.Begin(each) for each in records)])
    write([r.Commit(each.rid, 1, "", encode_record(each), begins=T0) for each in records])
    write([r.Cancel(RIDS[1], "npaci-1:1", encode_record(records[1]))])
    remind = w.Remind(
        address, T0 - 3_600, tuple((each.rid, notice(each, "begins")) for each in records)
    )
    assert write([remind, remind]) == [1, 0]
    told = [body for *_, body in tables()["notice"]]
    assert told == [msgspec.msgpack.encode(notice(records[0], "begins"))]
    again = address._replace(added_at=9, reminded_at=9)
    write([w.KeepAddress(again, 1), w.KeepAddress(again._replace(remind_s=60), 1)])
    assert tables()["notice_address"] == [again._replace(remind_s=60)], "it counts from then on"
    write([w.KeepAddress(again, 1), w.KeepAddress(again._replace(zone="Asia/Tokyo"), 1)])
    assert tables()["notice_address"] == [again._replace(zone="Asia/Tokyo")]


def test_that_there_is_no_other_place_for_a_job_is_told_once_however_often_it_is_tried(
    write: Write, tables: Look
) -> None:
    tries = ["elsewhere a-job 1", "elsewhere a-job 22", "elsewhere a-job-more 1", "another-key"]
    write([w.KeepAddress(w.NoticeAddress("anna", "", "UTC", 1), 1)])
    told = []
    for rid, key in zip(RIDS, tries, strict=True):
        record = record_of(rid, key)
        told.append(notice(record, "not-placed"))
        write([r.Begin(record), r.Close(rid, 1, encode_record(record), notices=(told[-1],))])
    first, _, other, no_try = (msgspec.msgpack.encode(each) for each in told)
    assert [body for *_, body in tables()["notice"]] == [first, other, no_try]


def notice(record: Record, occasion: Occasion = "moved") -> RequestNotice:
    return RequestNotice(id=f"{record.rid}-{occasion}", user=record.user, occasion=occasion, at_s=1)


def requests_in(tables: Look) -> dict[str, tuple[Any, ...]]:
    """The state and the attempt of each request, by id."""
    return {row[0]: (row[5], row[4]) for row in tables()["request"]}


def changes_of_a_series(write: Write) -> tuple[Record, Record, Record, r.CommitSeries]:
    """Store a reservation with an open change, and an occurrence that waits for a horizon.

    Returns the three, and the write that is to carry out the change of both.
    """
    first, waiting = record_of(RIDS[0], KEYS[0]), record_of(RIDS[2], KEYS[1])
    change = structs.replace(
        record_of(RIDS[1], "key-change"), reservation=first.rid, replaces=first.rid
    )
    write([r.Begin(first), r.Commit(first.rid, 1, "", encode_record(first)), r.Begin(waiting)])
    write([r.Finish(first.rid, "commit"), r.Begin(change)])
    together = r.CommitSeries(
        "series",
        (r.Commit(change.rid, 1, first.rid, encode_record(change)),),
        (r.Raise(waiting.rid, 1, OWNERS[1], encode_record(waiting)),),
    )
    return first, change, waiting, together


def test_a_change_of_a_series_replaces_all_and_moves_what_waits_or_nothing(
    write: Write, tables: Look
) -> None:
    first, change, waiting, together = changes_of_a_series(write)
    (result,) = write([together])
    assert result.won
    rows = requests_in(tables)
    assert rows[first.rid] == ("replaced", 1)
    assert rows[change.rid] == ("commit", 1)
    assert rows[waiting.rid] == ("open", 2)
    (again,) = write([together])
    assert not again.won
    assert requests_in(tables) == rows


@pytest.mark.parametrize(
    "meanwhile", ["cancelled", "changed", "other change", "not done", "asked for"]
)
def test_a_change_of_a_series_leaves_everything_as_it_was_if_one_was_touched_meanwhile(
    write: Write, tables: Look, meanwhile: str
) -> None:
    first, change, waiting, together = changes_of_a_series(write)
    other = structs.replace(
        record_of(RIDS[3], "key-other"), reservation=first.rid, replaces=first.rid
    )
    if meanwhile == "cancelled":
        write([r.Cancel(first.rid, OWNERS[0], encode_record(first))])
    elif meanwhile == "changed":
        write([r.Begin(other), r.Commit(other.rid, 1, first.rid, encode_record(other))])
    elif meanwhile == "other change":
        write([r.Begin(other)])
    elif meanwhile == "asked for":
        write([r.Raise(waiting.rid, 1, OWNERS[0], encode_record(waiting))])
    else:
        last = record_of(RIDS[3], "key-other")
        write([r.Begin(last), r.Commit(last.rid, 1, "", encode_record(last))])
        body = encode_record(change)
        together = structs.replace(together, commits=(r.Commit(change.rid, 1, last.rid, body),))
    before = requests_in(tables)
    (result,) = write([together])
    assert not result.won
    assert requests_in(tables) == before


def test_no_request_is_replaced_twice_by_one_change_of_a_series(write: Write, tables: Look) -> None:
    first, change, _, together = changes_of_a_series(write)
    other = structs.replace(record_of(RIDS[3], "key-other"), replaces=first.rid)
    write([r.Begin(other)])
    twice = r.Commit(other.rid, 1, first.rid, encode_record(other))
    before = requests_in(tables)
    (result,) = write([structs.replace(together, commits=(*together.commits, twice))])
    assert not result.won
    assert requests_in(tables) == before
    assert before[change.rid] == ("open", 1)
