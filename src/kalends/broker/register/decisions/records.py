"""Records out of rows, and the answers that tell of them."""

from __future__ import annotations

from kalends.broker.coordination.record.decision_record import (
    Assemble,
    GiveUp,
    NoteNodes,
    Operation,
    Permit,
    Record,
    Registered,
    Unreadable,
)
from kalends.broker.register.rows import Rows
from kalends.broker.register.stored_request import StoredRequest, read_record


def record_of(rows: Rows, request: StoredRequest) -> Record | Unreadable:
    start, ending = rows.starts.get(request.rid), rows.endings.get(request.rid)
    return read_record(request, start and start.site, ending and ending.body)


def row(rows: Rows, rid: str) -> Record | Unreadable | None:
    """Return the record of `rid`; None for a tombstone, too."""
    request = rows.requests.get(rid)
    return record_of(rows, request) if request is not None and request.body is not None else None


def history(rows: Rows, reservation: str) -> list[Record | Unreadable]:
    """Return all of a reservation, oldest first; a tombstone is one that cannot be read."""
    return [record_of(rows, each) for each in rows.reservation(reservation)]


def reservation_of(rows: Rows, rid: str) -> str:
    """Return the reservation that the request `rid` was made for; it must have a row."""
    request = rows.requests.get(rid)
    assert request is not None
    return request.reservation


def registered(op: Operation, won: bool, found: Record | Unreadable | None) -> Registered:
    """Return the result of `op`: whether it has won, and the row as it is now."""
    if isinstance(found, Unreadable):
        return Registered(op, won, unreadable=found)
    return Registered(op, won, found)


def lost(rows: Rows, op: Operation, rid: str) -> Registered:
    """Return the result of an operation whose condition does not hold for the request `rid`."""
    return registered(op, False, row(rows, rid))


def commit_at(rows: Rows, op: Permit | Assemble | GiveUp | NoteNodes) -> Record | Registered:
    """Return the commit of the attempt and the site that `op` names; or the answer, if there is none."""
    found = row(rows, op.rid)
    if not isinstance(found, Record):
        return registered(op, False, found)
    if (found.state, found.att) == ("commit", op.att) and op.site in found.chosen:
        return found
    return Registered(op, False, found)
