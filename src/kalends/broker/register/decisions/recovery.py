"""Records that the register has forgotten, and its sites keep, are written down again."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    Record,
    Recover,
    Registered,
    encode_record,
)
from kalends.broker.register.decisions.records import history
from kalends.broker.register.decisions.requests import stored
from kalends.broker.register.decisions.scripts import release
from kalends.broker.register.decisions.shares import hand_over
from kalends.broker.register.rows import Rows
from kalends.broker.register.stored_request import StoredRequest

_DECIDED: Final = ("commit", "cancelled", "replaced")


def recover(rows: Rows, op: Recover) -> Registered:
    """Store a forgotten record; only the one with the most changes stands for a reservation."""
    record = op.record
    others = [
        each
        for each in history(rows, record.reservation)
        if isinstance(each, Record) and each.rid != record.rid
    ]
    if any(each.changes > record.changes and each.state in _DECIDED for each in others):
        record = structs.replace(record, state="replaced", done=True)
    won = _written(rows, record)
    if won:
        release(rows, record.rid)
        for each in others:
            if _stands_before(each, record):
                _replace_forgotten(rows, each)
        if record.state != "replaced":
            _keep_holder(rows, record)
    return Registered(op, won)


def _keep_holder(rows: Rows, record: Record) -> None:
    """A reservation that was handed over is found by its holder."""
    first = rows.reservation(record.reservation)[0]
    if first.rid != record.reservation or not first.user:
        return
    holders = [each.party for each in rows.shares_of(record.reservation) if each.may == "hold"] or [
        f"holder:{first.user}"
    ]
    if holders != [f"holder:{record.user}"]:
        hand_over(rows, record.reservation, record.user, first.user, record.created_ms // 1_000)


def _written(rows: Rows, record: Record) -> bool:
    """Write it down if nothing was decided, or if this was."""
    known = rows.requests.get(record.rid)
    if known is None or known.body is None:
        return _made(rows, record, known)
    body = encode_record(record)
    if known.state in ("open", "closed"):
        rows.requests[record.rid] = known._replace(
            att=record.att, state=record.state, owner="", done=record.done, body=body,
            begins=record.begins,
        )  # fmt: skip
        return True
    if (known.state, known.att) == ("commit", record.att):
        rows.requests[record.rid] = known._replace(body=body, begins=record.begins)
        return True
    return False


def _made(rows: Rows, record: Record, tombstone: StoredRequest | None) -> bool:
    """Make the row; a tombstone knew neither who had asked, nor for what reservation.

    Where another request has its key by now, that stays the one of this key.
    """
    free = [key for key in (record.key, record.rid) if rows.of_key(record.user, key) is None]
    if free:
        rows.requests.pop(record.rid, None)
        rows.requests[record.rid] = stored(record)._replace(owner="", key=free[0])
    return bool(free)


def _stands_before(each: Record, change: Record) -> bool:
    older = each.changes < change.changes or each.rid == change.replaces
    return older and each.state in ("commit", "cancelled")


def _replace_forgotten(rows: Rows, old: Record) -> None:
    """Replace what has been replaced before; a job that may run again may have started by then."""
    request, start = rows.requests.get(old.rid), rows.starts.get(old.rid)
    assert request is not None
    rows.requests[old.rid] = request._replace(state="replaced", done=True)
    may_run_again = old.spec.placement is not None and old.spec.placement.job.rerun
    if start is not None and not start.site and may_run_again:
        site = FORGOTTEN if "," in start.places else start.places
        rows.starts[old.rid] = start._replace(site=site)
