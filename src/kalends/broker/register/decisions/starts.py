"""Jobs that start at most once, or in step: where they may start, where they have, and how they ended."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.believed_ends import believed_end
from kalends.broker.coordination.record.decision_notices import on_nodes
from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    GIVEN_UP,
    Assemble,
    GiveUp,
    NoteBegan,
    NoteEnd,
    NoteNodes,
    Permit,
    Record,
    Registered,
    Unreadable,
    decode_parts,
    encode_parts,
    encode_record,
)
from kalends.broker.register.decisions.notices import post
from kalends.broker.register.decisions.records import (
    commit_at,
    history,
    registered,
    reservation_of,
    row,
)
from kalends.broker.register.rows import Rows, StoredEnd, StoredStart
from kalends.contract.calls import PlacedEnd
from kalends.core.identifiers import minted_ms

BY_ITSELF: Final = ("exit", "limit")
"""Ends of jobs that nobody has ended, and nothing: they are done."""

NOTICES_MAX: Final = 10
"""Notices of one resource of one reservation: of a node that fails again and again, its user has enough."""


def start_no_more(rows: Rows, rid: str) -> None:
    """The job of a request is not to start, and not to start again; where it has, is still known."""
    start = rows.starts.get(rid)
    if start is None:
        return
    if start.site:
        rows.starts[rid] = start._replace(again=False)
    else:
        rows.starts.pop(rid, None)


def permit(rows: Rows, op: Permit) -> Registered:
    """Grant the start to the first site that asks, also repeatedly; not before the last start has ended.

    Of several places a register that has forgotten the commit may have forgotten the start as well. No site
    may start a job in step by itself: such a question has no answer.
    """
    found = commit_at(rows, op) if op.proved and op.certain else Registered(op, False)
    if isinstance(found, Registered):
        return found
    if found.job.machines:
        return Registered(op, False)
    job = found.job
    if not job.started and (job.ended is not None or _waits_for_an_end(rows, found, op)):
        return Registered(op, False, found)
    start = rows.starts.get(op.rid)
    if start is None:
        sure = len(found.chosen) == 1 and _past_is_known(rows, found)
        start = StoredStart(op.site if sure else FORGOTTEN, ",".join(found.chosen))
        rows.starts[op.rid] = start
    elif not start.site:
        start = start._replace(site=op.site)
        rows.starts[op.rid] = start
    found.job = structs.replace(job, started=start.site)
    return Registered(op, start.site == op.site, found)


def _waits_for_an_end(rows: Rows, record: Record, op: Permit) -> bool:
    """Whether the job has started at another place, and may still run there."""
    if not record.replaces:
        return False
    lost = op.lost if record.may_start_twice else ()
    return any(
        isinstance(each, Unreadable) or (each.awaited and each.job.started not in lost)
        for each in history(rows, reservation_of(rows, record.rid))
        if each.rid != record.rid
    )


def _past_is_known(rows: Rows, record: Record) -> bool:
    """Whether the job before the move is known; a record that was recovered from sites has forgotten it."""
    if not record.replaces:
        return True
    past = {each.rid: each for each in history(rows, reservation_of(rows, record.rid))}
    before = past.get(record.replaces)
    return isinstance(before, Record) and before.spec.placement is not None


def note_end(rows: Rows, op: NoteEnd) -> Registered:
    """The first answer stands."""
    found = row(rows, op.rid)
    if not isinstance(found, Record) or not found.may_end_at(op.att, op.site):
        return registered(op, False, found)
    end = believed_end(found, op.site, op.end)
    if end is None and found.state == "replaced":
        # Whatever its clock says, it is over: its next start need not wait any more.
        end = structs.replace(op.end, at=minted_ms(op.rid) // 1_000, ran_s=0)
    if end is None:
        return registered(op, False, found)
    if not _ends(rows, op.rid, end):
        return Registered(op, False, found)
    found.job = structs.replace(found.job, ended=end)
    if found.state == "replaced" and end.end in BY_ITSELF:
        for each in history(rows, reservation_of(rows, op.rid)):
            if isinstance(each, Record) and each.may_start:
                _ends(rows, each.rid, end)
    return Registered(op, True, found)


def _ends(rows: Rows, rid: str, end: PlacedEnd) -> bool:
    start = rows.starts.get(rid)
    if start is not None:
        rows.starts[rid] = start._replace(again=False)
    if rows.endings.get(rid) is not None:
        return False
    rows.endings[rid] = StoredEnd(end.at, msgspec.msgpack.encode(end))
    return True


def assemble(rows: Rows, op: Assemble) -> Registered:
    """Write down the parts once all are ready, and when they start; later askers get the same answer.

    A part whose slot is over by then would not start with the others: so none does.
    """
    found = commit_at(rows, op) if op.proved and op.certain else Registered(op, False)
    if isinstance(found, Registered):
        return found
    ready = {part.machine: part for part in op.parts}
    machines = found.job.machines
    if not _start_of(rows, found)[1] and machines and ready.keys() >= set(machines):
        parts = [ready[machine] for machine in machines]
        ends = [want.end for want in found.wants if want.resource in ready]
        in_time = op.begins_ms < min(ends) * 1_000
        _decide_start(rows, found, encode_parts(parts) if in_time else GIVEN_UP, op.begins_ms)
    return _decided(rows, op, found)


def give_up(rows: Rows, op: GiveUp) -> Registered:
    """Write down that no part starts, unless it is written down that all do; either stands for ever."""
    found = commit_at(rows, op) if op.proved and op.certain else Registered(op, False)
    if isinstance(found, Registered):
        return found
    if not _start_of(rows, found)[1] and found.job.machines:
        _decide_start(rows, found, GIVEN_UP, 0)
    return _decided(rows, op, found)


def note_began(rows: Rows, op: NoteBegan) -> Registered:
    """The first answer stands."""
    found = row(rows, op.rid)
    if not isinstance(found, Record) or not found.job.machines:
        return registered(op, False, found)
    rid, started = _start_of(rows, found)
    parts = {part.machine: part for part in decode_parts(started or GIVEN_UP)}
    part = parts.get(op.machine)
    start = rows.starts.get(rid)
    if part is None or part.began_at or start is None:
        return Registered(op, False, found)
    parts[op.machine] = structs.replace(part, began_at=op.at)
    rows.starts[rid] = start._replace(site=encode_parts([*parts.values()]))
    return Registered(op, True, found)


def _start_of(rows: Rows, record: Record) -> tuple[str, str | None]:
    """Return which request of a reservation has the start of its job in step, and that.

    A change keeps what was decided of the reservation before it.
    """
    if record.job.started is None and record.replaces:
        for each in history(rows, reservation_of(rows, record.rid)):
            if isinstance(each, Record) and each.job.machines and each.job.started:
                return each.rid, each.job.started
    return record.rid, record.job.started


def _decide_start(rows: Rows, record: Record, started: str, begins_ms: int) -> None:
    record.job = structs.replace(record.job, started=started)
    rows.starts[record.rid] = StoredStart(started, str(begins_ms))


def _decided(rows: Rows, op: Assemble | GiveUp, record: Record) -> Registered:
    rid, started = _start_of(rows, record)
    record.job = structs.replace(record.job, started=started)
    start = rows.starts.get(rid)
    begins_ms = int(start.places) if start is not None and start.places.isdecimal() else 0
    return Registered(op, bool(started), record, begins_ms=begins_ms)


def note_nodes(rows: Rows, op: NoteNodes) -> Registered:
    """Write down the report with the highest number, and a notice if the count has changed."""
    found = commit_at(rows, op)
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
        post(rows, on_nodes(found, op.resource, lack))
    nodes_out = {**found.owners.nodes_out, op.resource: lack}
    found.owners = structs.replace(found.owners, nodes_out=nodes_out)
    request = rows.requests.get(op.rid)
    assert request is not None
    rows.requests[op.rid] = request._replace(body=encode_record(found))
    return Registered(op, True, found)
