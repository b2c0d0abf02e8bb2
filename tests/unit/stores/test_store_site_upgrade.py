"""A site's store from before reclaims is brought to the present version whole, and keeps what it had."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from store_support import fact, rid, stake

from kalends.core.errors import StoreDamaged
from kalends.resource_servers.journal.site_store import KIND, SiteStore
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    decode_reclaim,
    stored_reclaim,
)
from kalends.stores.sqlite.sqlite_file import StoreKind, open_store

VERSION_1: Final = """
create table journal (
    seq   integer primary key,
    at_ms integer not null,
    rid   text not null,
    event text not null,
    body  blob not null
);
create table stake (
    rid     text primary key,
    seq     integer not null,
    ends_at integer not null
) without rowid;
create table meta (name text primary key, value not null) without rowid;
"""
"""As kalends wrote it before owners could take slots back."""

KIND_1 = StoreKind("site", KIND.application_id, 1, VERSION_1)

PUMP = Reclaimed("the-key", "sdsc/sp2", 600, 1_200, 60, 10, "a new pump", (rid(0),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of version 1 with one promise."""
    path = tmp_path / "sdsc.sqlite"
    file = open_store(path, KIND_1, "sdsc")
    one = fact(0)
    file.connection.execute("begin")
    file.connection.execute(
        "insert into journal values (1, 5, ?, 'visit-vote', ?)", (one.rid, one.body)
    )
    file.connection.execute("insert into stake values (?, 1, ?)", (one.rid, one.ends_at))
    file.connection.execute("commit")
    file.close()
    return path


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found: int = connection.execute("pragma user_version").fetchone()[0]
    return found


def test_an_older_store_is_upgraded_keeps_its_promises_and_takes_reclaims(path: Path) -> None:
    store = SiteStore.open(path, "sdsc", sync="off")
    assert [each.rid for each in store.load().stakes] == [stake(0).rid]
    assert store.load().reclaims == []
    store.apply([stored_reclaim(PUMP)], 1)
    store.close()
    assert version(path) == KIND.version == 8
    store = SiteStore.open(path, "sdsc", sync="off")
    assert store.load().reclaims == [PUMP]
    store.check()
    store.close()
    with pytest.raises(StoreDamaged, match="a newer kalends wrote it"):
        open_store(path, KIND_1, "sdsc")


def test_a_reclaim_is_stored_anew_and_dropped_by_its_key(path: Path) -> None:
    store = SiteStore.open(path, "sdsc", sync="off")
    other = Reclaimed("another-key", "sdsc/sp2", 0, 60, 0, 10)
    store.apply([stored_reclaim(PUMP), stored_reclaim(other)], 1)
    later = Reclaimed("the-key", "sdsc/sp2", 600, 1_200, 60, 10, "a new pump", (rid(0), rid(1)))
    store.apply([stored_reclaim(later), ReclaimDropped("another-key")], 2)
    assert store.load().reclaims == [later]
    assert decode_reclaim(stored_reclaim(later).body) == later
    store.close()
