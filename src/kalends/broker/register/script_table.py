"""Scripts of users in the broker's store: sources by hash, names by user, and who still uses them.

A source is kept as long as a name stands for it or an open request uses it, and no longer. A deleted
name is remembered for a while, so that a repeated delete has the same answer. Everything here runs
inside the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

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

DELETED_KEPT_MAX: Final = 100
"""Deleted names that are remembered of one user: as many as there may be names."""

_COLUMNS: Final = "name, hash, size_bytes, functions, uploaded_ms"


class Named(NamedTuple):
    """A script by one of its names; `functions` are those of ``choose`` and ``recall`` it defines."""

    name: str
    script: str
    size_bytes: int
    functions: tuple[str, ...]
    uploaded_ms: int


def keep(
    connection: sqlite3.Connection, client: str, named: Named, source: str, names_max: int
) -> Named | None:
    """Let `named.name` stand for this source; None where `client` would have too many names.

    What the name stood for before is forgotten; the same source again changes nothing.
    """
    standing = {each.name: each for each in names(connection, client)}
    old = standing.get(named.name)
    if old is not None and old.script == named.script:
        return old
    if old is None and len(standing) >= names_max:
        return None
    connection.execute(
        "insert into script values (?, ?) on conflict do nothing", (named.script, source)
    )
    connection.execute(
        "insert or replace into script_name values (?, ?, ?, ?, ?, ?, 0)",
        (
            client,
            named.name,
            named.script,
            named.size_bytes,
            " ".join(named.functions),
            named.uploaded_ms,
        ),
    )
    if old is not None:
        _purge(connection, [old.script])
    return named


def forget(connection: sqlite3.Connection, client: str, reference: str) -> list[Named]:
    """Delete the name `reference`, or every name of that hash; what was deleted, now or before."""
    rows = connection.execute(
        f"select {_COLUMNS} from script_name where client = ? and (name = ? or hash = ?)"
        " order by name",
        (client, reference, reference),
    ).fetchall()
    found = [_named(row) for row in rows]
    for each in found:
        connection.execute(
            "update script_name set deleted = 1 where client = ? and name = ?", (client, each.name)
        )
    connection.execute(
        "delete from script_name where client = ? and deleted = 1 and name not in (select name"
        " from script_name where client = ? and deleted = 1 order by uploaded_ms desc limit ?)",
        (client, client, DELETED_KEPT_MAX),
    )
    _purge(connection, [each.script for each in found])
    return found


def use(connection: sqlite3.Connection, rid: str, script: str, source: str) -> None:
    """The open request `rid` uses this source, whatever becomes of its names."""
    connection.execute("insert into script values (?, ?) on conflict do nothing", (script, source))
    connection.execute("insert into script_use values (?, ?) on conflict do nothing", (rid, script))


def release(connection: sqlite3.Connection, rid: str) -> None:
    """The request `rid` is decided: it uses no script any more."""
    used = connection.execute("select hash from script_use where rid = ?", (rid,)).fetchall()
    if used:
        connection.execute("delete from script_use where rid = ?", (rid,))
        _purge(connection, [row[0] for row in used])


def names(connection: sqlite3.Connection, client: str) -> list[Named]:
    """The scripts of `client`, in order of name."""
    rows = connection.execute(
        f"select {_COLUMNS} from script_name where client = ? and deleted = 0 order by name",
        (client,),
    )
    return [_named(row) for row in rows]


def find(connection: sqlite3.Connection, client: str, reference: str) -> Named | None:
    """The script of `client` by its name, or by its whole hash."""
    row = connection.execute(
        f"select {_COLUMNS} from script_name where client = ? and deleted = 0"
        " and (name = ? or hash = ?) order by name limit 1",
        (client, reference, reference),
    ).fetchone()
    return _named(row) if row is not None else None


def source_of(connection: sqlite3.Connection, script: str) -> str:
    """The source with this hash; "" when it is not kept."""
    row = connection.execute("select source from script where hash = ?", (script,)).fetchone()
    return row[0] if row is not None else ""


def _purge(connection: sqlite3.Connection, scripts: Iterable[str]) -> None:
    for script in scripts:
        connection.execute(
            "delete from script where hash = ?"
            " and not exists (select 1 from script_name where hash = script.hash and deleted = 0)"
            " and not exists (select 1 from script_use where hash = script.hash)",
            (script,),
        )


def _named(row: tuple[str, str, int, str, int]) -> Named:
    name, script, size_bytes, functions, uploaded_ms = row
    return Named(name, script, size_bytes, tuple(functions.split()), uploaded_ms)
