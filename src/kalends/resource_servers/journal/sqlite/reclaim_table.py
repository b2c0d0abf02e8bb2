"""Time that the owner has taken back, each reclaim by its key, in the site's own store."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from kalends.core.conversion import UNREADABLE
from kalends.resource_servers.participation.memory.unreadable import UnreadableReclaim
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    ReclaimStored,
    decode_reclaim,
)
from kalends.stores.sqlite.upserts import upsert
from kalends.stores.store_part import StorePart

_KEEP: Final = upsert("reclaim", ("key",), ("body",))


class StoredReclaims(NamedTuple):
    reclaims: list[Reclaimed]
    unreadable: list[UnreadableReclaim]


def _store(connection: sqlite3.Connection, fact: ReclaimStored) -> None:
    connection.execute(_KEEP, (fact.key, fact.body))


def _drop(connection: sqlite3.Connection, fact: ReclaimDropped) -> None:
    connection.execute("delete from reclaim where key = ?", (fact.key,))


def stored_reclaims(connection: sqlite3.Connection) -> StoredReclaims:
    """Read all of them, by their keys."""
    found = StoredReclaims([], [])
    for key, body in connection.execute("select key, cast(body as blob) from reclaim order by key"):
        try:
            found.reclaims.append(decode_reclaim(body))
        except UNREADABLE as error:
            found.unreadable.append(UnreadableReclaim(key, str(error)))
    return found


PART: Final = StorePart[sqlite3.Connection](
    "create table reclaim (key text primary key, body blob not null) without rowid;\n",
    {ReclaimStored: _store, ReclaimDropped: _drop},
)
