"""Requests from their beginning to their end: each operation on its condition, or none of it."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    Adopt,
    Ask,
    Begin,
    Cancel,
    Close,
    Commit,
    CommitSeries,
    Examine,
    Finish,
    Note,
    Raise,
    Read,
    Record,
    Registered,
    encode_record,
)
from kalends.broker.register.decisions.notices import tell
from kalends.broker.register.decisions.records import (
    lost,
    record_of,
    registered,
    row,
)
from kalends.broker.register.decisions.scripts import release, use
from kalends.broker.register.decisions.shares import hand_over, is_offered
from kalends.broker.register.decisions.starts import start_no_more
from kalends.broker.register.rows import Rows, StoredStart
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.writes import ForgetSettled


def begin(rows: Rows, op: Begin) -> Registered:
    record = op.record
    standing = rows.of_key(record.user, record.key)
    if standing is not None and standing.body is not None:
        return registered(op, False, record_of(rows, standing))
    if standing is not None or rows.requests.get(record.rid) is not None:
        return lost(rows, op, record.rid)
    rows.requests[record.rid] = stored(record)._replace(done=False)
    if op.source:
        use(rows, record.rid, record.spec.script, op.source)
    return Registered(op, True)


def stored(record: Record) -> StoredRequest:
    """Return the row of a record that has none."""
    return StoredRequest(
        record.rid, record.user, record.key, record.reservation, record.att, record.state, record.owner,
        record.done, encode_record(record), record.begins if record.state == "commit" else 0,
    )  # fmt: skip


def _open_at(rows: Rows, op: Note | Raise | Commit | Close) -> StoredRequest | None:
    """Return the row of a request that is open at the attempt of `op`."""
    found = rows.requests.get(op.rid)
    return found if found is not None and (found.state, found.att) == ("open", op.att) else None


def _put(rows: Rows, op: Any, request: StoredRequest, **changes: Any) -> Registered:
    rows.requests[request.rid] = request._replace(**changes)
    return Registered(op, True)


def note(rows: Rows, op: Note) -> Registered:
    found = _open_at(rows, op)
    if found is None:
        return lost(rows, op, op.rid)
    if op.source:
        use(rows, op.rid, op.script, op.source)
    return _put(rows, op, found, body=op.body)


def raise_attempt(rows: Rows, op: Raise) -> Registered:
    found = _open_at(rows, op)
    if found is None:
        return lost(rows, op, op.rid)
    raised = _put(rows, op, found, att=op.att + 1, owner=op.owner, body=op.body)
    if not op.script or not raised.won:
        return raised
    return structs.replace(raised, source=rows.sources.get(op.script) or "")


def commit(rows: Rows, op: Commit) -> Registered:
    """The replaced request with it: only a commit can be replaced, and only once."""
    found = _open_at(rows, op)
    if found is None:
        return lost(rows, op, op.rid)
    if op.heir is not None and not is_offered(rows, op.heir.reservation, op.heir.user):
        return lost(rows, op, op.rid)
    if op.replaces:
        leave = _leave_places if op.elsewhere else _leave_slots
        if not leave(rows, op):
            return lost(rows, op, op.rid)
    if op.heir is not None:
        hand_over(rows, *op.heir)
    settle(rows, op)
    return _put(rows, op, found, state="commit", body=op.body, begins=op.begins)


def commit_series(rows: Rows, op: CommitSeries) -> Registered:
    """All of them, with what they tell, or none: every condition is looked at before anything is written."""
    opened: tuple[Commit | Raise, ...] = (*op.commits, *op.moved)
    changed = [each.rid for each in opened]
    changed += [each.replaces for each in op.commits if each.replaces]
    if (
        len({*changed}) < len(changed)
        or any(_open_at(rows, each) is None for each in opened)
        or not all(_may_be_replaced(rows, each) for each in op.commits if each.replaces)
    ):
        return Registered(op, False)
    for each in op.commits:
        commit(rows, each)
        tell(rows, each)
    for moved in op.moved:
        raise_attempt(rows, moved)
    return Registered(op, True)


def _may_be_replaced(rows: Rows, op: Commit) -> bool:
    """Whether the request that `op` replaces is a finished commit that no other request is to change.

    A job that leaves its site, and a reservation that is handed over, are part of no series.
    """
    old = rows.requests.get(op.replaces)
    if old is None or (old.state, old.done) != ("commit", True) or op.elsewhere or op.heir:
        return False
    changes = (each for each in rows.reservation(old.reservation) if each.state == "open")
    return all(each.rid == op.rid for each in changes)


def settle(rows: Rows, op: Commit | Close) -> None:
    """Write down the sites that may start its job; the request uses no script any more."""
    if isinstance(op, Commit) and op.places and rows.starts.get(op.rid) is None:
        rows.starts[op.rid] = StoredStart("", ",".join(op.places), op.again)
    release(rows, op.rid)


def _leave_slots(rows: Rows, op: Commit) -> bool:
    """Replace a finished commit, whose sites learn it by the new one."""
    old = rows.requests.get(op.replaces)
    if old is None or (old.state, old.done) != ("commit", True):
        return False
    rows.requests[op.replaces] = old._replace(state="replaced")
    return True


def _leave_places(rows: Rows, op: Commit) -> bool:
    """Replace the commit of a job that may leave its site, which hears that from the committer.

    Where it has started stays written down: it must have ended there before it starts again.
    """
    request, old, new = rows.requests.get(op.replaces), row(rows, op.replaces), row(rows, op.rid)
    if request is None or not isinstance(old, Record) or not isinstance(new, Record):
        return False
    if old.state != "commit" or not _may_leave(old, op):
        return False
    old.told = old.told or old.done
    rows.requests[op.replaces] = request._replace(
        state="replaced", done=False, owner=new.owner, body=encode_record(old)
    )
    start_no_more(rows, op.replaces)
    return True


def _may_leave(old: Record, op: Commit) -> bool:
    if old.job.ended is not None:
        return old.could_not_start
    started = old.job.started
    if started in (None, FORGOTTEN) or bool(started) != op.running:
        return False
    return not op.running or (old.spec.placement is not None and old.spec.placement.job.rerun)


def close(rows: Rows, op: Close) -> Registered:
    found = _open_at(rows, op)
    if found is None:
        return lost(rows, op, op.rid)
    settle(rows, op)
    return _put(rows, op, found, state="closed", done=True, body=op.body)


def cancel(rows: Rows, op: Cancel) -> Registered:
    found = rows.requests.get(op.rid)
    if found is None or found.state != "commit":
        return lost(rows, op, op.rid)
    start_no_more(rows, op.rid)
    return _put(rows, op, found, state="cancelled", done=False, owner=op.owner, body=op.body)


def finish(rows: Rows, op: Finish) -> Registered:
    found = rows.requests.get(op.rid)
    if found is None or found.state != op.state:
        return lost(rows, op, op.rid)
    record = row(rows, op.rid) if op.refunds else None
    if isinstance(record, Record):
        record.refunds = op.refunds
        return _put(rows, op, found, done=True, body=encode_record(record))
    return _put(rows, op, found, done=True)


def adopt(rows: Rows, op: Adopt) -> Registered:
    found = rows.requests.get(op.rid)
    if found is None or found.done or found.state != op.state:
        return lost(rows, op, op.rid)
    return _put(rows, op, found, owner=op.owner)


def read(rows: Rows, op: Read) -> Registered:
    return registered(op, True, row(rows, op.rid))


def examine(rows: Rows, op: Examine) -> Registered:
    request = rows.requests.get(op.rid)
    if request is None or request.body is None:
        return Registered(op, False)
    if op.taken_from and request.done and request.owner == op.taken_from:
        rows.requests[op.rid] = request._replace(owner=op.owner)
    changes = (each for each in rows.reservation(request.reservation) if each.state == "open")
    free = all(each.rid == request.reservation for each in changes)
    return registered(op, free, row(rows, op.rid))


def ask(rows: Rows, op: Ask) -> Registered:
    """A row for a request that has none: a replica whose Begin is still on its way must lose it."""
    if op.proved and op.certain and rows.requests.get(op.rid) is None:
        rows.requests[op.rid] = tombstone(op)
    return registered(op, True, row(rows, op.rid))


def tombstone(op: Ask) -> StoredRequest:
    return StoredRequest(
        op.rid, user="", key=op.rid, reservation=op.rid, att=op.att, state="closed", owner="", done=True,
        body=None,
    )  # fmt: skip


def forget_settled(rows: Rows, op: ForgetSettled) -> int:
    """Take out those of which nothing is left to tell; returns how many."""
    gone = 0
    for rid in op.rids:
        request = rows.requests.get(rid)
        if request is not None and request.done and request.state != "open":
            rows.requests.pop(rid, None)
            gone += 1
        elif request is not None:
            continue
        rows.starts.pop(rid, None)
        rows.endings.pop(rid, None)
    return gone
