"""Scripts of users in the broker's store: sources by hash, names by user, and who still uses them.

A source is kept as long as a name stands for it or an open request uses it, and no longer. A deleted
name is remembered for a while, so that a repeated delete has the same answer. Everything here runs
inside the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.broker.register.found_rows import named
from kalends.broker.register.writes import Named

SCHEMA: Final = """
create table script (hash text primary key, source text not null) without rowid;
create table script_name (
    client      text not null,
    name        text not null,
    hash        text not null,
    size_bytes  integer not null,
    functions   text not null,
    uploaded_ms integer not null,
    deleted     integer not null,
    primary key (client, name)
) without rowid;
create index script_named on script_name (hash) where deleted = 0;
create table script_use (
    rid  text not null,
    hash text not null,
    primary key (rid, hash)
) without rowid;
create index script_used on script_use (hash);
"""

_COLUMNS: Final = "name, hash, size_bytes, functions, uploaded_ms"


def names(connection: sqlite3.Connection, client: str) -> list[Named]:
    """The scripts of `client`, in order of name."""
    rows = connection.execute(
        f"select {_COLUMNS} from script_name where client = ? and deleted = 0 order by name",
        (client,),
    )
    return [named(*row) for row in rows]


def find(connection: sqlite3.Connection, client: str, reference: str) -> Named | None:
    """The script of `client` by its name, or by its whole hash."""
    row = connection.execute(
        f"select {_COLUMNS} from script_name where client = ? and deleted = 0"
        " and (name = ? or hash = ?) order by name limit 1",
        (client, reference, reference),
    ).fetchone()
    return named(*row) if row is not None else None


def source_of(connection: sqlite3.Connection, script: str) -> str:
    """The source with this hash; "" when it is not kept."""
    row = connection.execute("select source from script where hash = ?", (script,)).fetchone()
    return row[0] if row is not None else ""
