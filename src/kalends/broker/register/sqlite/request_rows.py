"""Rows of requests: what a table has of one, as a record.

What is seen is durable only as far as the reader's transaction is. A row that cannot be read is given as
`Unreadable`.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from kalends.broker.register.contract import Row
from kalends.broker.register.found_rows import row_of

COLUMNS: Final = (
    "rid, request.client, key, reservation, att, state, owner, done,"
    " (select site from start where start.rid = request.rid),"
    " (select cast(body as blob) from ending where ending.rid = request.rid), cast(body as blob)"
)

BY_KEY: Final = "where client = ? and key = ?"

OF_RESERVATION: Final = "(rid = ? or (reservation = ? and reservation != rid))"
"""The request and its changes: only changes are in an index of their own, for most are never changed."""


def row(connection: sqlite3.Connection, rid: str) -> Row | None:
    """The row of `rid`; a tombstone (see `Ask`) reads as none."""
    return first_row(connection, "where rid = ?", (rid,))


def history(connection: sqlite3.Connection, reservation: str) -> list[Row]:
    """All records of `reservation`, the request and every change of it, oldest first."""
    rows = connection.execute(
        f"select {COLUMNS} from request where {OF_RESERVATION} order by rid",
        (reservation, reservation),
    )
    return [row_of(columns) for columns in rows]


def changing(connection: sqlite3.Connection, reservation: str) -> str:
    """The id of an open move, extend or shrink of `reservation`, or ""."""
    found = connection.execute(
        "select rid from request where reservation = ? and reservation != rid and state = 'open'",
        (reservation,),
    ).fetchone()
    return found[0] if found else ""


def first_row(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Row | None:
    """The first row that meets `where`; a tombstone (see `Ask`) reads as none."""
    found = connection.execute(f"select {COLUMNS} from request {where} limit 1", values).fetchone()
    return row_of(found) if found is not None and found[-1] is not None else None
