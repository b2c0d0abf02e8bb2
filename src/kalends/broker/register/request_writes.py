"""The operations of the register: statements with conditions.

Several broker replicas on one host may share the file: every operation is one statement whose
condition is checked by the database, so that of two replicas exactly one wins. `apply` runs inside
the caller's transaction; results may be believed only after that has been committed (and synced).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import structs

from kalends.broker.coordination.record.decision_notices import on_nodes
from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    Adopt,
    Ask,
    Assemble,
    Begin,
    Cancel,
    Close,
    Commit,
    Examine,
    Finish,
    GiveUp,
    Note,
    NoteBegan,
    NoteEnd,
    NoteNodes,
    Operation,
    Permit,
    Raise,
    Read,
    Record,
    Recover,
    Registered,
    Telling,
    encode_record,
)
from kalends.broker.register import notice_table, script_table
from kalends.broker.register.job_starts import (
    assemble,
    give_up,
    note_began,
    note_end,
    permit,
    start_no_more,
)
from kalends.broker.register.request_rows import (
    BY_KEY,
    changing,
    commit_at,
    first_row,
    history,
    registered,
    row,
)

NOTICES_MAX: Final = 10
"""Notices of one resource of one reservation: of a node that fails again and again, its user has enough."""


def apply(connection: sqlite3.Connection, operations: Sequence[Operation]) -> list[Registered]:
    """Carry out `operations` in order within the open transaction."""
    return [_carried_out(connection, operation) for operation in operations]


def _carried_out(connection: sqlite3.Connection, operation: Operation) -> Registered:
    registered = _HANDLERS[type(operation)](connection, operation)
    if registered.won and isinstance(operation, Telling):
        notice_table.store_notices(connection, operation.rid, operation.notices)
    return registered


def _begin(connection: sqlite3.Connection, op: Begin) -> Registered:
    record = op.record
    done = connection.execute(
        "insert into request values (?, ?, ?, ?, ?, ?, ?, 0, ?) on conflict do nothing",
        (
            record.rid,
            record.user,
            record.key,
            record.reservation,
            record.att,
            record.state,
            record.owner,
            encode_record(record),
        ),
    )
    if done.rowcount:
        if op.source:
            script_table.use(connection, record.rid, record.spec.script, op.source)
        return Registered(op, True)
    standing = first_row(connection, BY_KEY, (record.user, record.key)) or row(
        connection, record.rid
    )
    return registered(op, False, standing)


def _note(connection: sqlite3.Connection, op: Note) -> Registered:
    noted = _settle(
        connection,
        op,
        "update request set body = ? where rid = ? and att = ? and state = 'open'",
        (op.body, op.rid, op.att),
    )
    if noted.won and op.source:
        script_table.use(connection, op.rid, op.script, op.source)
    return noted


def _raise(connection: sqlite3.Connection, op: Raise) -> Registered:
    return _settle(
        connection,
        op,
        "update request set att = att + 1, owner = ?, body = ?"
        " where rid = ? and att = ? and state = 'open'",
        (op.owner, op.body, op.rid, op.att),
    )


def _commit(connection: sqlite3.Connection, op: Commit) -> Registered:
    """The replaced request first: only a commit can be replaced, and only once."""
    if op.replaces:
        replace = _leave_places if op.elsewhere else _leave_slots
        if not replace(connection, op):
            return registered(op, False, row(connection, op.rid))
    decided = _decide(
        connection,
        op,
        "update request set state = 'commit', body = ?"
        " where rid = ? and att = ? and state = 'open'",
        (op.body, op.rid, op.att),
    )
    if decided.won and op.places:
        connection.execute(
            "insert into start values (?, '', ?, ?) on conflict do nothing",
            (op.rid, ",".join(op.places), op.again),
        )
    return decided


def _leave_slots(connection: sqlite3.Connection, op: Commit) -> bool:
    """Replace a finished commit, whose sites learn it by the new one."""
    replaced = connection.execute(
        "update request set state = 'replaced' where rid = ? and state = 'commit' and done = 1"
        " and exists (select 1 from request where rid = ? and att = ? and state = 'open')",
        (op.replaces, op.rid, op.att),
    )
    return bool(replaced.rowcount)


def _leave_places(connection: sqlite3.Connection, op: Commit) -> bool:
    """Replace the commit of a job that may leave its site; who commits tells its sites.

    Where it has started stays written down: it must have ended there before it starts again.
    """
    old, new = row(connection, op.replaces), row(connection, op.rid)
    if not isinstance(old, Record) or old.state != "commit" or not _may_leave(old, op):
        return False
    if not isinstance(new, Record) or (new.state, new.att) != ("open", op.att):
        return False
    old.told = old.told or old.done
    connection.execute(
        "update request set state = 'replaced', done = 0, owner = ?, body = ? where rid = ?",
        (new.owner, encode_record(old), op.replaces),
    )
    start_no_more(connection, op.replaces)
    return True


def _may_leave(old: Record, op: Commit) -> bool:
    if old.job.ended is not None:
        return old.could_not_start
    started = old.job.started
    if started in (None, FORGOTTEN) or bool(started) != op.running:
        return False
    return not op.running or (old.spec.placement is not None and old.spec.placement.job.rerun)


def _close(connection: sqlite3.Connection, op: Close) -> Registered:
    return _decide(
        connection,
        op,
        "update request set state = 'closed', done = 1, body = ?"
        " where rid = ? and att = ? and state = 'open'",
        (op.body, op.rid, op.att),
    )


def _cancel(connection: sqlite3.Connection, op: Cancel) -> Registered:
    cancelled = _settle(
        connection,
        op,
        "update request set state = 'cancelled', done = 0, owner = ?, body = ?"
        " where rid = ? and state = 'commit'",
        (op.owner, op.body, op.rid),
    )
    if cancelled.won:
        start_no_more(connection, op.rid)
    return cancelled


def _finish(connection: sqlite3.Connection, op: Finish) -> Registered:
    return _settle(
        connection,
        op,
        "update request set done = 1 where rid = ? and state = ?",
        (op.rid, op.state),
    )


def _adopt(connection: sqlite3.Connection, op: Adopt) -> Registered:
    return _settle(
        connection,
        op,
        "update request set owner = ? where rid = ? and state = ? and done = 0",
        (op.owner, op.rid, op.state),
    )


def _read(connection: sqlite3.Connection, op: Read) -> Registered:
    return registered(op, True, row(connection, op.rid))


def _examine(connection: sqlite3.Connection, op: Examine) -> Registered:
    if op.taken_from:
        connection.execute(
            "update request set owner = ? where rid = ? and owner = ? and done = 1",
            (op.owner, op.rid, op.taken_from),
        )
    found = row(connection, op.rid)
    free = found is not None and not changing(connection, found.reservation)
    return registered(op, free, found)


def _ask(connection: sqlite3.Connection, op: Ask) -> Registered:
    """A row for a request that has none: a replica whose Begin is still on its way must lose it."""
    found = row(connection, op.rid)
    if found is None and op.proved and op.certain:
        connection.execute(
            "insert into request values (?, '', ?, '', ?, 'closed', '', 1, null)"
            " on conflict do nothing",
            (op.rid, op.rid, op.att),
        )
    return registered(op, True, found)


_DECIDED: Final = ("commit", "cancelled", "replaced")


def _stands_before(each: Record, change: Record) -> bool:
    older = each.changes < change.changes or each.rid == change.replaces
    return older and each.state in ("commit", "cancelled")


def _recover(connection: sqlite3.Connection, op: Recover) -> Registered:
    """Store a forgotten record; of a reservation's records only the one with the most changes stands."""
    record = op.record
    others = [
        each
        for each in history(connection, record.reservation)
        if isinstance(each, Record) and each.rid != record.rid
    ]
    if any(each.changes > record.changes and each.state in _DECIDED for each in others):
        record.state, record.done = "replaced", True
    values = (record.att, encode_record(record), record.rid)
    found = connection.execute(
        "update request set state = ?, att = ?, owner = '', done = ?, body = ?"
        " where rid = ? and (state in ('open', 'closed') or body is null)",
        (record.state, values[0], record.done, *values[1:]),
    )
    if not found.rowcount:
        found = connection.execute(
            "insert into request values (?, ?, ?, ?, ?, ?, '', ?, ?) on conflict do nothing",
            (
                record.rid, record.user, record.key, record.reservation, record.att,
                record.state, record.done, values[1],
            ),
        )  # fmt: skip
    if not found.rowcount:
        found = connection.execute(
            "update request set body = ? where att = ? and rid = ? and state = 'commit'",
            (values[1], values[0], record.rid),
        )
    if found.rowcount:
        for each in others:
            if _stands_before(each, record):
                _replace_forgotten(connection, each)
    return Registered(op, bool(found.rowcount))


def _replace_forgotten(connection: sqlite3.Connection, old: Record) -> None:
    """Replace what has been replaced before; a job that may run again may have started by then."""
    connection.execute("update request set state = 'replaced', done = 1 where rid = ?", (old.rid,))
    if old.job.started == "" and old.spec.placement is not None and old.spec.placement.job.rerun:
        connection.execute(
            "update start set site = iif(places like '%,%', ?, places) where rid = ?",
            (FORGOTTEN, old.rid),
        )


def _decide(
    connection: sqlite3.Connection, op: Any, statement: str, values: tuple[object, ...]
) -> Registered:
    """As `_settle`; who is decided needs no script any more."""
    decided = _settle(connection, op, statement, values)
    if decided.won:
        script_table.release(connection, op.rid)
    return decided


def _settle(
    connection: sqlite3.Connection, op: Any, statement: str, values: tuple[object, ...]
) -> Registered:
    if connection.execute(statement, values).rowcount:
        return Registered(op, True)
    return registered(op, False, row(connection, op.rid))


def _note_nodes(connection: sqlite3.Connection, op: NoteNodes) -> Registered:
    """Write down the report with the highest number, and a notice if the count has changed."""
    found = commit_at(connection, op)
    if isinstance(found, Registered):
        return found
    units = sum(want.units for want in found.wants if want.resource == op.resource)
    known = found.owners.nodes_out.get(op.resource)
    if not units or (known is not None and op.lack.number <= known.number):
        return Registered(op, False, found)
    lack = structs.replace(
        op.lack, nodes=min(op.lack.nodes, units), told=known.told if known is not None else 0
    )
    if lack.nodes != (known.nodes if known is not None else 0) and lack.told < NOTICES_MAX:
        lack = structs.replace(lack, told=lack.told + 1)
        notice_table.post_notice(connection, on_nodes(found, op.resource, lack))
    nodes_out = {**found.owners.nodes_out, op.resource: lack}
    found.owners = structs.replace(found.owners, nodes_out=nodes_out)
    connection.execute(
        "update request set body = ? where rid = ? and state = 'commit'",
        (encode_record(found), op.rid),
    )
    return Registered(op, True, found)


_HANDLERS: Final[dict[type, Callable[[sqlite3.Connection, Any], Registered]]] = {
    Begin: _begin,
    Note: _note,
    Raise: _raise,
    Commit: _commit,
    Close: _close,
    Cancel: _cancel,
    Finish: _finish,
    Adopt: _adopt,
    Read: _read,
    Examine: _examine,
    Ask: _ask,
    Permit: permit,
    NoteEnd: note_end,
    Assemble: assemble,
    GiveUp: give_up,
    NoteBegan: note_began,
    NoteNodes: _note_nodes,
    Recover: _recover,
}


def forget(connection: sqlite3.Connection, rids: Sequence[str]) -> int:
    """Take out those of `rids` of which nothing is left to tell; returns how many."""
    marks = ", ".join("?" * len(rids))
    gone = connection.execute(
        f"delete from request where rid in ({marks}) and done = 1 and state != 'open'", rids
    ).rowcount
    for table in ("start", "ending"):
        connection.execute(
            f"delete from {table} where rid in ({marks})"
            f" and not exists (select 1 from request where request.rid = {table}.rid)",
            rids,
        )
    return gone
