"""Lives of the register, its replicas and its sites: how far each is known to have come."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    Record,
    Remember,
    encode_record,
)
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import script_table
from kalends.broker.register.request_rows import (
    COLUMNS,
    of_columns,
)
from kalends.contract.messages import Mark
from kalends.core.clock import ASTRAY_MS
from kalends.core.errors import Problem
from kalends.stores.sqlite.maintenance import RECOVERING
from kalends.stores.sqlite.sqlite_file import read_meta, write_meta


def remember(connection: sqlite3.Connection, op: Remember) -> None:
    """Within a life, a site's position only rises."""
    connection.execute(
        "insert into site values (?, ?, ?, ?) on conflict (name) do update"
        " set life = excluded.life, position = excluded.position, proof = excluded.proof"
        " where life != excluded.life or position < excluded.position",
        (op.site, op.mark.life, op.mark.position, op.mark.proof),
    )


def memory_of(connection: sqlite3.Connection, site: str) -> Mark | None:
    """How far `site` was when it was last heard of by any replica."""
    row = connection.execute(
        "select life, position, proof from site where name = ?", (site,)
    ).fetchone()
    return Mark(*row) if row else None


def live(connection: sqlite3.Connection, known: Live) -> None:
    """A life of the register has come so far."""
    connection.execute(
        "insert into life values (?, ?)"
        " on conflict (life) do update set position = max(position, excluded.position)",
        known,
    )


def position_of(connection: sqlite3.Connection, life: str) -> int | None:
    """How far `life` is known to have come; None where it is not known."""
    found = connection.execute("select position from life where life = ?", (life,)).fetchone()
    return found[0] if found else None


def is_put_back(connection: sqlite3.Connection) -> bool:
    """Whether the register has forgotten something, and is not compared with all its sites yet."""
    return bool(read_meta(connection, RECOVERING))


def put_back(connection: sqlite3.Connection) -> None:
    """Take no new requests, and give up none, until `made_good`."""
    write_meta(connection, RECOVERING, 1)


def made_good(
    connection: sqlite3.Connection, known: Sequence[Live], problem: Problem
) -> int | None:
    """The register goes on: what sites remember of it is `known`, and no request is open any more.

    Nobody knows what became of what was open when it was restored: it failed, with `problem`. Returns how
    many these were; None, and nothing is done, where another replica has been faster.
    """
    if not is_put_back(connection):
        return None
    connection.execute("delete from meta where name = ?", (RECOVERING,))
    # Where it has started, may be forgotten: at its only place it may start, and no other is looked for.
    connection.execute(
        "update start set site = ? where site = '' and places like '%,%'", (FORGOTTEN,)
    )
    connection.execute("delete from start where site = ''")
    for each in known:
        live(connection, each)
    found = connection.execute(f"select {COLUMNS} from request where state = 'open'").fetchall()
    for record in map(of_columns, found):
        body = None
        if isinstance(record, Record):
            record.problem = structs.replace(problem, request_id=record.reservation)
            body = encode_record(record)
        connection.execute(
            "update request set state = 'closed', done = 1, body = ifnull(?, body) where rid = ?",
            (body, record.rid),
        )
        script_table.release(connection, record.rid)
    return len(found)


def beat(connection: sqlite3.Connection, owner: str, clock: int) -> None:
    """Show that `owner` lives, and store a bound above every logical time it may give out.

    The bound goes back only where it lies so far ahead that a clock must have been wrong.
    """
    connection.execute(
        "insert into replica values (?, 1) on conflict (owner) do update set beats = beats + 1",
        (owner,),
    )
    connection.execute(
        "insert into meta values ('clock', ?) on conflict (name) do update set value ="
        " iif(value > excluded.value + ?, excluded.value, max(value, excluded.value))",
        (clock, ASTRAY_MS),
    )


def resign(connection: sqlite3.Connection, me: str) -> None:
    """`me` is gone: others may take over at once what it leaves."""
    connection.execute("delete from replica where owner = ?", (me,))


def beats(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of beats of each owner."""
    return dict(connection.execute("select owner, beats from replica"))


def retire(connection: sqlite3.Connection, name: str, me: str) -> None:
    """Earlier starts of the replica `name` are gone (owners are ``name:start``)."""
    connection.execute(
        "delete from replica where owner like ? escape '!' and owner != ?",
        (name.replace("!", "!!").replace("_", "!_").replace("%", "!%") + ":%", me),
    )


def secret(connection: sqlite3.Connection) -> str:
    """From what everything is derived that proves the register's word to sites; told to nobody."""
    return str(read_meta(connection, "secret"))


def identity(connection: sqlite3.Connection) -> str:
    """Return the register's identity among all registers: drawn at random when its file was made."""
    return str(read_meta(connection, "register"))


def clock_bound(connection: sqlite3.Connection) -> int:
    return int(read_meta(connection, "clock"))
