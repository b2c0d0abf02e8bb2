"""The journals of a site's queues, and what is kept of jobs that are over; in the site's own store.

Facts of queues and of the calendar go into one file in the order in which they were made. So a job that
was started where a reservation had ended is never stored without that end.

========= ==================================================================================
table     rows
========= ==================================================================================
job_entry every fact of every queue in order: machine, number, when, the fact
job       each job that is over: whose it was, when, how it ended, what it used
reserved  each reservation that has begun: whose it is, from when until when, what it costs
========= ==================================================================================
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from kalends.batch.queue.facts import JobEnding, JournalEntry, decode_fact, encode_fact
from kalends.contract.history_calls import PastBy
from kalends.core.errors import StoreDamaged
from kalends.core.jobs import JobRequest
from kalends.core.limits import TIME_S_MAX

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
    user           text not null,
    project        text not null,
    submitted      integer not null,
    started        integer not null,
    over           integer not null,
    phase          text not null,
    node_seconds   integer not null,
    cpu_s          real not null,
    credit_seconds integer not null,
    body           blob not null,
    primary key (machine, number)
) without rowid;
create index job_of_user on job (machine, user, number);
create index job_over on job (machine, over);
create index job_submitted on job (machine, submitted);
create table reserved (
    machine        text not null,
    reservation    text not null,
    booked_start   integer not null,
    booked_end     integer not null,
    user           text not null,
    start          integer not null,
    end            integer not null,
    nodes          integer not null,
    credit_seconds integer not null,
    primary key (machine, reservation, booked_start, booked_end)
) without rowid;
create index reserved_end on reserved (machine, end);
"""


MARKED_FACTS: Final = 100


class JobEntries(NamedTuple):
    """To be stored: facts of the queue of `machine`."""

    machine: str
    entries: tuple[JournalEntry, ...]


class JobOver(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ended job to store, in the form that its user will see."""

    machine: str
    number: int
    user: str
    request: JobRequest
    submitted: int
    over: int
    phase: str
    started: int = 0
    index: int | None = None
    array: int = 0
    attempt: int = 0
    node_numbers: tuple[int, ...] = ()
    node_seconds: int = 0
    credit_seconds: int = 0
    stood_s: int = 0
    detail: str = ""
    ending: JobEnding | None = None
    key: str = ""
    """The key with which a broker submitted the job, for the report of its end; "" if no broker did."""


class Cursor(NamedTuple):
    """Behind which job a page of history begins: its time and its number."""

    time_s: int = 0
    number: int = 0


class ReservedTime(msgspec.Struct, frozen=True, kw_only=True):
    """To be stored: a reservation that has begun; `end` is before `booked_end` if it was given back."""

    machine: str
    reservation: str
    booked_start: int
    booked_end: int
    user: str
    start: int
    end: int
    nodes: int
    credit_seconds: int = 0


class ReservedUse(NamedTuple):
    """Reserved time of a user in a period."""

    user: str
    reservations: int
    node_seconds: int
    credit_seconds: int


class UserUse(NamedTuple):
    """Use of a project by a user in a period."""

    user: str
    project: str
    jobs: int
    node_seconds: int
    cpu_s: float
    credit_seconds: int


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
        "insert or replace into job values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job.machine, job.number, job.user, job.request.project, job.submitted, job.started,
            job.over, job.phase, job.node_seconds, cpu_s, job.credit_seconds,
            msgspec.msgpack.encode(job),
        ),
    )  # fmt: skip


def store_reserved(connection: sqlite3.Connection, reserved: ReservedTime) -> None:
    """Within the caller's transaction."""
    connection.execute(
        "insert or replace into reserved values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        msgspec.structs.astuple(reserved),
    )


def reserved_after(
    connection: sqlite3.Connection,
    machine: str,
    time_s: int,
    *,
    before_s: int = TIME_S_MAX,
    user: str = "",
    count: int = -1,
) -> list[ReservedTime]:
    """Return the reservations that have begun before `before_s` and end after `time_s`, by their ends: of
    one user or ("") of all; at most `count`, or (-1) all.
    """
    names = ReservedTime.__struct_fields__
    where, arguments = ("", []) if not user else (" and user = ?", [user])
    rows = connection.execute(
        f"select {', '.join(names)} from reserved"
        f" where machine = ? and end > ? and start < ? and end > start{where} order by end limit ?",
        [machine, time_s, before_s, *arguments, count],
    )
    return [ReservedTime(**dict(zip(names, row, strict=True))) for row in rows]


def reserved_between(
    connection: sqlite3.Connection, machine: str, user: str, start: int, end: int
) -> list[ReservedUse]:
    """Return what was reserved until a time in ``[start, end)``, by one user or ("") by all."""
    where, arguments = ("", []) if not user else (" and user = ?", [user])
    rows = connection.execute(
        "select user, count(*), sum(nodes * (end - start)), sum(credit_seconds) from reserved"
        f" where machine = ? and end >= ? and end < ? and end > start{where} group by user order by user",
        [machine, start, end, *arguments],
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
    for number, now, fact in rows:
        try:
            yield JournalEntry(number, now, decode_fact(fact))
        except msgspec.DecodeError as error:
            raise StoreDamaged(
                f"entry {number} of the queue cannot be read: {error}",
                where=machine,
                remedy="restore a backup of the site's store",
            ) from error


def journal_mark(connection: sqlite3.Connection, machine: str, number: int) -> bytes:
    """Return what tells this journal up to fact `number` from any other; b"" if it does not go so far.

    The last `MARKED_FACTS` suffice: what is submitted has keys of its own, and time goes on.
    """
    rows = connection.execute(
        "select number, now, cast(fact as blob) from job_entry"
        " where machine = ? and number <= ? order by number desc limit ?",
        (machine, number, MARKED_FACTS),
    ).fetchall()
    if not rows or rows[0][0] != number:
        return b""
    return hashlib.blake2b(msgspec.msgpack.encode(rows), digest_size=16).digest()


def over_one(connection: sqlite3.Connection, machine: str, number: int) -> JobOver | None:
    row = connection.execute(
        "select cast(body as blob) from job where machine = ? and number = ?", (machine, number)
    ).fetchone()
    return _over(row[0]) if row else None


def over_newest(
    connection: sqlite3.Connection, machine: str, user: str, before: int, count: int
) -> list[JobOver]:
    """Return the newest jobs that are over, of one user or ("") of all, with numbers below `before`."""
    where, arguments = ("", [machine]) if not user else (" and user = ?", [machine, user])
    rows: Iterable[tuple[bytes]] = connection.execute(
        f"select cast(body as blob) from job where machine = ?{where} and number < ?"
        " order by number desc limit ?",
        [*arguments, before or 1 << 62, count],
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
    where, arguments = ("", []) if not user else (" and user = ?", [user])
    rows: Iterable[tuple[bytes]] = connection.execute(
        f"select cast(body as blob) from job where machine = ? and {within}{where}"
        f" and ({column}, number) > (?, ?) order by {column}, number limit ?",
        [machine, start, end, *arguments, *after, count],
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
    where, arguments = ("", []) if not user else (" and user = ?", [user])
    rows = connection.execute(
        "select user, project, count(*), sum(node_seconds), sum(cpu_s),"
        " sum(credit_seconds) from job"
        f" where machine = ? and over >= ? and over < ?{where}"
        " group by user, project order by 4 desc, user, project",
        [machine, start, end, *arguments],
    )
    return [UserUse(*row) for row in rows]


def _over(body: bytes) -> JobOver:
    return msgspec.msgpack.decode(body, type=JobOver)
