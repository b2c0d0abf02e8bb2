"""The tables of a site's queues: their journals, what is kept of jobs that are over, and their states.

============ ===============================================================================
table        rows
============ ===============================================================================
job_entry    every fact of every queue in order: machine, number, when, the fact
job          each job that is over: whose it was, when, how it ended, what it used
reserved     each reservation that has begun: whose it is, from when until when, what it costs
queue_state  of each queue: the state that its first facts have made, for a short restart
machine_host of each machine whose jobs are processes of a host: that host
============ ===============================================================================
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from kalends.batch.journal.contract import (
    Cursor,
    JobEntries,
    JobOver,
    ReservedTime,
    ReservedUse,
    StoredHost,
    StoredState,
    UserUse,
)
from kalends.batch.journal.stored_entries import MARKED_FACTS, entry_of, mark_of
from kalends.batch.queue.facts import JournalEntry, encode_fact
from kalends.contract.history_calls import PastBy
from kalends.core.limits import TIME_S_MAX
from kalends.stores.sqlite.upserts import upsert
from kalends.stores.store_part import StorePart

SCHEMA: Final = """
create table job_entry (
    machine text not null,
    number  integer not null,
    now     integer not null,
    fact    blob not null,
    primary key (machine, number)
) without rowid;
create table job (
    machine        text not null,
    number         integer not null,
    client         text not null,
    project        text not null,
    submitted      integer not null,
    started        integer not null,
    over           integer not null,
    phase          text not null,
    node_seconds   integer not null,
    cpu_s          double precision not null,
    credit_seconds integer not null,
    body           blob not null,
    primary key (machine, number)
) without rowid;
create index job_of_client on job (machine, client, number);
create index job_over on job (machine, over);
create index job_submitted on job (machine, submitted);
create table reserved (
    machine        text not null,
    reservation    text not null,
    booked_start   integer not null,
    booked_end     integer not null,
    client         text not null,
    start          integer not null,
    ends_at        integer not null,
    nodes          integer not null,
    credit_seconds integer not null,
    primary key (machine, reservation, booked_start, booked_end)
) without rowid;
create index reserved_ends on reserved (machine, ends_at);
create table queue_state (
    machine text primary key,
    made_by text not null,
    journal blob not null,
    number  integer not null,
    body    blob not null
);
create table machine_host (machine text primary key, host text not null, name text not null);
"""


EVERY: Final = 1 << 62
"""More rows, and higher numbers, than there are."""

_KEEP_OVER: Final = upsert(
    "job",
    ("machine", "number"),
    (
        "client", "project", "submitted", "started", "over", "phase", "node_seconds", "cpu_s",
        "credit_seconds", "body",
    ),
)  # fmt: skip

_KEEP_RESERVED: Final = upsert(
    "reserved",
    ("machine", "reservation", "booked_start", "booked_end"),
    ("client", "start", "ends_at", "nodes", "credit_seconds"),
)

_KEEP_STATE: Final = upsert("queue_state", ("machine",), ("made_by", "journal", "number", "body"))

_KEEP_HOST: Final = upsert("machine_host", ("machine",), ("host", "name"))

_RESERVED: Final = (
    "machine, reservation, booked_start, booked_end, client, start, ends_at, nodes, credit_seconds"
)
"""The fields of `ReservedTime`, in order."""


def store_entries(connection: sqlite3.Connection, stored: JobEntries) -> None:
    """Within the caller's transaction."""
    connection.executemany(
        "insert into job_entry values (?, ?, ?, ?)",
        [
            (stored.machine, each.number, each.now, encode_fact(each.fact))
            for each in stored.entries
        ],
    )


def store_over(connection: sqlite3.Connection, job: JobOver) -> None:
    """Within the caller's transaction."""
    cpu_s = job.ending.cpu_s if job.ending else 0.0
    connection.execute(
        _KEEP_OVER,
        (
            job.machine, job.number, job.user, job.request.project, job.submitted, job.started,
            job.over, job.phase, job.node_seconds, cpu_s, job.credit_seconds,
            msgspec.msgpack.encode(job),
        ),
    )  # fmt: skip


def store_reserved(connection: sqlite3.Connection, reserved: ReservedTime) -> None:
    """Within the caller's transaction."""
    connection.execute(_KEEP_RESERVED, msgspec.structs.astuple(reserved))


def store_state(connection: sqlite3.Connection, state: StoredState) -> None:
    """Store the state in place of the last one, within the caller's transaction."""
    connection.execute(_KEEP_STATE, msgspec.structs.astuple(state))


def store_host(connection: sqlite3.Connection, host: StoredHost) -> None:
    """Store the host of a machine in place of the last one, within the caller's transaction."""
    connection.execute(_KEEP_HOST, msgspec.structs.astuple(host))


PART: Final = StorePart[sqlite3.Connection](
    SCHEMA,
    {
        JobEntries: store_entries,
        JobOver: store_over,
        ReservedTime: store_reserved,
        StoredHost: store_host,
        StoredState: store_state,
    },
)


def stored_state(connection: sqlite3.Connection, machine: str) -> StoredState | None:
    """Read the state of a queue that was stored last."""
    row = connection.execute(
        "select machine, made_by, cast(journal as blob), number, cast(body as blob)"
        " from queue_state where machine = ?",
        (machine,),
    ).fetchone()
    return StoredState(*row) if row else None


def stored_hosts(connection: sqlite3.Connection) -> list[StoredHost]:
    """Read the hosts of all machines that have one."""
    rows = connection.execute("select machine, host, name from machine_host order by machine")
    return [StoredHost(*row) for row in rows]


def reserved_after(
    connection: sqlite3.Connection,
    machine: str,
    user: str,
    start: int,
    count: int = EVERY,
    *,
    end: int = TIME_S_MAX,
) -> list[ReservedTime]:
    """Return the reservations that have begun before `end` and end after `start`, by their ends: of
    one user or ("") of all.
    """
    rows = connection.execute(
        f"select {_RESERVED} from reserved where machine = ? and ends_at > ? and start < ?"
        f" and ends_at > start{_of(user)} order by ends_at, reservation, booked_start limit ?",
        [machine, start, end, *filter(None, [user]), count],
    )
    names = ReservedTime.__struct_fields__
    return [ReservedTime(**dict(zip(names, row, strict=True))) for row in rows]


def reserved_between(
    connection: sqlite3.Connection, machine: str, user: str, start: int, end: int
) -> list[ReservedUse]:
    """Return what was reserved until a time in ``[start, end)``, by one user or ("") by all."""
    rows = connection.execute(
        "select client, count(*), sum(nodes * (ends_at - start)), sum(credit_seconds) from reserved"
        " where machine = ? and ends_at >= ? and ends_at < ? and ends_at > start"
        f"{_of(user)} group by client order by client",
        [machine, start, end, *filter(None, [user])],
    )
    return [ReservedUse(*row) for row in rows]


def entries_after(
    connection: sqlite3.Connection, machine: str, number: int
) -> Iterator[JournalEntry]:
    """Read the journal of a queue behind fact `number`; raises `StoreDamaged` at one that cannot be read."""
    rows = connection.execute(
        "select number, now, fact from job_entry where machine = ? and number > ? order by number",
        (machine, number),
    )
    for row in rows:
        yield entry_of(machine, row)


def journal_mark(connection: sqlite3.Connection, machine: str, number: int) -> bytes:
    rows = connection.execute(
        "select number, now, cast(fact as blob) from job_entry"
        " where machine = ? and number <= ? order by number desc limit ?",
        (machine, number, MARKED_FACTS),
    ).fetchall()
    return mark_of(rows, number)


def over_one(connection: sqlite3.Connection, machine: str, number: int) -> JobOver | None:
    row = connection.execute(
        "select cast(body as blob) from job where machine = ? and number = ?", (machine, number)
    ).fetchone()
    return _over(row[0]) if row else None


def over_newest(
    connection: sqlite3.Connection, machine: str, user: str, before: int, count: int
) -> list[JobOver]:
    """Return the newest jobs that are over, of one user or ("") of all, with numbers below `before`."""
    rows: Iterable[tuple[bytes]] = connection.execute(
        f"select cast(body as blob) from job where machine = ?{_of(user)} and number < ?"
        " order by number desc limit ?",
        [machine, *filter(None, [user]), before or EVERY, count],
    )
    return [_over(body) for (body,) in rows]


def over_between(
    connection: sqlite3.Connection,
    machine: str,
    user: str,
    by: PastBy,
    start: int,
    end: int,
    after: Cursor,
    count: int,
) -> list[JobOver]:
    """Return jobs that were over in ``[start, end)``, submitted in it or had nodes in it, of one user or
    ("") of all; behind `after` in order of that time, or of their ends, and of their numbers.
    """
    column, within = _WITHIN[by]
    rows: Iterable[tuple[bytes]] = connection.execute(
        f"select cast(body as blob) from job where machine = ? and {within}{_of(user)}"
        f" and ({column}, number) > (?, ?) order by {column}, number limit ?",
        [machine, start, end, *filter(None, [user]), *after, count],
    )
    return [_over(body) for (body,) in rows]


_WITHIN: Final = {
    "over": ("over", "over >= ? and over < ?"),
    "submitted": ("submitted", "submitted >= ? and submitted < ?"),
    "ran": ("over", "over > ? and started > 0 and started < ?"),
}
"""The column that orders the jobs, and the condition with both ends of the time."""


def use_between(
    connection: sqlite3.Connection, machine: str, user: str, start: int, end: int
) -> list[UserUse]:
    """Return what was used by jobs that were over in ``[start, end)``, of one user or ("") of all."""
    rows = connection.execute(
        "select client, project, count(*), sum(node_seconds), sum(cpu_s),"
        " sum(credit_seconds) from job"
        f" where machine = ? and over >= ? and over < ?{_of(user)}"
        " group by client, project order by 4 desc, client, project",
        [machine, start, end, *filter(None, [user])],
    )
    return [UserUse(*row) for row in rows]


def _of(user: str) -> str:
    return " and client = ?" if user else ""


def _over(body: bytes) -> JobOver:
    return msgspec.msgpack.decode(body, type=JobOver)
