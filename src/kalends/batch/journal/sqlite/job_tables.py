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
from typing import Final

import msgspec

from kalends.batch.journal.contract import (
    JobEntries,
    JobOver,
    ReservedTime,
    StoredHost,
    StoredState,
)
from kalends.batch.queue.facts import encode_fact
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

RESERVED: Final = (
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
