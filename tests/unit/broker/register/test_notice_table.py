"""A notice is stored with the decision that it tells, or not at all; and only for who is told somewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from kalends.broker.coordination.record.decision_record import (
    Begin,
    Close,
    Commit,
    Record,
    Spec,
    encode_record,
)
from kalends.broker.register import request_writes
from kalends.broker.register.broker_store import KIND
from kalends.broker.register.notice_table import (
    KeepAddress,
    NoticeAddress,
    keep_address,
    post_notice,
    waiting_notices,
)
from kalends.core.identifiers import request_id
from kalends.core.requests import Alternative, Request, Term
from kalends.notices.request_notice import Occasion, RequestNotice
from kalends.stores.sqlite.sqlite_file import open_store

ANN = NoticeAddress("ann", "", "UTC", 1)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    file = open_store(tmp_path / "npaci.sqlite", KIND, "npaci", sync="off")
    yield file.connection
    file.close()


def begun(connection: sqlite3.Connection, number: int, key: str = "") -> Record:
    request = Request(
        alternatives=(Alternative(terms=(Term(resource="sdsc/sp2"),)),), duration_s=60, not_before=0
    )
    rid = request_id(1_800_000_000_000 + number, number)
    record = Record(
        rid=rid, user="ann", key=key or f"key-{number}", digest="d", stamp=1, owner="a:1", reservation=rid,
        created_ms=0, spec=Spec(request),
    )  # fmt: skip
    request_writes.apply(connection, (Begin(record),))
    return record


def notice(record: Record, occasion: Occasion = "moved") -> RequestNotice:
    return RequestNotice(id=f"{record.rid}-{occasion}", user=record.user, occasion=occasion, at_s=1)


def waiting(connection: sqlite3.Connection) -> list[RequestNotice]:
    return list(waiting_notices(connection, 100, 100).notices.values())


def test_a_decision_that_is_made_brings_its_notice(connection: sqlite3.Connection) -> None:
    keep_address(connection, KeepAddress(ANN, 8))
    record = begun(connection, 1)
    op = Commit(record.rid, 1, "", encode_record(record), notices=(notice(record),))
    (first,) = request_writes.apply(connection, (op,))
    assert first.won
    (second,) = request_writes.apply(connection, (op,))
    assert not second.won
    assert waiting(connection) == [notice(record)]


def test_for_who_is_told_nowhere_nothing_is_kept(connection: sqlite3.Connection) -> None:
    record = begun(connection, 1)
    op = Commit(record.rid, 1, "", encode_record(record), notices=(notice(record),))
    request_writes.apply(connection, (op,))
    assert waiting(connection) == []


def test_that_there_is_no_other_place_for_a_job_is_told_once_however_often_it_is_tried(
    connection: sqlite3.Connection,
) -> None:
    keep_address(connection, KeepAddress(ANN, 8))
    tries = ["elsewhere a-job 1", "elsewhere a-job 22", "elsewhere a-job-more 1", "another-key"]
    records = [begun(connection, number, key) for number, key in enumerate(tries)]
    for record in records:
        told = (notice(record, "not-placed"),)
        request_writes.apply(
            connection, (Close(record.rid, 1, encode_record(record), notices=told),)
        )
    first, _, other, no_try = records
    assert [each.id for each in waiting(connection)] == [
        f"{record.rid}-not-placed" for record in (first, other, no_try)
    ]


def test_a_notice_that_cannot_be_read_hides_no_other(connection: sqlite3.Connection) -> None:
    keep_address(connection, KeepAddress(ANN, 8))
    connection.execute("insert into notice (client, body) values ('bob', x'c1')")
    record = begun(connection, 1)
    op = Commit(record.rid, 1, "", encode_record(record), notices=(notice(record),))
    request_writes.apply(connection, (op,))
    found = waiting_notices(connection, 100, 100)
    assert list(found.notices.values()) == [notice(record)]
    assert len(found.unreadable) == 1


def test_who_has_many_waiting_keeps_nobody_else_from_being_told(
    connection: sqlite3.Connection,
) -> None:
    keep_address(connection, KeepAddress(ANN, 8))
    keep_address(connection, KeepAddress(ANN._replace(user="bob"), 8))
    for number in range(20):
        post_notice(connection, RequestNotice(id=f"{number}", user="ann", occasion="moved", at_s=1))
    post_notice(connection, RequestNotice(id="bobs", user="bob", occasion="moved", at_s=1))
    found = waiting_notices(connection, 5, 10).notices.values()
    assert [each.id for each in found] == ["0", "1", "2", "3", "4", "bobs"]
