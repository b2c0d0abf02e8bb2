"""Lives of the register, its replicas and its sites: how far each is known to have come."""

from __future__ import annotations

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    Record,
    Remember,
    encode_record,
)
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register.decisions.records import record_of
from kalends.broker.register.decisions.scripts import release
from kalends.broker.register.rows import Rows
from kalends.broker.register.writes import LeaseRenewal, MadeGood, PutBack, Resign, Retire
from kalends.core.clock import ASTRAY_MS


def renew(rows: Rows, op: LeaseRenewal) -> None:
    """The bound of the clock goes back only where it lies so far ahead that a clock must have been wrong."""
    rows.beats[op.owner] = (rows.beats.get(op.owner) or 0) + 1
    if rows.clock is None or not op.clock <= rows.clock <= op.clock + ASTRAY_MS:
        rows.clock = op.clock


def retire(rows: Rows, op: Retire) -> None:
    for owner in rows.owners_of(op.name):
        if owner != op.owner:
            rows.beats.pop(owner, None)


def resign(rows: Rows, op: Resign) -> None:
    """Others may take over at once what it leaves."""
    rows.beats.pop(op.owner, None)


def remember(rows: Rows, op: Remember) -> None:
    """Store the mark of a site, whose position only rises within one life."""
    known = rows.sites.get(op.site)
    if known is None or known.life != op.mark.life or known.position < op.mark.position:
        rows.sites[op.site] = op.mark


def live(rows: Rows, op: Live) -> None:
    """A life's position only rises."""
    known = rows.lives.get(op.life)
    if known is None or known < op.position:
        rows.lives[op.life] = op.position


def put_back(rows: Rows, op: PutBack) -> None:
    rows.put_back = True


def made_good(rows: Rows, op: MadeGood) -> int | None:
    """Let requests fail, with the problem, that were open when the register was restored.

    No replica knows their outcome. Returns how many these were; None, and nothing is done, if another replica
    has been faster.
    """
    if not rows.put_back:
        return None
    rows.put_back = False
    for rid in rows.waiting_starts():
        start = rows.starts.get(rid)
        # Where it has started, may be forgotten: at its only place it may start, and no other is looked for.
        if start is not None and "," in start.places:
            rows.starts[rid] = start._replace(site=FORGOTTEN)
        else:
            rows.starts.pop(rid, None)
    for each in op.known:
        live(rows, each)
    failed = rows.open_requests()
    for request in failed:
        body, record = request.body, record_of(rows, request)
        if isinstance(record, Record):
            record.problem = structs.replace(op.problem, request_id=record.reservation)
            body = encode_record(record)
        rows.requests[request.rid] = request._replace(state="closed", done=True, body=body)
        release(rows, request.rid)
    return len(failed)
