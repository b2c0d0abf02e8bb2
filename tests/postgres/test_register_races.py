"""Replicas of a register on PostgreSQL that meet: one is between its two messages when another comes.

A statement of a file's register, word for word, would lose each of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import postgres_clusters
import pytest
from msgspec import structs

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Spec, encode_record
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import writes as w
from kalends.contract.calls import PlacedEnd, PlacedJob
from kalends.contract.messages import Mark, Want
from kalends.core.errors import Unavailable
from kalends.notices.delivery import Delivery
from kalends.notices.request_notice import RequestNotice
from kalends.stores.group_commit import StoreFailed
from kalends.stores.postgres.session import Statement
from tests.support.postgres_registers import PostgresReplica, opened
from tests.support.register_writes import JOBS, REQUEST, SCRIPTS
from tests.unit.broker.register.test_register import KEYS, OWNERS, RIDS, T0, record_of

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Batch = Sequence[w.Write]
WAITING = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"


class Meeting:
    def __init__(self, first: PostgresReplica, second: PostgresReplica) -> None:
        self.first = first
        self.second = second

    async def of(self, one: Batch, other: Batch) -> tuple[list[Any], list[Any]]:
        """The results of both; `other` begins when the rows of `one` are locked, and nothing is written."""
        begins, done = asyncio.Event(), threading.Event()
        loop, decide = asyncio.get_running_loop(), self.first.part.decide

        def meets(*args: Any) -> Any:
            loop.call_soon_threadsafe(begins.set)
            with postgres_clusters.shared().connect() as watch:
                pid = self.second.session.pid
                while not done.wait(0.002):
                    # It goes on when the other waits for it, or has passed it by.
                    if watch.execute(WAITING, (pid,)).fetchone() is not None:
                        break
            self.first.part.decide = decide  # type: ignore[method-assign]
            return decide(*args)

        async def comes() -> list[Any]:
            await begins.wait()
            try:
                return [*await self.second.run(other)]
            finally:
                done.set()

        self.first.part.decide = meets  # type: ignore[method-assign, assignment]
        results, others = await asyncio.gather(self.first.run(one), comes())
        return [*results], others


@asynccontextmanager
async def meeting(prepare: Batch = ()) -> AsyncIterator[Meeting]:
    async with opened(2) as replicas:
        if prepare:
            await replicas[0].run(prepare)
        yield Meeting(*replicas)


BOTH = pytest.mark.parametrize("turned", [False, True])


async def met(meet: Meeting, turned: bool, one: Batch, other: Batch) -> tuple[list[Any], list[Any]]:
    if not turned:
        return await meet.of(one, other)
    others, results = await meet.of(other, one)
    return results, others


def job(rid: str, key: str, **changes: Any) -> Record:
    """A job that may start at two sites."""
    record = record_of(rid, key)
    record.spec = Spec(request=REQUEST, what=JOBS[0])
    record.chosen = {"east": (1,), "west": (2,)}
    record.job = r.JobFacts(placed=PlacedJob(machine="east/m", number=1))
    record.wants = (Want("east/m", T0, T0 + 60, 2),)
    return structs.replace(record, **changes)


def committed(record: Record, **how: Any) -> list[w.Write]:
    places = tuple(record.chosen)
    return [
        r.Begin(record),
        r.Commit(record.rid, 1, record.replaces, encode_record(record), places=places, **how),
    ]


def permit(record: Record, site: str) -> r.Permit:
    return r.Permit(record.rid, 1, site, "site", proved=True, certain=True)


@BOTH
async def test_whoever_asks_for_a_request_that_is_just_made_hears_of_it_or_it_is_not_made(
    turned: bool,
) -> None:
    record = record_of(RIDS[0], KEYS[0])
    ask = r.Ask(record.rid, 1, "s" * 16, "site", "east", proved=True, certain=True)
    async with meeting() as meet:
        (asked,), (begun,) = await met(meet, turned, [ask], [r.Begin(record)])
    assert begun.won == (asked.record is not None)
    assert begun.won == turned


async def test_of_two_changes_of_a_reservation_one_replaces_it_and_the_other_changes_nothing() -> (
    None
):
    old = record_of(RIDS[0], KEYS[0])
    changes = [
        structs.replace(record_of(rid, key), reservation=old.rid, replaces=old.rid)
        for rid, key in ((RIDS[1], KEYS[1]), (RIDS[2], "third"))
    ]
    prepare = [*committed(old), r.Finish(old.rid, "commit"), *map(r.Begin, changes)]
    one, other = ([r.Commit(each.rid, 1, old.rid, encode_record(each))] for each in changes)
    async with meeting(prepare) as meet:
        (first,), (second,) = await meet.of(one, other)
        states = {row[0]: row[5] for row in (await meet.first.tables())["request"]}
    assert (first.won, second.won) == (True, False)
    assert [states[each.rid] for each in (old, *changes)] == ["replaced", "commit", "open"]


async def test_who_loses_is_told_the_attempt_that_has_won() -> None:
    record = record_of(RIDS[0], KEYS[0])
    later = encode_record(structs.replace(record, att=2))
    async with meeting([r.Begin(record)]) as meet:
        (raised,), (noted,) = await meet.of(
            [r.Raise(record.rid, 1, OWNERS[1], later)],
            [r.Note(record.rid, 1, encode_record(record))],
        )
    assert (raised.won, noted.won) == (True, False)
    assert (noted.record.att, noted.record.owner) == (2, OWNERS[1])


@BOTH
async def test_a_job_that_is_moved_while_it_asks_to_start_does_one_or_the_other(
    turned: bool,
) -> None:
    old = job(RIDS[0], KEYS[0])
    new = job(RIDS[1], KEYS[1], reservation=old.rid, replaces=old.rid)
    move = r.Commit(
        new.rid, 1, old.rid, encode_record(new), places=("west",), elsewhere=True, running=False
    )
    async with meeting([*committed(old), r.Begin(new)]) as meet:
        (permitted,), (moved,) = await met(meet, turned, [permit(old, "east")], [move])
        again: Any
        (again,) = await meet.first.run([permit(new, "west")])
    assert (permitted.won, moved.won) == (not turned, turned)
    assert again.won == turned


@BOTH
async def test_a_job_starts_at_one_site_however_many_ask(turned: bool) -> None:
    record = job(RIDS[0], KEYS[0])
    async with meeting(committed(record)) as meet:
        (east,), (west,) = await met(
            meet, turned, [permit(record, "east")], [permit(record, "west")]
        )
        rows = (await meet.first.tables())["start"]
    assert (east.won, west.won) == (not turned, turned)
    assert [row[1] for row in rows] == ["west" if turned else "east"]


async def test_the_first_end_of_a_job_stands() -> None:
    record = job(RIDS[0], KEYS[0])
    ends = [
        r.NoteEnd(record.rid, 1, "east", PlacedEnd(at=T0 + 1, end=end, ran_s=1), "site")
        for end in ("exit", "killed")
    ]
    async with meeting([*committed(record), permit(record, "east")]) as meet:
        (first,), (second,) = await meet.of([ends[0]], [ends[1]])
        (row,) = (await meet.first.tables())["ending"]
    assert (first.won, second.won) == (True, False)
    assert b"exit" in row[2]


@BOTH
async def test_a_script_that_is_forgotten_while_a_request_begins_to_use_it_is_kept(
    turned: bool,
) -> None:
    (script, source), *_ = SCRIPTS.items()
    record = record_of(RIDS[0], KEYS[0])
    record.spec = Spec(request=REQUEST, script=script)
    keep = w.KeepScript("anna", w.Named("mine", script, 8, (), 1), source, 2)
    async with meeting([keep]) as meet:
        await met(meet, turned, [w.ForgetScript("anna", "mine")], [r.Begin(record, source)])
        kept = (await meet.first.tables())["script"]
        # Whoever ends its use may be another replica than the one that began it.
        await meet.second.run([r.Close(record.rid, 1, encode_record(record))])
        gone = (await meet.first.tables())["script"]
    assert kept == [(script, source)]
    assert gone == []


async def test_notices_become_deliveries_once() -> None:
    user = "anna"
    told = w.KeepAddress(w.NoticeAddress(user, "", "UTC", 1), 5)
    notice = w.PostNotice(RequestNotice(id="n", user=user, occasion="moved", at_s=1))
    ones = [
        w.MakeDeliveries(
            (1,),
            (Delivery(id=id, user=user, to="a@b.c", subject="s", text="", facts={}, made_s=1),),
        )
        for id in ("one", "two")
    ]
    async with meeting([told, notice]) as meet:
        assert await meet.of([ones[0]], [ones[1]]) == ([1], [0])
        assert [row[0] for row in (await meet.first.tables())["letter"]] == ["one"]


async def test_no_user_has_more_addresses_than_allowed() -> None:
    ones = [w.KeepAddress(w.NoticeAddress("anna", to, "UTC", 1), 1) for to in ("x@a.b", "y@a.b")]
    async with meeting() as meet:
        assert await meet.of([ones[0]], [ones[1]]) == ([1], [0])


async def test_sites_in_different_orders_keep_nobody_waiting() -> None:
    east, west = (r.Remember(site, Mark("1" * 32, 5, "p")) for site in ("east", "west"))
    later = r.Remember("east", Mark("1" * 32, 4, "p"))
    async with meeting() as meet:
        await meet.of([east, west], [west, later])
        rows = (await meet.first.tables())["site"]
    assert [(row[0], row[2]) for row in rows] == [("east", 5), ("west", 5)]


async def test_two_that_begin_by_one_key_are_one_request() -> None:
    records = [record_of(rid, KEYS[0]) for rid in RIDS[:2]]
    async with meeting() as meet:
        (first,), (second,) = await meet.of([r.Begin(records[0])], [r.Begin(records[1])])
    assert (first.won, second.won) == (True, False)
    assert second.record.rid == RIDS[0]


@BOTH
async def test_what_each_looks_for_and_does_not_find_the_other_does_not_make(turned: bool) -> None:
    one, other = (record_of(rid, key) for rid, key in zip(RIDS, KEYS, strict=False))
    batches: list[list[w.Write]] = [
        [r.Read(other.rid), r.Begin(one)],
        [r.Read(one.rid), r.Begin(other)],
    ]
    async with meeting() as meet:
        (read, _), (reads, _) = await met(meet, turned, *batches)
    assert (read.record is None) != (reads.record is None)


async def test_a_replica_that_was_retired_adds_nothing_any_more() -> None:
    record = record_of(RIDS[0], KEYS[0])
    async with meeting() as meet:
        await meet.second.run([w.Retire("test-0", "test-0:2")])
        with pytest.raises(StoreFailed, match="retired"):
            await meet.first.run([r.Begin(record)])
        with pytest.raises(StoreFailed):
            await meet.first.run([Live("1" * 32, 1)])
        tables = await meet.second.tables()
    assert (tables["request"], tables["life"]) == ([], [])


async def test_a_replica_that_has_resigned_writes_no_more_under_its_name() -> None:
    async with meeting() as meet:
        await meet.first.run([w.Resign("test-0:1")])
        with pytest.raises(StoreFailed, match="retired"):
            await meet.first.run([Live("1" * 32, 1)])


async def test_a_booking_costs_few_statements_and_no_batch_of_it_runs_twice() -> None:
    record = record_of(RIDS[0], KEYS[0])
    body, noted = encode_record(record), encode_record(structs.replace(record, stamp=2))
    operations: list[w.Write] = [
        r.Begin(record), r.Note(record.rid, 1, noted), r.Commit(record.rid, 1, "", body),
        r.Finish(record.rid, "commit"),
    ]  # fmt: skip
    async with meeting() as meet:
        statements = counted(meet.first)
        for each in operations:
            await meet.first.run([Live("1" * 32, 1), each])
    assert statements() == [(3, 1), (1, 2), (1, 2), (1, 2)]


def counted(replica: PostgresReplica) -> Callable[[], list[tuple[int, int]]]:
    """Count the statements of each batch: those that lock, and those that write."""
    found: list[tuple[int, int]] = []
    lock, decide = replica.part.lock, replica.part.decide
    locks: list[int] = []

    def counted_lock(operations: Batch) -> Any:
        statements = lock(operations)
        locks.append(len(statements))
        return statements

    def counted_decide(*args: Any) -> Any:
        decided = decide(*args)
        found.append((locks.pop(), len(decided.statements)))
        assert not locks
        return decided

    replica.part.lock = counted_lock  # type: ignore[method-assign]
    replica.part.decide = counted_decide  # type: ignore[method-assign, assignment]
    return lambda: found


def settled(rid: str, key: str) -> list[w.Write]:
    record = structs.replace(record_of(rid, key), wants=(Want("east/m", T0, T0 + 60, 2),))
    return [*committed(record), r.Finish(rid, "commit")]


async def put_aside(replica: PostgresReplica, rid: str) -> None:
    assert await replica.put_aside([rid]) == 1


async def put_aside_if_it_can(replica: PostgresReplica, rid: str) -> None:
    # It gives up where it waits for too long, as on a busy machine.
    with contextlib.suppress(Unavailable):
        await replica.put_aside([rid])


async def months(replica: PostgresReplica) -> list[str]:
    """The months of the requests that were put aside, of each."""
    found = await asyncio.to_thread(
        replica.session.message,
        [Statement("select tableoid::regclass::text from request_old order by rid")],
    )
    return [name for (name,) in found[0]]


async def test_a_key_whose_request_was_put_aside_books_nothing_again() -> None:
    async with opened(2) as replicas:
        await replicas[0].run(settled(RIDS[0], KEYS[0]))
        await put_aside(replicas[1], RIDS[0])
        (again,) = await replicas[0].run([r.Begin(record_of(RIDS[1], KEYS[0]))])
        assert (again.won, again.record.rid) == (False, RIDS[0])
        ask = r.Ask(RIDS[0], 1, "s" * 16, "site", "east", proved=True, certain=True)
        (asked,) = await replicas[0].run([ask])
        assert asked.record.state == "commit"
        assert await months(replicas[0]) == ["request_old_2027_01"]


async def test_a_month_that_was_dropped_is_forgotten_and_its_keys_are_free() -> None:
    async with opened(1) as (replica,):
        await replica.run(settled(RIDS[0], KEYS[0]))
        await put_aside(replica, RIDS[0])
        replica._plain.execute("drop table request_old_2027_01")
        assert await replica.reads.by_key("anna", KEYS[0]) is None
        (begun,) = await replica.run([r.Begin(record_of(RIDS[1], KEYS[0]))])
        assert begun.won


async def test_whoever_begins_again_while_a_request_is_put_aside_hears_of_it() -> None:
    async with opened(2) as replicas:
        await replicas[0].run(settled(RIDS[0], KEYS[0]))
        for _ in range(20):
            # In whichever order they meet; then it is brought back.
            (again,), _ = await asyncio.gather(
                replicas[1].run([r.Begin(record_of(RIDS[1], KEYS[0]))]),
                put_aside_if_it_can(replicas[0], RIDS[0]),
            )
            assert (again.won, again.record.rid) == (False, RIDS[0])
            await replicas[0].run([r.Examine(RIDS[0], owner=OWNERS[0], taken_from=OWNERS[0])])
            assert await months(replicas[0]) == []


async def test_a_change_that_comes_meanwhile_keeps_its_reservation_where_it_was() -> None:
    change = structs.replace(record_of(RIDS[1], KEYS[1]), reservation=RIDS[0], replaces=RIDS[0])
    async with opened(2) as replicas:
        await replicas[0].run(settled(RIDS[0], KEYS[0]))
        found = await replicas[0].reads.reservation(RIDS[0])
        await replicas[1].run([r.Begin(change)])
        assert found is not None
        assert await replicas[0].put_aside_read([found]) == 0
        assert await months(replicas[0]) == []


async def test_a_change_of_what_was_put_aside_brings_all_of_it_back() -> None:
    change = structs.replace(record_of(RIDS[1], KEYS[1]), reservation=RIDS[0], replaces=RIDS[0])
    async with opened(1) as (replica,):
        await replica.run(settled(RIDS[0], KEYS[0]))
        await put_aside(replica, RIDS[0])
        (begun,) = await replica.run([r.Begin(change)])
        assert begun.won
        assert await months(replica) == []
        found = await replica.reads.reservation(RIDS[0])
        assert [row.rid for row in found.rows] == [RIDS[0], RIDS[1]]


async def test_while_one_replica_puts_aside_another_leaves_it_alone() -> None:
    async with opened(2) as replicas:
        await replicas[0].run(settled(RIDS[0], KEYS[0]))
        with postgres_clusters.shared().connect() as other:
            schema = replicas[0]._plain.execute("select current_schema()").fetchone()
            other.execute(
                "select pg_advisory_lock(%s, hashtext(%s))", (0x6B616C61, (schema or ("",))[0])
            )
            assert await replicas[1].put_aside([RIDS[0]]) == 0
        await put_aside(replicas[1], RIDS[0])
