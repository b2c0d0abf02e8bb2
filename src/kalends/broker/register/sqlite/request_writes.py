"""The writes of a register, carried out in its SQLite file.

Several broker replicas on one host may share the file: each writes within its own transaction, which has the
file to itself. Results may be believed only after that has been committed (and synced).

A decision on rows takes two statements and a row in between. What most writes are is done by one statement
with the same condition, which halves the time of a booking here; where the condition does not hold, the
decision says what follows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from kalends.broker.coordination.record.decision_record import (
    Adopt,
    Begin,
    Close,
    Commit,
    Finish,
    Note,
    Operation,
    Raise,
    Registered,
    Telling,
    encode_record,
)
from kalends.broker.register.decisions.notices import tell
from kalends.broker.register.decisions.register_decisions import decide
from kalends.broker.register.decisions.requests import settle
from kalends.broker.register.sqlite.sqlite_rows import SqliteRows
from kalends.broker.register.writes import Result, Write


def carry_out(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[Result]:
    """Do `writes` in order within the open transaction."""
    rows = SqliteRows(connection)
    results: list[Result] = []
    for write in writes:
        statement, values_of = _STATEMENTS.get(type(write), _NONE)
        values = values_of(write)
        if values is None or not connection.execute(statement, values).rowcount:
            results.append(decide(rows, write))
            continue
        if isinstance(write, Commit | Close):
            settle(rows, write)
        if isinstance(write, Telling) and write.notices:
            tell(rows, write)
        results.append(Registered(write, True))  # type: ignore[arg-type]  # Only these have statements.
    return results


def apply(connection: sqlite3.Connection, operations: Sequence[Operation]) -> list[Registered]:
    """Carry out `operations` in order within the open transaction."""
    results = carry_out(connection, operations)
    return [result for result in results if isinstance(result, Registered)]


_Values = Callable[[Any], tuple[Any, ...] | None]
"""The values of the statement for a write; None where more than that statement is needed."""


def _begun(op: Begin) -> tuple[Any, ...] | None:
    record = op.record
    if op.source:
        return None
    return (
        record.rid, record.user, record.key, record.reservation, record.att, record.state, record.owner,
        encode_record(record),
    )  # fmt: skip


def _noted(op: Note) -> tuple[Any, ...] | None:
    return None if op.source else (op.body, op.rid, op.att)


def _raised(op: Raise) -> tuple[Any, ...] | None:
    return None if op.script else (op.owner, op.body, op.rid, op.att)


def _committed(op: Commit) -> tuple[Any, ...] | None:
    return None if op.replaces or op.heir else (op.body, op.begins, op.rid, op.att)


_OPEN_AT: Final = "where rid = ? and att = ? and state = 'open'"

_STATEMENTS: Final[dict[type, tuple[str, _Values]]] = {
    Begin: (
        "insert into request values (?, ?, ?, ?, ?, ?, ?, 0, ?, 0) on conflict do nothing", _begun,
    ),
    Note: (f"update request set body = ? {_OPEN_AT}", _noted),
    Raise: (f"update request set att = att + 1, owner = ?, body = ? {_OPEN_AT}", _raised),
    Commit: (f"update request set state = 'commit', body = ?, begins = ? {_OPEN_AT}", _committed),
    Close: (
        f"update request set state = 'closed', done = 1, body = ? {_OPEN_AT}",
        lambda op: (op.body, op.rid, op.att),
    ),
    Finish: (
        "update request set done = 1 where rid = ? and state = ?",
        lambda op: None if op.refunds else (op.rid, op.state),
    ),
    Adopt: (
        "update request set owner = ? where rid = ? and state = ? and done = 0",
        lambda op: (op.owner, op.rid, op.state),
    ),
}  # fmt: skip
_NONE: Final[tuple[str, _Values]] = ("", lambda op: None)
