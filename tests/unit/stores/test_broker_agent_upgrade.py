"""Stores of an older version: brought to the present one whole, or left as they were."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from kalends.broker.coordination.record.decision_record import (
    Begin,
    Commit,
    Record,
    Spec,
    encode_record,
)
from kalends.core.errors import Conflict, StoreDamaged
from kalends.core.identifiers import request_id
from kalends.core.requests import Alternative, Request, Term
from kalends.stores.sqlite import maintenance, script_table, sqlite_file
from kalends.stores.sqlite.register import request_reads, request_writes
from kalends.stores.sqlite.register_file import KIND
from kalends.stores.sqlite.sqlite_file import StoreKind, open_store, side_path

VERSION_1: Final = """
create table request (
    rid         text primary key,
    client      text not null,
    key         text not null,
    reservation text not null,
    att         integer not null,
    state       text not null,
    owner       text not null,
    done        integer not null,
    body        blob,
    unique (client, key)
) without rowid;
create index request_pending on request (owner) where done = 0;
create index request_change on request (reservation) where reservation != rid;
create index request_client on request (client, rid);
create table replica (owner text primary key, lease_until_ms integer not null) without rowid;
create table meta (name text primary key, value not null) without rowid;
"""
"""As kalends wrote it before there were scripts of users."""

KIND_1 = StoreKind("broker", KIND.application_id, 1, VERSION_1, shared=True)
OPEN, DONE = (request_id(1_800_000_000_000 + number, number) for number in range(2))

BODY_1 = (
    b"\x8a\xa3rid\xd9$" + OPEN.encode() + b"\xa4user\xa4anna\xa3key\xa7the-key\xa6digest\xa1d"
    b"\xa5stamp\x01\xa5owner\xa3a:1\xabreservation\xd9$" + OPEN.encode() + b"\xa6secret\xb0"
    + b"s" * 16 + b"\xaacreated_ms\x00\xa4spec\x81\xa7request\x83\xacalternatives\x91\x81\xa5terms\x91"
    b"\x81\xa8resource\xa8sdsc/sp2\xaaduration_s<\xaanot_before\x00"
)  # fmt: skip
"""A record as it was written then: without anything about agents."""


def record(rid: str, key: str) -> Record:
    request = Request(
        alternatives=(Alternative(terms=(Term(resource="sdsc/sp2"),)),), duration_s=60, not_before=0
    )
    return Record(
        rid=rid, user="anna", key=key, digest="d", stamp=1, owner="a:1", reservation=rid,
        secret="s" * 16, created_ms=0, spec=Spec(request),
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of version 1 with an open request and a reservation, left by its broker."""
    path = tmp_path / "npaci.sqlite"
    file = open_store(path, KIND_1, "npaci")
    connection = file.connection
    connection.execute("begin")
    connection.execute(
        "insert into request values (?, 'anna', 'the-key', ?, 1, 'open', 'a:1', 0, ?)",
        (OPEN, OPEN, BODY_1),
    )
    reserved = record(DONE, "other-key")
    reserved.chosen = {"sdsc": (7,)}
    connection.execute(
        "insert into request values (?, 'anna', 'other-key', ?, 1, 'commit', 'a:1', 1, ?)",
        (DONE, DONE, encode_record(reserved)),
    )
    connection.execute("commit")
    file.close()
    return path


def version_in_header(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[60:64], "big")


def schema_of(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select name, sql from sqlite_master order by name").fetchall()


def test_an_older_store_keeps_its_content_and_takes_scripts(path: Path) -> None:
    file = open_store(path, KIND, "npaci")
    with closing(file.reader()) as reader:
        opened = request_reads.read(reader, OPEN)
        assert opened is not None
        assert (opened.state, opened.user, opened.key) == ("open", "anna", "the-key")
        assert (opened.spec.script, opened.tours, opened.left) == ("", 0, ())
        reserved = request_reads.read(reader, DONE)
        assert reserved is not None
        assert (reserved.state, reserved.chosen) == ("commit", {"sdsc": (7,)})
    assert file.epoch == 2
    file.connection.execute("begin")
    named = script_table.Named("mine", "a" * 64, 6, ("choose",), 1)
    assert script_table.keep(file.connection, "anna", named, "source", 100) == named
    opened.chosen = {"sdsc": (1,)}
    (won,) = request_writes.apply(file.connection, [Commit(OPEN, 1, "", encode_record(opened))])
    assert won.won
    file.connection.execute("commit")
    file.close()
    assert maintenance.doctor(path) == []


def test_an_upgraded_store_is_like_a_new_one(path: Path) -> None:
    open_store(path, KIND, "npaci").close()
    fresh = path.with_name("fresh.sqlite")
    open_store(fresh, KIND, "npaci").close()
    assert schema_of(path) == schema_of(fresh)
    assert version_in_header(path) == KIND.version == 7


def test_it_is_upgraded_once(path: Path) -> None:
    for epoch in (2, 3):
        file = open_store(path, KIND, "npaci")
        assert file.epoch == epoch
        file.close()


def test_an_older_kalends_refuses_what_was_upgraded_even_before_it_is_closed(path: Path) -> None:
    file = open_store(path, KIND, "npaci")
    with pytest.raises(StoreDamaged, match="a newer kalends wrote it"):
        open_store(path, KIND_1, "npaci")
    file.close()


@pytest.mark.parametrize("version", [0, KIND.version + 1, 1_000])
def test_a_version_without_a_way_to_the_present_one_is_refused_unchanged(
    path: Path, version: int
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma user_version = {version}")
        connection.execute("pragma wal_checkpoint(truncate)")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged):
        open_store(path, KIND, "npaci")
    assert path.read_bytes() == before


def test_a_newer_version_that_is_only_in_the_log_is_refused_too(path: Path) -> None:
    writer = sqlite3.connect(path)
    writer.execute(f"pragma user_version = {KIND.version + 1}")
    writer.commit()
    assert version_in_header(path) == 1
    with pytest.raises(StoreDamaged, match="a newer kalends"):
        open_store(path, KIND, "npaci")
    writer.close()


def test_while_an_older_process_has_it_open_it_is_not_upgraded(path: Path) -> None:
    older = open_store(path, KIND_1, "npaci")
    with pytest.raises(Conflict, match="older kalends has this store open"):
        open_store(path, KIND, "npaci")
    older.close()
    assert version_in_header(path) == 1
    open_store(path, KIND, "npaci").close()


def test_replicas_that_start_together_upgrade_it_once_and_both_serve(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def replica() -> None:
        file = open_store(path, KIND, "npaci")
        results.put(file.epoch)
        all_open.wait()
        file.close()

    all_open = context.Barrier(4)
    replicas = [context.Process(target=replica) for _ in range(3)]
    for each in replicas:
        each.start()
    assert sorted(results.get() for _ in replicas) == [2, 3, 4]
    all_open.wait()
    for each in replicas:
        each.join()
        assert each.exitcode == 0


def upgrade_and_die(path: Path, statement: int) -> None:
    """Open the store, and be killed before its statement number `statement`."""
    connect = sqlite_file._connect
    left = statement

    def count(text: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(database: str) -> sqlite3.Connection:
        connection = connect(database)
        if database == str(path):
            connection.set_trace_callback(count)
        return connection

    sqlite_file._connect = watched
    open_store(path, KIND, "npaci")
    os._exit(0)


def test_a_crash_at_any_statement_leaves_the_old_store_or_the_new_one(path: Path) -> None:
    """The process is killed for real; the next start upgrades, or finds it done."""
    context = multiprocessing.get_context("fork")
    fresh = path.with_name("fresh.sqlite")
    open_store(fresh, KIND, "npaci").close()
    whole = schema_of(fresh)
    old = schema_of(path)
    saved = {each: each.read_bytes() for each in (path, side_path(path))}
    versions = set()
    for statement in range(100):
        for each in path.parent.glob(f"{path.name}*"):
            each.unlink()
        for each, content in saved.items():
            each.write_bytes(content)
        process = context.Process(target=upgrade_and_die, args=(path, statement))
        process.start()
        process.join()
        found = schema_of(path)
        assert found in (old, whole)
        versions.add(found == whole)
        file = open_store(path, KIND, "npaci")
        assert request_reads.read(file.connection, OPEN) is not None
        file.close()
        assert schema_of(path) == whole
        if process.exitcode == 0:
            break
    assert versions == {False, True}
    assert statement > 5


def test_who_begins_with_a_script_keeps_its_source_until_it_is_decided(path: Path) -> None:
    file = open_store(path, KIND, "npaci")
    script = "b" * 64
    begun = record(request_id(1_800_000_000_000, 9), "third-key")
    begun.spec = Spec(begun.spec.request, agent="mine", script=script)
    (result,) = request_writes.apply(file.connection, [Begin(begun, "the source")])
    assert result.won
    assert script_table.source_of(file.connection, script) == "the source"
    request_writes.apply(file.connection, [Commit(begun.rid, 1, "", encode_record(begun))])
    assert script_table.source_of(file.connection, script) == ""
    file.close()
