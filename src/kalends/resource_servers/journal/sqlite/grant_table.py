"""Reservations that a batch system has been asked for, by their numbers, in the site's own store."""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.resource_servers.journal.standing_stakes import readable
from kalends.resource_servers.participation.provision.grants import (
    GrantDropped,
    GrantStored,
    NodeGrant,
    decode_grant,
)
from kalends.stores.sqlite.upserts import upsert
from kalends.stores.store_part import StorePart

_KEEP: Final = upsert("node_grant", ("number",), ("body",))


def _store(connection: sqlite3.Connection, fact: GrantStored) -> None:
    connection.execute(_KEEP, (fact.number, fact.body))


def _drop(connection: sqlite3.Connection, fact: GrantDropped) -> None:
    connection.execute("delete from node_grant where number = ?", (fact.number,))


def stored_grants(connection: sqlite3.Connection) -> list[NodeGrant]:
    """Read all by their numbers; one that cannot be read is made again for its claims, and swept by name."""
    rows = connection.execute("select cast(body as blob) from node_grant order by number")
    return readable((body for (body,) in rows), decode_grant)


PART: Final = StorePart[sqlite3.Connection](
    "create table node_grant (number integer primary key, body blob not null);\n",
    {GrantStored: _store, GrantDropped: _drop},
)
