"""The register in SQLite: its tables, and the operations as statements with conditions.

Several broker replicas on one host may share the file: every operation is one statement whose
condition is checked by the database, so that of two replicas exactly one wins. `apply` runs inside
the caller's transaction; results may be believed only after that has been committed (and synced).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import structs

from kalends.broker.coordination.believed_ends import believed_end
from kalends.broker.coordination.decision_record import (
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
    Note,
    NoteEnd,
    Operation,
    Permit,
    Raise,
    Read,
    Record,
    Recover,
    Registered,
    Remember,
    Telling,
    Unreadable,
    decode_record,
    encode_parts,
    encode_record,
)
from kalends.broker.reconciliation.recognition import Live
from kalends.contract.calls import PlacedEnd
from kalends.contract.messages import Mark
from kalends.core.clock import ASTRAY_MS
from kalends.core.errors import Problem
from kalends.core.identifiers import minted_ms
from kalends.stores.sqlite import notice_table, script_table
from kalends.stores.sqlite.maintenance import RECOVERING

REQUESTS: Final = """
create table request (
    rid         text primary key,
    client      text not null,
    key         text not null,
    reservation text not null,
    att         integer not null,
    state       text not null,
    owner       text not null,
    done        integer not null,
    body        blob,
    unique (client, key)
) without rowid;
create index request_pending on request (owner) where done = 0;
create index request_change on request (reservation) where reservation != rid;
create index request_client on request (client, rid);
create table replica (owner text primary key, beats integer not null) without rowid;
create table meta (name text primary key, value not null) without rowid;
"""

IDENTITY: Final = """
insert into meta values ('register', lower(hex(randomblob(16))));
insert into meta values ('secret', lower(hex(randomblob(32))));
create table site (
    name     text primary key,
    life     text not null,
    position integer not null,
    proof    text not null
) without rowid;
create table life (life text primary key, position integer not null) without rowid;
"""

STARTS: Final = """
create table start (rid text primary key, site text not null, places text not null) without rowid;
create index start_open on start (rid) where site = '';
"""
"""Of jobs that start at most once: where, "" if they may still start at any of the sites `places`."""

AGAIN: Final = """
alter table start add column again integer not null default 0;
create index start_again on start (rid) where again = 1;
"""
"""Whether it may run at its site, and starts again elsewhere if that is lost."""

ENDINGS: Final = """
create table ending (rid text primary key, at integer not null, body blob not null) without rowid;
create index ending_at on ending (at);
"""
"""Of jobs that were placed: when and how they ended."""

SCHEMA: Final = (
    REQUESTS + script_table.SCHEMA + IDENTITY + STARTS + ENDINGS + AGAIN + notice_table.NOTICES
)

BEATS: Final = """
drop table replica;
create table replica (owner text primary key, beats integer not null) without rowid;
"""

UPGRADES: Final = {
    1: script_table.SCHEMA,
    2: IDENTITY + BEATS,
    3: STARTS,
    4: ENDINGS,
    5: AGAIN,
    6: notice_table.NOTICES,
}
"""To version 2: scripts of users came in. To version 3: a register knows who it is, and its replicas
count beats in the place of leases by the wall clock; it remembers how far each site was. To version 4: it
says where jobs may start. To version 5: and how they ended. To version 6: and which may start again. To
version 7: users are told what others make of their requests."""

BY_ITSELF: Final = ("exit", "limit")
"""Ends of jobs that nobody has ended, and nothing: they are done."""

Row = Record | Unreadable

_COLUMNS: Final = (
    "rid, client, key, reservation, att, state, owner, done,"
    " (select site from start where start.rid = request.rid),"
    " (select cast(body as blob) from ending where ending.rid = request.rid), cast(body as blob)"
)

_OF_RESERVATION: Final = "(rid = ? or (reservation = ? and reservation != rid))"
"""The request and its changes: only changes are in an index of their own, for most are never changed."""


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
    standing = _first(connection, _BY_KEY, (record.user, record.key)) or row(connection, record.rid)
    return _registered(op, False, standing)


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
            return _registered(op, False, row(connection, op.rid))
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
    if not isinstance(old, Record) or old.state != "commit" or old.ended is not None:
        return False
    if old.started in (None, FORGOTTEN) or bool(old.started) != op.running:
        return False
    if op.running and not (old.spec.job is not None and old.spec.job.rerun):
        return False
    if not isinstance(new, Record) or (new.state, new.att) != ("open", op.att):
        return False
    old.told = old.told or old.done
    connection.execute(
        "update request set state = 'replaced', done = 0, owner = ?, body = ? where rid = ?",
        (new.owner, encode_record(old), op.replaces),
    )
    _start_no_more(connection, op.replaces)
    return True


def _start_no_more(connection: sqlite3.Connection, rid: str) -> None:
    """The job of a request is not to start, and not to start again; where it has, is still known."""
    connection.execute("delete from start where rid = ? and site = ''", (rid,))
    connection.execute("update start set again = 0 where rid = ?", (rid,))


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
        _start_no_more(connection, op.rid)
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
    return _registered(op, True, row(connection, op.rid))


def _examine(connection: sqlite3.Connection, op: Examine) -> Registered:
    if op.taken_from:
        connection.execute(
            "update request set owner = ? where rid = ? and owner = ? and done = 1",
            (op.owner, op.rid, op.taken_from),
        )
    found = row(connection, op.rid)
    free = found is not None and not changing(connection, found.reservation)
    return _registered(op, free, found)


def _ask(connection: sqlite3.Connection, op: Ask) -> Registered:
    """A write where there is no row: a replica whose Begin is still on its way must lose it."""
    found = row(connection, op.rid)
    if found is None and op.proved and op.certain:
        connection.execute(
            "insert into request values (?, '', ?, '', ?, 'closed', '', 1, null)"
            " on conflict do nothing",
            (op.rid, op.rid, op.att),
        )
    return _registered(op, True, found)


def _permit(connection: sqlite3.Connection, op: Permit) -> Registered:
    """First come, first served; again for whoever was first. And not before the last start has ended.

    Of several places a register that has forgotten the commit may have forgotten the start as well.
    """
    if not op.proved:
        return Registered(op, False)
    found = row(connection, op.rid)
    if not isinstance(found, Record) or (found.state, found.att) != ("commit", op.att):
        return _registered(op, False, found)
    if op.site not in found.chosen:
        return Registered(op, False, found)
    if not found.started and (found.ended is not None or _waits_for_an_end(connection, found, op)):
        return Registered(op, False, found)
    sure = found.started is not None or (
        len(found.chosen) == 1 and _past_is_known(connection, found)
    )
    connection.execute(
        "insert into start (rid, site, places) values (?, ?, ?) on conflict (rid) do update"
        " set site = excluded.site where site = ''",
        (op.rid, op.site if sure else FORGOTTEN, ",".join(found.chosen)),
    )
    found = row(connection, op.rid)
    assert isinstance(found, Record)
    return Registered(op, found.started == op.site, found)


def _waits_for_an_end(connection: sqlite3.Connection, record: Record, op: Permit) -> bool:
    """Whether the job has started at another place, and may still run there."""
    if not record.replaces:
        return False
    lost = op.lost if record.may_start_twice else ()
    return any(
        isinstance(each, Unreadable) or (each.awaited and each.started not in lost)
        for each in history(connection, record.reservation)
        if each.rid != record.rid
    )


def _past_is_known(connection: sqlite3.Connection, record: Record) -> bool:
    """Whether it is known what the job was before; what was recovered from sites has forgotten it."""
    before = row(connection, record.replaces) if record.replaces else record
    return isinstance(before, Record) and (before is record or before.spec.job is not None)


def _note_end(connection: sqlite3.Connection, op: NoteEnd) -> Registered:
    """What was said first stands."""
    found = row(connection, op.rid)
    if not isinstance(found, Record) or not found.may_end_at(op.att, op.site):
        return _registered(op, False, found)
    end = believed_end(found, op.site, op.end)
    if end is None and found.state == "replaced":
        # Whatever its clock says, it is over: its next start need not wait any more.
        end = structs.replace(op.end, at=minted_ms(op.rid) // 1_000, ran_s=0)
    if end is None:
        return _registered(op, False, found)
    noted = _ends(connection, op.rid, end)
    if noted and found.state == "replaced" and end.end in BY_ITSELF:
        for each in history(connection, found.reservation):
            if isinstance(each, Record) and each.may_start:
                _ends(connection, each.rid, end)
    return _registered(op, noted, row(connection, op.rid))


def _ends(connection: sqlite3.Connection, rid: str, end: PlacedEnd) -> bool:
    connection.execute("update start set again = 0 where rid = ?", (rid,))
    noted = connection.execute(
        "insert into ending values (?, ?, ?) on conflict do nothing",
        (rid, end.at, msgspec.msgpack.encode(end)),
    )
    return bool(noted.rowcount)


def _assemble(connection: sqlite3.Connection, op: Assemble) -> Registered:
    """Write down the parts once all have come; who asks later is told the same."""
    if not op.proved:
        return Registered(op, False)
    found = row(connection, op.rid)
    if not isinstance(found, Record) or (found.state, found.att) != ("commit", op.att):
        return _registered(op, False, found)
    come = {part.machine: part for part in op.parts}
    if not found.started and found.machines and come.keys() >= set(found.machines):
        parts = encode_parts([come[machine] for machine in found.machines])
        connection.execute(
            "insert into start (rid, site, places) values (?, ?, '')", (op.rid, parts)
        )
        found.started = parts
    return Registered(op, bool(found.started), found)


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
    if old.started == "" and old.spec.job is not None and old.spec.job.rerun:
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
    return _registered(op, False, row(connection, op.rid))


def _registered(op: Any, won: bool, found: Row | None) -> Registered:
    if isinstance(found, Unreadable):
        return Registered(op, won, unreadable=found)
    return Registered(op, won, found)


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
    Permit: _permit,
    NoteEnd: _note_end,
    Assemble: _assemble,
    Recover: _recover,
}


# Reading: what is seen is durable only as far as the reader's transaction is. What asks for one record
# raises `StoreDamaged` where its row cannot be read; what asks for many gives that row as `Unreadable`.


def readable(row: Row) -> Record:
    if isinstance(row, Unreadable):
        raise row.error()
    return row


def row(connection: sqlite3.Connection, rid: str) -> Row | None:
    """The row of `rid`; a tombstone (see `Ask`) reads as none."""
    return _first(connection, "where rid = ?", (rid,))


def read(connection: sqlite3.Connection, rid: str) -> Record | None:
    found = row(connection, rid)
    return readable(found) if found is not None else None


def by_key(connection: sqlite3.Connection, user: str, key: str) -> Record | None:
    found = _first(connection, _BY_KEY, (user, key))
    return readable(found) if found is not None else None


def current(connection: sqlite3.Connection, reservation: str) -> Row | None:
    """The newest record of `reservation` that was ever committed, else its first record."""
    return _first(
        connection,
        f"where {_OF_RESERVATION} order by state in ('commit', 'cancelled') desc, rid = ? desc, rid",
        (reservation, reservation, reservation),
    )


def reservations_of(connection: sqlite3.Connection, rids: Iterable[str]) -> dict[str, str]:
    """The reservations of those of `rids` that are changes of one."""
    query = "select reservation from request where rid = ? and reservation != rid"
    found = ((rid, connection.execute(query, (rid,)).fetchone()) for rid in rids)
    return {rid: str(columns[0]) for rid, columns in found if columns is not None}


def history(connection: sqlite3.Connection, reservation: str) -> list[Row]:
    """All records of `reservation`, the request and every change of it, oldest first."""
    rows = connection.execute(
        f"select {_COLUMNS} from request where {_OF_RESERVATION} order by rid",
        (reservation, reservation),
    )
    return [_of_columns(columns) for columns in rows]


def changing(connection: sqlite3.Connection, reservation: str) -> str:
    """The id of an open move, extend or shrink of `reservation`, or ""."""
    found = connection.execute(
        "select rid from request where reservation = ? and reservation != rid and state = 'open'",
        (reservation,),
    ).fetchone()
    return found[0] if found else ""


def of_user(
    connection: sqlite3.Connection, user: str, before: str, everyone: bool
) -> Iterator[Row]:
    """Records that stand for a reservation, newest first: changes are shown under their first id."""
    cursor = connection.execute(
        f"select {_COLUMNS} from request where rid < ? and rid = reservation"
        f"{'' if everyone else ' and client = ?'} order by rid desc",
        (before or "g",) if everyone else (before or "g", user),
    )
    yield from map(_of_columns, cursor)


def orphans(connection: sqlite3.Connection, alive: Collection[str], count_max: int) -> list[Row]:
    """Unfinished requests whose owner is not among those `alive`.

    At most `count_max` of those that can be read: the others stand in nobody's way.
    """
    cursor = connection.execute(
        f"select {_COLUMNS} from request where done = 0"
        f" and owner not in ({', '.join('?' * len(alive))})",
        tuple(alive),
    )
    found: list[Row] = []
    to_adopt = 0
    for each in map(_of_columns, cursor):
        found.append(each)
        to_adopt += isinstance(each, Record)
        if to_adopt == count_max:
            break
    return found


def unattended(
    connection: sqlite3.Connection, me: str, attended: Container[str], count_max: int
) -> list[Row]:
    """Unfinished requests of `me`, who lives, but works on those of `attended` alone."""
    owned = connection.execute("select rid from request where done = 0 and owner = ?", (me,))
    missing = [rid for (rid,) in owned if rid not in attended][:count_max]
    found = (row(connection, rid) for rid in missing)
    return [each for each in found if each is not None]


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
        if not isinstance(record, Record) or record.state != "commit" or record.ended is not None:
            continue
        if not changing(connection, record.reservation):
            found.append((record, len(history(connection, record.reservation))))
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


def every(connection: sqlite3.Connection) -> Iterator[Row]:
    """All rows but tombstones (see `Ask`), in order of id."""
    rows = connection.execute(f"select {_COLUMNS} from request where body is not null order by rid")
    return map(_of_columns, rows)


def page(connection: sqlite3.Connection, after: str, count_max: int) -> list[Row]:
    """All records with an id after `after`, in order of id."""
    rows = connection.execute(
        f"select {_COLUMNS} from request where rid > ? and body is not null order by rid limit ?",
        (after, count_max),
    )
    return [_of_columns(columns) for columns in rows]


def reservations(connection: sqlite3.Connection, after: str, count_max: int) -> list[list[Row]]:
    """The first requests after `after`, in order of id, each followed by all its changes."""
    rows = connection.execute(
        f"select {_COLUMNS} from request"
        " where rid > ? and body is not null and rid = reservation order by rid limit ?",
        (after, count_max),
    ).fetchall()
    firsts = map(_of_columns, rows)
    return [[each, *history(connection, each.rid)[1:]] for each in firsts]


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


def between(
    connection: sqlite3.Connection,
    after: str,
    until: str,
    rids: Sequence[str],
    count_max: int,
) -> list[Row]:
    """What a comparison needs: the rows of `rids`, and those after `after` and up to `until`
    ("": the last) that were ever committed; in order of id, the first `count_max` of them.
    """
    marks = ", ".join("?" * len(rids))
    rows = connection.execute(
        f"select {_COLUMNS} from request where body is not null and (rid in ({marks})"
        " or (rid > ? and rid <= ? and state in ('commit', 'cancelled', 'replaced')))"
        " order by rid limit ?",
        (*rids, after, until or "g", count_max),
    )
    return [_of_columns(row) for row in rows]


def remember(connection: sqlite3.Connection, op: Remember) -> None:
    """Within a life, a site's position only rises."""
    connection.execute(
        "insert into site values (?, ?, ?, ?) on conflict (name) do update"
        " set life = excluded.life, position = excluded.position, proof = excluded.proof"
        " where life != excluded.life or position < excluded.position",
        (op.site, op.mark.life, op.mark.position, op.mark.proof),
    )


def memory_of(connection: sqlite3.Connection, site: str) -> Mark | None:
    """How far `site` was when it was last heard of by any replica."""
    row = connection.execute(
        "select life, position, proof from site where name = ?", (site,)
    ).fetchone()
    return Mark(*row) if row else None


def live(connection: sqlite3.Connection, known: Live) -> None:
    """A life of the register has come so far."""
    connection.execute(
        "insert into life values (?, ?)"
        " on conflict (life) do update set position = max(position, excluded.position)",
        known,
    )


def position_of(connection: sqlite3.Connection, life: str) -> int | None:
    """How far `life` is known to have come; None where it is not known."""
    found = connection.execute("select position from life where life = ?", (life,)).fetchone()
    return found[0] if found else None


def is_put_back(connection: sqlite3.Connection) -> bool:
    """Whether the register has forgotten something, and is not compared with all its sites yet."""
    found = connection.execute("select value from meta where name = ?", (RECOVERING,)).fetchone()
    return bool(found and found[0])


def put_back(connection: sqlite3.Connection) -> None:
    """From now on nothing new is taken, and nothing given up, until `made_good`."""
    connection.execute("insert or replace into meta values (?, 1)", (RECOVERING,))


def made_good(
    connection: sqlite3.Connection, known: Sequence[Live], problem: Problem
) -> int | None:
    """The register goes on: what sites remember of it is `known`, and no request is open any more.

    Nobody knows what became of what was open when it was restored: it failed, with `problem`. Returns how
    many these were; None, and nothing is done, where another replica has been faster.
    """
    if not is_put_back(connection):
        return None
    connection.execute("delete from meta where name = ?", (RECOVERING,))
    # Where it has started, may be forgotten: at its only place it may start, and no other is looked for.
    connection.execute(
        "update start set site = ? where site = '' and places like '%,%'", (FORGOTTEN,)
    )
    connection.execute("delete from start where site = ''")
    for each in known:
        live(connection, each)
    found = connection.execute(f"select {_COLUMNS} from request where state = 'open'").fetchall()
    for record in map(_of_columns, found):
        body = None
        if isinstance(record, Record):
            record.problem = structs.replace(problem, request_id=record.reservation)
            body = encode_record(record)
        connection.execute(
            "update request set state = 'closed', done = 1, body = ifnull(?, body) where rid = ?",
            (body, record.rid),
        )
        script_table.release(connection, record.rid)
    return len(found)


def beat(connection: sqlite3.Connection, owner: str, clock: int) -> None:
    """Show that `owner` lives, and store a bound above every logical time it may give out.

    The bound goes back only where it lies so far ahead that a clock must have been wrong.
    """
    connection.execute(
        "insert into replica values (?, 1) on conflict (owner) do update set beats = beats + 1",
        (owner,),
    )
    connection.execute(
        "insert into meta values ('clock', ?) on conflict (name) do update set value ="
        " iif(value > excluded.value + ?, excluded.value, max(value, excluded.value))",
        (clock, ASTRAY_MS),
    )


def resign(connection: sqlite3.Connection, me: str) -> None:
    """`me` is gone: others may take over at once what it leaves."""
    connection.execute("delete from replica where owner = ?", (me,))


def beats(connection: sqlite3.Connection) -> dict[str, int]:
    """How often each owner has shown that it lives."""
    return dict(connection.execute("select owner, beats from replica"))


def retire(connection: sqlite3.Connection, name: str, me: str) -> None:
    """Earlier starts of the replica `name` are gone (owners are ``name:start``)."""
    connection.execute(
        "delete from replica where owner like ? escape '!' and owner != ?",
        (name.replace("!", "!!").replace("_", "!_").replace("%", "!%") + ":%", me),
    )


def secret(connection: sqlite3.Connection) -> str:
    """From what everything is derived that proves the register's word to sites; told to nobody."""
    (value,) = connection.execute("select value from meta where name = 'secret'").fetchone()
    return str(value)


def identity(connection: sqlite3.Connection) -> str:
    """Return the register's identity among all registers: drawn at random when its file was made."""
    (value,) = connection.execute("select value from meta where name = 'register'").fetchone()
    return str(value)


def clock_bound(connection: sqlite3.Connection) -> int:
    row = connection.execute("select value from meta where name = 'clock'").fetchone()
    return int(row[0]) if row else 0


_BY_KEY: Final = "where client = ? and key = ?"


def _first(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> Row | None:
    found = connection.execute(f"select {_COLUMNS} from request {where} limit 1", values).fetchone()
    return _of_columns(found) if found is not None and found[-1] is not None else None


def _of_columns(columns: tuple[Any, ...]) -> Row:
    """The body as it was stored, with the columns that conditional statements have moved on."""
    rid, user, key, reservation, att, state, owner, done, started, ended, body = columns
    try:
        record = decode_record(body)
        record.ended = msgspec.msgpack.decode(ended, type=PlacedEnd) if ended else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
        reason = f"its record cannot be read: {error}"
        return Unreadable(rid, user, key, reservation, att, state, owner, bool(done), reason)
    if record.rid != rid:
        reason = f"its record is of {record.rid}"
        return Unreadable(rid, user, key, reservation, att, state, owner, bool(done), reason)
    record.att, record.state, record.owner, record.done = att, state, owner, bool(done)
    record.started = started
    return record
