"""Stores of an older version: brought to the present one whole, or left as they were.

No release has needed that yet, so the versions here are made up.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from kalends.core.errors import Conflict, StoreDamaged
from kalends.stores.sqlite import maintenance, sqlite_file
from kalends.stores.sqlite.sqlite_file import StoreKind, open_store, side_path

FIRST: Final = """
create table meta (name text primary key, value not null) without rowid;
create table promise (rid text primary key, body blob not null) without rowid;
"""
SECOND: Final = "create table notice (number integer primary key, body blob not null);"
THIRD: Final = (
    "create index notice_body on notice (body); insert into notice (body) values (x'01');"
)

KIND_1 = StoreKind("broker", 0x6B6C7399, 1, FIRST, shared=True)
KIND_3 = KIND_1._replace(version=3, schema=FIRST + SECOND + THIRD, upgrades={1: SECOND, 2: THIRD})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of version 1 with a promise."""
    path = tmp_path / "npaci.sqlite"
    file = open_store(path, KIND_1, "npaci")
    file.connection.execute("insert into promise values ('r', x'07')")
    file.close()
    return path


def version_in_header(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[60:64], "big")


def schema_of(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("select name, sql from sqlite_master order by name").fetchall()


def promises(connection: sqlite3.Connection) -> list[tuple[str, bytes]]:
    return connection.execute("select rid, body from promise").fetchall()


def test_an_older_store_keeps_its_content_and_is_like_a_new_one_from_then_on(path: Path) -> None:
    fresh = path.with_name("fresh.sqlite")
    open_store(fresh, KIND_3, "npaci").close()
    for epoch in (2, 3):
        file = open_store(path, KIND_3, "npaci")
        assert (file.epoch, promises(file.connection)) == (epoch, [("r", b"\x07")])
        assert file.connection.execute("select body from notice").fetchall() == [(b"\x01",)]
        file.close()
    assert schema_of(path) == schema_of(fresh)
    assert version_in_header(path) == 3
    assert maintenance.doctor(path, [KIND_3]) == []


def test_an_older_kalends_refuses_what_was_upgraded_even_before_it_is_closed(path: Path) -> None:
    file = open_store(path, KIND_3, "npaci")
    with pytest.raises(StoreDamaged, match=r"a newer kalends wrote it \(version 3; .* up to 1\)"):
        open_store(path, KIND_1, "npaci")
    file.close()


@pytest.mark.parametrize("version", [0, KIND_3.version + 1, 1_000])
def test_a_version_without_a_way_to_the_present_one_is_refused_unchanged(
    path: Path, version: int
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma user_version = {version}")
        connection.execute("pragma wal_checkpoint(truncate)")
    before = path.read_bytes()
    with pytest.raises(StoreDamaged):
        open_store(path, KIND_3, "npaci")
    assert path.read_bytes() == before


def test_a_newer_version_that_is_only_in_the_log_is_refused_too(path: Path) -> None:
    writer = sqlite3.connect(path)
    writer.execute(f"pragma user_version = {KIND_3.version + 1}")
    writer.commit()
    assert version_in_header(path) == 1
    with pytest.raises(StoreDamaged, match="a newer kalends"):
        open_store(path, KIND_3, "npaci")
    writer.close()


def test_while_an_older_process_has_it_open_it_is_not_upgraded(path: Path) -> None:
    older = open_store(path, KIND_1, "npaci")
    with pytest.raises(Conflict, match="older kalends has this store open"):
        open_store(path, KIND_3, "npaci")
    older.close()
    assert version_in_header(path) == 1
    open_store(path, KIND_3, "npaci").close()


def test_replicas_that_start_together_upgrade_it_once_and_both_serve(path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def replica() -> None:
        file = open_store(path, KIND_3, "npaci")
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
    open_store(path, KIND_3, "npaci")
    os._exit(0)


def test_a_crash_at_any_statement_leaves_the_old_store_or_the_new_one(path: Path) -> None:
    """The process is killed for real; the next start upgrades, or finds it done."""
    context = multiprocessing.get_context("fork")
    fresh = path.with_name("fresh.sqlite")
    open_store(fresh, KIND_3, "npaci").close()
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
        file = open_store(path, KIND_3, "npaci")
        assert promises(file.connection) == [("r", b"\x07")]
        file.close()
        assert schema_of(path) == whole
        if process.exitcode == 0:
            break
    assert versions == {False, True}
    assert statement > 5
