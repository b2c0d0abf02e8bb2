"""Rows of requests: what a table has of one, as a record.

What is seen is durable only as far as the reader's transaction is. What asks for one record raises
`StoreDamaged` where its row cannot be read; what asks for many gives that row as `Unreadable`.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    NO_JOB,
    Assemble,
    GiveUp,
    NoteNodes,
    Permit,
    Record,
    Registered,
    Unreadable,
    decode_record,
)
from kalends.contract.calls import PlacedEnd

Row = Record | Unreadable


COLUMNS: Final = (
    "rid, client, key, reservation, att, state, owner, done,"
    " (select site from start where start.rid = request.rid),"
    " (select cast(body as blob) from ending where ending.rid = request.rid), cast(body as blob)"
)

BY_KEY: Final = "where client = ? and key = ?"

OF_RESERVATION: Final = "(rid = ? or (reservation = ? and reservation != rid))"
"""The request and its changes: only changes are in an index of their own, for most are never changed."""


def readable(row: Row) -> Record:
    """Return `row` as a record; raises `StoreDamaged` where it cannot be read."""
    if isinstance(row, Unreadable):
        raise row.error()
    return row


def row(connection: sqlite3.Connection, rid: str) -> Row | None:
    """The row of `rid`; a tombstone (see `Ask`) reads as none."""
    return first_row(connection, "where rid = ?", (rid,))


def history(connection: sqlite3.Connection, reservation: str) -> list[Row]:
    """All records of `reservation`, the request and every change of it, oldest first."""
    rows = connection.execute(
        f"select {COLUMNS} from request where {OF_RESERVATION} order by rid",
        (reservation, reservation),
    )
    return [of_columns(columns) for columns in rows]


def changing(connection: sqlite3.Connection, reservation: str) -> str:
    """The id of an open move, extend or shrink of `reservation`, or ""."""
    found = connection.execute(
        "select rid from request where reservation = ? and reservation != rid and state = 'open'",
        (reservation,),
    ).fetchone()
    return found[0] if found else ""


def registered(op: Any, won: bool, found: Row | None) -> Registered:
    """What the operation `op` gives: whether it has won, and the row as it is now."""
    if isinstance(found, Unreadable):
        return Registered(op, won, unreadable=found)
    return Registered(op, won, found)


def commit_at(
    connection: sqlite3.Connection, op: Permit | Assemble | GiveUp | NoteNodes
) -> Record | Registered:
    """Return the commit of the attempt and the site that `op` names; or the answer, if there is none."""
    found = row(connection, op.rid)
    if not isinstance(found, Record):
        return registered(op, False, found)
    if (found.state, found.att) == ("commit", op.att) and op.site in found.chosen:
        return found
    return Registered(op, False, found)


def first_row(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Row | None:
    """The first row that meets `where`; a tombstone (see `Ask`) reads as none."""
    found = connection.execute(f"select {COLUMNS} from request {where} limit 1", values).fetchone()
    return of_columns(found) if found is not None and found[-1] is not None else None


def of_columns(columns: tuple[Any, ...]) -> Row:
    """The body as it was stored, with the columns that conditional statements have moved on."""
    rid, user, key, reservation, att, state, owner, done, started, ended, body = columns
    try:
        record = decode_record(body)
        if started is not None or ended is not None or record.job is not NO_JOB:
            end = msgspec.msgpack.decode(ended, type=PlacedEnd) if ended else None
            record.job = structs.replace(record.job, started=started, ended=end)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        reason = f"its record cannot be read: {error}"
        return Unreadable(rid, user, key, reservation, att, state, owner, bool(done), reason)
    if record.rid != rid:
        reason = f"its row holds the record of {record.rid}"
        return Unreadable(rid, user, key, reservation, att, state, owner, bool(done), reason)
    record.att, record.state, record.owner, record.done = att, state, owner, bool(done)
    return record
