"""Reads of a register on PostgreSQL: what is damaged, in which order, and by which index."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.broker.coordination.record.decision_record import (
    Begin,
    JobFacts,
    Placement,
    Record,
    Spec,
    encode_record,
)
from kalends.broker.register.postgres import read_statements
from kalends.broker.register.postgres.locks import BatchLocks, Surprises
from kalends.broker.register.postgres.register_reads import PAGE, RegisterReads
from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.contract.calls import PlacedEnd
from kalends.core.errors import StoreDamaged, Unavailable
from kalends.core.identifiers import request_id
from kalends.core.jobs import JobRequest
from kalends.notices.delivery import Delivery
from kalends.notices.request_notice import RequestNotice
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import open_store
from kalends.stores.postgres.readers import SETTINGS, Readers
from kalends.stores.postgres.session import SESSION, settings_of
from tests.support.postgres_registers import confirmed
from tests.support.register_writes import MOVED, REQUEST, T0

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Session = psycopg.Connection[Any]
FLIPPED = b"flip\xffed"


@pytest.fixture
async def reads(address: Address) -> AsyncIterator[RegisterReads]:
    open_store(address, REGISTER, "npaci")
    found = RegisterReads(Readers(address), confirmed)
    yield found
    await found.close_readers()


DAMAGED_ROWS = """
insert into request select lpad(to_hex(n), 32, '0'), 'anna', 'key ' || n, lpad(to_hex(n), 32, '0'), 1,
    'commit', 'gone:1', false, '\\xc1', '', 'east', false, {ended_at}, null, '{{}}'
from generate_series(1, %s) as n
"""


def one_record(session: Session, rid: str, state: str, ended_at: int | None) -> Record:
    """A job that waits for a place elsewhere, unless it has ended."""
    job = Placement(JobRequest(machine="", limit_s=60, command=("true",)), elsewhere=("west",))
    end = PlacedEnd(end="exit", at=ended_at) if ended_at is not None else None
    record = Record(
        rid, "anna", "a-key", "d", 1, "gone:1", rid, T0 * 1_000, Spec(REQUEST, what=job, by_others=MOVED),
        job=JobFacts(started="", ended=end),
    )  # fmt: skip
    session.execute(
        "insert into request values (%s, 'anna', 'a-key', %s, 1, %s, 'gone:1', false, %s, '', 'east', false,"
        " %s, %s, '{}')",
        (
            rid, rid, state, encode_record(record), ended_at,
            msgspec.msgpack.encode(end) if end is not None else None,
        ),
    )  # fmt: skip
    record.state = state  # type: ignore[assignment]
    return record


async def test_more_rows_that_cannot_be_read_than_a_page_hide_none_behind_them(
    reads: RegisterReads, plain: Session
) -> None:
    damaged = 2 * PAGE + 1
    plain.execute(DAMAGED_ROWS.format(ended_at="null").encode(), (damaged,))
    record = one_record(plain, "f" * 32, "commit", None)
    found = await reads.left_behind("me:1", (), (), 1)
    assert (len(found), found[-1]) == (damaged + 1, record)
    assert [each.record for each in await reads.stranded(["east"], (), 1)] == [record]
    assert await reads.left("west", MOVED.reason, 1) == [record]


async def test_an_end_behind_many_that_cannot_be_read_is_found(
    reads: RegisterReads, plain: Session
) -> None:
    plain.execute(DAMAGED_ROWS.format(ended_at="n").encode(), (2 * PAGE,))
    record = one_record(plain, "f" * 32, "commit", 0)
    assert await reads.ends(1) == [record]


async def test_a_reservation_behind_many_that_stand_otherwise_is_listed(
    reads: RegisterReads, plain: Session
) -> None:
    record = one_record(plain, "0" * 32, "cancelled", None)
    plain.execute(DAMAGED_ROWS.format(ended_at="null").encode(), (2 * PAGE,))
    (found,) = await reads.listed("anna", "", "cancelled", 1)
    assert found.rows == (record,)


@pytest.mark.parametrize("body", [b"\xc1", None])
async def test_a_notice_or_delivery_that_cannot_be_read_hides_no_other(
    reads: RegisterReads, plain: Session, body: bytes | None
) -> None:
    notice = RequestNotice(id="flipped", user="anna", occasion="moved", at_s=1)
    delivery = Delivery(
        id="flipped", user="anna", to="a@b.c", subject="s", text="t", facts={}, made_s=1
    )
    for each, table in ((notice, "notice (client, body)"), (delivery, "letter (id, body)")):
        whole = msgspec.msgpack.encode(each)
        damaged = whole.replace(b"flipped", FLIPPED) if body is None else body
        for name, stored in (("one", damaged), ("two", whole)):
            plain.execute(f"insert into {table} values (%s, %s)".encode(), (name, stored))
    waiting = await reads.waiting_notices(10, 10)
    assert (waiting.notices, waiting.unreadable) == ({2: notice}, (1,))
    assert await reads.deliveries() == ([delivery], ["one"])


async def test_a_source_that_cannot_be_read_is_told_to_who_asks_for_it(
    reads: RegisterReads, plain: Session
) -> None:
    plain.execute("insert into script values ('a', '\\xff'), ('b', 'b\\000')")
    plain.execute(
        "insert into script_name values ('anna', 'damaged', 'a', 1, '', 1, false),"
        " ('anna', 'whole', 'b', 1, '', 1, false), ('anna', 'lost', 'c', 1, '', 1, false)"
    )
    with pytest.raises(StoreDamaged, match="source"):
        await reads.script("anna", "damaged")
    whole, lost = await reads.script("anna", "whole"), await reads.script("anna", "lost")
    assert whole is not None
    assert whole.source == "b\0"
    assert lost is not None
    assert lost.source == ""


async def test_who_asks_for_what_no_row_can_hold_harms_nobody_else(reads: RegisterReads) -> None:
    with pytest.raises(Unavailable):
        await reads.by_key("anna", "a NUL \0")
    assert await reads.by_key("anna", "none") is None


async def test_rows_are_in_the_order_of_their_bytes_whatever_the_order_of_the_database(
    cluster: Cluster,
) -> None:
    with cluster.connect() as session:
        session.execute(
            "create database in_words locale_provider icu icu_locale 'en-US' template template0"
        )
    address = cluster.address("in_words")
    open_store(address, REGISTER, "npaci")
    reads = RegisterReads(Readers(address), confirmed)
    names = ["", "B", "Z", "_", "a", "b", "é"]
    with cluster.connect("in_words") as session:
        for name in reversed(names):
            session.execute(
                "insert into script_name values ('anna', %s, 'a', 1, '', 1, false)", (name,)
            )
            session.execute("insert into notice_address values ('anna', %s, 'UTC', 1, '')", (name,))
            session.execute(
                "insert into request values (%s, 'anna', %s, %s, 1, 'open', %s, false, '\\xc1',"
                " null, null, null, null, null, '{}')",
                (f"{name}-", name, f"{name}-", name),
            )
    rids = sorted(f"{name}-" for name in names)
    assert [each.name for each in await reads.scripts("anna")] == names
    assert [each.receiver for each in await reads.addresses("anna")] == names
    assert [row.rid for row in await reads.page("", 100)] == rids
    assert [row.rid for row in await reads.page("Z-", 100)] == rids[rids.index("Z-") + 1 :]
    assert [row.owner for row in await reads.left_behind("me:1", (), (), 9)] == names
    found = await reads.compared("", "a", ["_-", "b-"], 9)
    assert [row.rid for row in found.rows] == ["_-", "b-"]
    await reads.close_readers()


RID = request_id(T0 * 1_000, 1)
HOT: dict[str, tuple[Sequence[object], str]] = {
    "RESERVATION": ((RID,), "pkey change"),
    "BY_KEY": (("user 1", "key"), "client pkey change"),
    "RESERVATIONS": ((RID, 20), "pkey change"),
    "LISTED": (("g", 20), "pkey change"),
    "LISTED_OF": (("g", 20, "user 1"), "client pkey change"),
    "UNDECIDED": (("g", 200), "pending pkey change"),
    "UNDECIDED_OF": (("g", 200, "user 1"), "pending pkey change"),
    "RESERVATIONS_OF": (([RID],), "pkey"),
    "IDS": (("user 1", "12", 20), "client"),
    "PAGE": ((RID, 1_000), "pkey"),
    "COMPARED": ((RID, "g", [RID], 500), "pkey"),
    "CHANGES": ((RID, "g", [RID], 500), "pkey change"),
    "ORPHANS": ((["a:1"], "", "", 500), "pending"),
    "UNATTENDED": (("a:1", [RID], "", 500), "pending"),
    "ENDS": ((1 << 62, "g", 2_000), "ended"),
    "STRANDED": ((["east"], [], "", 200), "start_open start_again pkey change"),
    "LEFT": (("", 200), "start_open change"),
    "OPEN_REQUESTS": ((), "pending"),
}
"""What reads that come often are asked with, and the indexes of requests that they use."""

MANY = """
insert into request select md5(n::text), 'user ' || n % 100, 'key ' || n,
    md5((n - (n % 50 = 0)::int)::text), 1,
    (array['commit', 'cancelled', 'closed'])[n % 3 + 1], 'a:1', n % 100 > 0, '\\xc1',
    case when n % 200 = 0 then '' end, case when n % 200 = 0 then 'east' end,
    case when n % 200 = 0 then false end, case when n % 5 = 0 then n end, null, '{}'
from generate_series(1, 20000) as n
"""


MONTHS = ("2025-11-01", "2025-12-01")
OLD = """
create table request_old_{name} partition of request_old for values in ('{month}')
    with (autovacuum_enabled = off);
insert into request_old_{name} select md5('{month}' || n), 'user ' || n % 100, 'old ' || n,
    md5('{month}' || (n - (n % 50 = 0)::int)), 1, 'commit', 'a:1', true, '\\xc1', null, null, null, null,
    null, '{{}}', '{month}'
from generate_series(1, 9000) as n
"""


@pytest.mark.parametrize("analysed", [False, True])
async def test_reads_that_come_often_look_at_no_row_without_an_index(
    reads: RegisterReads, plain: Session, analysed: bool
) -> None:
    plain.execute("alter table request set (autovacuum_enabled = off)")
    plain.execute(MANY)
    for month in MONTHS:
        plain.execute(OLD.format(month=month, name=month[:7].replace("-", "_")).encode())
    if analysed:
        plain.execute("analyze request, request_old")
    cursor = psycopg.RawCursor(plain)
    for statement in settings_of(SETTINGS):
        cursor.execute(statement.sql, statement.values)
    for name, (values, indexes) in HOT.items():
        cursor.execute(f"explain (costs off) {getattr(read_statements, name)}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
        assert "Seq Scan on request" not in plan, f"{name}:\n{plan}"
        found = re.findall(r"Scan (?:Backward )?(?:using|on) request_(\D\w+)", plan)
        if name == "LISTED_OF":
            assert "request_client_key_key" not in plan, f"all rows of a user are read:\n{plan}"
        # Rows of a user are found by either of two, as the planner sees fit.
        used = {each.removesuffix("_key_key") for each in found if not each.startswith("old_")}
        assert used == {*indexes.split()}, f"{name}:\n{plan}"


@pytest.mark.parametrize("analysed", [False, True])
async def test_whether_a_request_was_put_aside_is_found_by_indexes_of_each_month(
    reads: RegisterReads, plain: Session, analysed: bool
) -> None:
    for month in MONTHS:
        plain.execute(OLD.format(month=month, name=month[:7].replace("-", "_")).encode())
    if analysed:
        plain.execute("analyze request_old")
    cursor = psycopg.RawCursor(plain)
    for statement in settings_of(SESSION):
        cursor.execute(statement.sql, statement.values)
    record = one_record(plain, RID, "commit", 0)
    locks = BatchLocks([Begin(record)], Surprises(set(), {}, set())).statements
    (statement,) = [each for each in locks if "request_old" in each.sql]
    cursor.execute(f"explain (costs off) {statement.sql}", statement.values)
    plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "Seq Scan on request_old" not in plan, plan
    assert {"rid", "client_key", "reservation"} <= {*re.findall(r"old_\d+_\d+_(\w+)_idx", plan)}
