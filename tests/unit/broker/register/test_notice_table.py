"""Notices that wait to be told, as they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from kalends.broker.coordination.record.decision_record import (
    Begin,
    Commit,
    Record,
    Spec,
    encode_record,
)
from kalends.broker.register.sqlite import request_writes
from kalends.broker.register.sqlite.broker_store import KIND
from kalends.broker.register.sqlite.notice_table import waiting_notices
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.writes import KeepAddress, NoticeAddress, PostNotice
from kalends.core.identifiers import request_id
from kalends.core.requests import Alternative, Request, Term
from kalends.notices.request_notice import RequestNotice
from kalends.stores.sqlite.sqlite_file import open_store

ANN = NoticeAddress("ann", "", "UTC", 1)
UNREADABLE = (
    b"\xc1",
    msgspec.msgpack.encode(RequestNotice(id="a flipped bit", user="bob", occasion="moved", at_s=1))
    .replace(b"flipped", b"flip\xffed"),
)  # fmt: skip


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    file = open_store(tmp_path / "npaci.sqlite", KIND, "npaci", sync="off")
    yield file.connection
    file.close()


def begun(connection: sqlite3.Connection, number: int) -> Record:
    request = Request(
        alternatives=(Alternative(terms=(Term(resource="sdsc/sp2"),)),), duration_s=60, not_before=0
    )
    rid = request_id(1_800_000_000_000 + number, number)
    record = Record(
        rid=rid, user="ann", key=f"key-{number}", digest="d", stamp=1, owner="a:1", reservation=rid,
        created_ms=0, spec=Spec(request),
    )  # fmt: skip
    request_writes.apply(connection, (Begin(record),))
    return record


def notice(record: Record) -> RequestNotice:
    return RequestNotice(id=f"{record.rid}-moved", user=record.user, occasion="moved", at_s=1)


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_notice_that_cannot_be_read_hides_no_other(
    connection: sqlite3.Connection, body: bytes
) -> None:
    carry_out(connection, [KeepAddress(ANN, 8)])
    connection.execute("insert into notice (client, body) values ('bob', ?)", (body,))
    record = begun(connection, 1)
    op = Commit(record.rid, 1, "", encode_record(record), notices=(notice(record),))
    request_writes.apply(connection, (op,))
    found = waiting_notices(connection, 100, 100)
    assert list(found.notices.values()) == [notice(record)]
    assert len(found.unreadable) == 1


def test_who_has_many_waiting_keeps_nobody_else_from_being_told(
    connection: sqlite3.Connection,
) -> None:
    carry_out(connection, [KeepAddress(ANN, 8)])
    carry_out(connection, [KeepAddress(ANN._replace(user="bob"), 8)])
    whose = [*((str(number), "ann") for number in range(20)), ("bobs", "bob")]
    for id, user in whose:
        told = RequestNotice(id=id, user=user, occasion="moved", at_s=1)
        carry_out(connection, [PostNotice(told)])
    found = waiting_notices(connection, 5, 10).notices.values()
    assert [each.id for each in found] == ["0", "1", "2", "3", "4", "bobs"]
