"""The tables of a site's queues on PostgreSQL: see `kalends.batch.journal.sqlite.job_tables`."""

from __future__ import annotations

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
from kalends.stores.postgres.tables import KeyedTable, TableWrites
from kalends.stores.store_part import StorePart

SCHEMA: Final = """
create table job_entry (
    machine text collate "C" not null,
    number  bigint not null,
    now     bigint not null,
    fact    bytea not null,
    primary key (machine, number)
);
create table job (
    machine        text collate "C" not null,
    number         bigint not null,
    client         text collate "C" not null,
    project        text collate "C" not null,
    submitted      bigint not null,
    started        bigint not null,
    over           bigint not null,
    phase          text collate "C" not null,
    node_seconds   bigint not null,
    cpu_s          double precision not null,
    credit_seconds bigint not null,
    body           bytea not null,
    primary key (machine, number)
);
create index job_of_client on job (machine, client, number);
create index job_over on job (machine, over, number);
create index job_submitted on job (machine, submitted, number);
create table reserved (
    machine        text collate "C" not null,
    reservation    text collate "C" not null,
    booked_start   bigint not null,
    booked_end     bigint not null,
    client         text collate "C" not null,
    start          bigint not null,
    ends_at        bigint not null,
    nodes          bigint not null,
    credit_seconds bigint not null,
    primary key (machine, reservation, booked_start, booked_end)
);
create index reserved_ends on reserved (machine, ends_at);
create table queue_state (
    machine text collate "C" primary key,
    made_by text collate "C" not null,
    journal bytea not null,
    number  bigint not null,
    body    bytea not null
);
create table machine_host (
    machine text collate "C" primary key,
    host    text not null,
    name    text not null
);
"""

_ENTRY: Final = KeyedTable(
    "job_entry",
    {"machine": "text", "number": "bigint"},
    {"now": "bigint", "fact": "bytea"},
    appends=True,
)

_JOB: Final = KeyedTable(
    "job",
    {"machine": "text", "number": "bigint"},
    {
        "client": "text", "project": "text", "submitted": "bigint", "started": "bigint", "over": "bigint",
        "phase": "text", "node_seconds": "bigint", "cpu_s": "double precision",
        "credit_seconds": "bigint", "body": "bytea",
    },
)  # fmt: skip

_RESERVED: Final = KeyedTable(
    "reserved",
    {"machine": "text", "reservation": "text", "booked_start": "bigint", "booked_end": "bigint"},
    {
        "client": "text", "start": "bigint", "ends_at": "bigint", "nodes": "bigint",
        "credit_seconds": "bigint",
    },
)  # fmt: skip

_STATE: Final = KeyedTable(
    "queue_state",
    {"machine": "text"},
    {"made_by": "text", "journal": "bytea", "number": "bigint", "body": "bytea"},
)

_HOST: Final = KeyedTable("machine_host", {"machine": "text"}, {"host": "text", "name": "text"})


def _store_entries(writes: TableWrites, stored: JobEntries) -> None:
    for each in stored.entries:
        writes.put(_ENTRY, (stored.machine, each.number), (each.now, encode_fact(each.fact)))


def _store_over(writes: TableWrites, job: JobOver) -> None:
    cpu_s = job.ending.cpu_s if job.ending else 0.0
    others = (
        job.user, job.request.project, job.submitted, job.started, job.over, job.phase,
        job.node_seconds, float(cpu_s), job.credit_seconds, msgspec.msgpack.encode(job),
    )  # fmt: skip
    writes.put(_JOB, (job.machine, job.number), others)


def _store_reserved(writes: TableWrites, reserved: ReservedTime) -> None:
    values = msgspec.structs.astuple(reserved)
    writes.put(_RESERVED, values[:4], values[4:])


def _store_state(writes: TableWrites, state: StoredState) -> None:
    machine, *others = msgspec.structs.astuple(state)
    writes.put(_STATE, (machine,), tuple(others))


def _store_host(writes: TableWrites, host: StoredHost) -> None:
    writes.put(_HOST, (host.machine,), (host.host, host.name))


PART: Final = StorePart[TableWrites](
    SCHEMA,
    {
        JobEntries: _store_entries,
        JobOver: _store_over,
        ReservedTime: _store_reserved,
        StoredHost: _store_host,
        StoredState: _store_state,
    },
)

RESERVED_AFTER: Final = (
    "select machine, reservation, booked_start, booked_end, client, start, ends_at, nodes, credit_seconds"
    " from reserved where machine = $1 and ends_at > $2::bigint and start < $3::bigint"
    " and ends_at > start and $4::text in ('', client)"
    " order by ends_at, reservation, booked_start limit $5::bigint"
)
"""The fields of `ReservedTime`, in order."""
