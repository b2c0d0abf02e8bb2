"""Jobs that start at most once, or in step: where they may start, where they have, and how they ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Container
from itertools import islice
from typing import Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.record.believed_ends import believed_end
from kalends.broker.coordination.record.decision_record import (
    FORGOTTEN,
    GIVEN_UP,
    Assemble,
    GiveUp,
    NoteBegan,
    NoteEnd,
    Permit,
    Record,
    Registered,
    Unreadable,
    decode_parts,
    encode_parts,
)
from kalends.broker.register.request_rows import (
    changing,
    commit_at,
    history,
    registered,
    row,
)
from kalends.contract.calls import PlacedEnd
from kalends.core.identifiers import minted_ms

BY_ITSELF: Final = ("exit", "limit")
"""Ends of jobs that nobody has ended, and nothing: they are done."""


def start_no_more(connection: sqlite3.Connection, rid: str) -> None:
    """The job of a request is not to start, and not to start again; where it has, is still known."""
    connection.execute("delete from start where rid = ? and site = ''", (rid,))
    connection.execute("update start set again = 0 where rid = ?", (rid,))


def permit(connection: sqlite3.Connection, op: Permit) -> Registered:
    """Grant the start to the first site that asks, also repeatedly; not before the last start has ended.

    Of several places a register that has forgotten the commit may have forgotten the start as well.
    """
    found = commit_at(connection, op) if op.proved and op.certain else Registered(op, False)
    if isinstance(found, Registered):
        return found
    job = found.job
    if not job.started and (job.ended is not None or _waits_for_an_end(connection, found, op)):
        return Registered(op, False, found)
    sure = job.started is not None or (len(found.chosen) == 1 and _past_is_known(connection, found))
    connection.execute(
        "insert into start (rid, site, places) values (?, ?, ?) on conflict (rid) do update"
        " set site = excluded.site where site = ''",
        (op.rid, op.site if sure else FORGOTTEN, ",".join(found.chosen)),
    )
    started = row(connection, op.rid)
    assert isinstance(started, Record)
    return Registered(op, started.job.started == op.site, started)


def _waits_for_an_end(connection: sqlite3.Connection, record: Record, op: Permit) -> bool:
    """Whether the job has started at another place, and may still run there."""
    if not record.replaces:
        return False
    lost = op.lost if record.may_start_twice else ()
    return any(
        isinstance(each, Unreadable) or (each.awaited and each.job.started not in lost)
        for each in history(connection, record.reservation)
        if each.rid != record.rid
    )


def _past_is_known(connection: sqlite3.Connection, record: Record) -> bool:
    """Whether it is known what the job was before; what was recovered from sites has forgotten it."""
    before = row(connection, record.replaces) if record.replaces else record
    return isinstance(before, Record) and (before is record or before.spec.placement is not None)


def note_end(connection: sqlite3.Connection, op: NoteEnd) -> Registered:
    """The first answer stands."""
    found = row(connection, op.rid)
    if not isinstance(found, Record) or not found.may_end_at(op.att, op.site):
        return registered(op, False, found)
    end = believed_end(found, op.site, op.end)
    if end is None and found.state == "replaced":
        # Whatever its clock says, it is over: its next start need not wait any more.
        end = structs.replace(op.end, at=minted_ms(op.rid) // 1_000, ran_s=0)
    if end is None:
        return registered(op, False, found)
    noted = _ends(connection, op.rid, end)
    if noted and found.state == "replaced" and end.end in BY_ITSELF:
        for each in history(connection, found.reservation):
            if isinstance(each, Record) and each.may_start:
                _ends(connection, each.rid, end)
    return registered(op, noted, row(connection, op.rid))


def _ends(connection: sqlite3.Connection, rid: str, end: PlacedEnd) -> bool:
    connection.execute("update start set again = 0 where rid = ?", (rid,))
    noted = connection.execute(
        "insert into ending values (?, ?, ?) on conflict do nothing",
        (rid, end.at, msgspec.msgpack.encode(end)),
    )
    return bool(noted.rowcount)


def assemble(connection: sqlite3.Connection, op: Assemble) -> Registered:
    """Write down the parts once all are ready, and when they start; who asks later is told the same.

    A part whose slot is over by then would not start with the others: so none does.
    """
    found = _step_of(connection, op)
    if isinstance(found, Registered):
        return found
    ready = {part.machine: part for part in op.parts}
    machines = found.job.machines
    if not found.job.started and machines and ready.keys() >= set(machines):
        parts = [ready[machine] for machine in machines]
        ends = [want.end for want in found.wants if want.resource in ready]
        in_time = op.begins_ms < min(ends) * 1_000
        _decide_start(connection, found, encode_parts(parts) if in_time else GIVEN_UP, op.begins_ms)
    return _decided(connection, op, found)


def give_up(connection: sqlite3.Connection, op: GiveUp) -> Registered:
    """Write down that no part starts, unless it is written down that all do; either stands for ever."""
    found = _step_of(connection, op)
    if isinstance(found, Registered):
        return found
    if not found.job.started and found.job.machines:
        _decide_start(connection, found, GIVEN_UP, 0)
    return _decided(connection, op, found)


def note_began(connection: sqlite3.Connection, op: NoteBegan) -> Registered:
    """The first answer stands."""
    found = row(connection, op.rid)
    if not isinstance(found, Record) or not found.job.machines:
        return registered(op, False, found)
    rid, started = _start_of(connection, found)
    parts = {part.machine: part for part in decode_parts(started or GIVEN_UP)}
    part = parts.get(op.machine)
    if part is None or part.began_at:
        return Registered(op, False, found)
    parts[op.machine] = structs.replace(part, began_at=op.at)
    connection.execute(
        "update start set site = ? where rid = ?", (encode_parts([*parts.values()]), rid)
    )
    return Registered(op, True, found)


def _step_of(connection: sqlite3.Connection, op: Assemble | GiveUp) -> Record | Registered:
    """Return the commit that is asked about, with what is decided of its start; or the answer, if it is none.

    A change keeps what was decided of the reservation before it.
    """
    found = commit_at(connection, op) if op.proved and op.certain else Registered(op, False)
    if isinstance(found, Record):
        found.job = structs.replace(found.job, started=_start_of(connection, found)[1])
    return found


def _start_of(connection: sqlite3.Connection, record: Record) -> tuple[str, str | None]:
    """Return which request of a reservation has the start of its job in step, and that."""
    if record.job.started is None and record.replaces:
        for each in history(connection, record.reservation):
            if isinstance(each, Record) and each.job.machines and each.job.started:
                return each.rid, each.job.started
    return record.rid, record.job.started


def _decide_start(
    connection: sqlite3.Connection, record: Record, started: str, begins_ms: int
) -> None:
    record.job = structs.replace(record.job, started=started)
    decided = (record.rid, started, str(begins_ms))
    connection.execute("insert into start (rid, site, places) values (?, ?, ?)", decided)


def _decided(connection: sqlite3.Connection, op: Assemble | GiveUp, record: Record) -> Registered:
    rid, _ = _start_of(connection, record)
    (begins_ms,) = connection.execute(
        "select cast(places as integer) from start where rid = ?", (rid,)
    ).fetchone() or (0,)
    return Registered(op, bool(record.job.started), record, begins_ms=begins_ms)


def stranded(
    connection: sqlite3.Connection, sites: Collection[str], but: Container[str], count_max: int
) -> list[tuple[Record, int]]:
    """Jobs that may start at none but these sites, or may run at one of them and start again elsewhere.

    With how often they were changed. None of those in `but`, and none that has ended, or is being moved.
    """
    found: list[tuple[Record, int]] = []
    placed = connection.execute(
        "select rid, places from start where site = ''"
        " union all select rid, site from start where again = 1 and site != ''"
    ).fetchall()
    for rid in [rid for rid, places in placed if set(sites).issuperset(places.split(","))]:
        record = row(connection, rid) if rid not in but else None
        if not isinstance(record, Record) or (record.state, record.job.ended) != ("commit", None):
            continue
        if not changing(connection, record.reservation):
            found.append((record, len(history(connection, record.reservation))))
        if len(found) == count_max:
            break
    return found


def left(connection: sqlite3.Connection, site: str, why: str, count_max: int) -> list[Record]:
    """Jobs that have left `site` for this reason, wait at another, and have started nowhere."""
    found: list[Record] = []
    for (rid,) in connection.execute("select rid from start where site = ''").fetchall():
        record = row(connection, rid)
        if not isinstance(record, Record) or not record.may_start or record.job.ended is not None:
            continue
        made, place = record.spec.by_others, record.spec.placement
        if made is None or made.reason != why or place is None or site not in place.elsewhere:
            continue
        if place.running == "no" and not changing(connection, record.reservation):
            found.append(record)
        if len(found) == count_max:
            break
    return found


def newest_ends(connection: sqlite3.Connection, count_max: int) -> list[Record]:
    """The last jobs of which it is known how they ended, and that can be read, in that order.

    With less than `count_max` there are no others.
    """
    ends = connection.execute("select rid from ending order by at desc")
    found = (row(connection, rid) for (rid,) in ends)
    newest = islice((each for each in found if isinstance(each, Record)), count_max)
    return [*newest][::-1]
