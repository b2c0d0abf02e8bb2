"""Slots of batch systems, and the jobs' use of them, on PostgreSQL: the tables are those in SQLite."""

from __future__ import annotations

from typing import Final

import msgspec

from kalends.resource_servers.journal.standing_stakes import readable
from kalends.resource_servers.participation.provision.slots import (
    JobsRead,
    KnownSlots,
    SlotDropped,
    SlotsClosed,
    SlotStored,
    decode_slot,
)
from kalends.stores.postgres.readers import SlowReader
from kalends.stores.postgres.session import Statement
from kalends.stores.postgres.tables import KeyedTable, TableWrites
from kalends.stores.store_part import StorePart

SCHEMA: Final = """
create table slot (
    name         text collate "C" primary key,
    system       text collate "C" not null,
    resource     text collate "C" not null,
    client       text collate "C" not null,
    ends_at      bigint not null,
    node_seconds bigint not null,
    open         boolean not null,
    body         bytea not null
);
create index slot_ends on slot (resource, ends_at, name);
create index slot_open on slot (system, ends_at) where open;
create table slot_job (
    system       text collate "C" not null,
    job          text collate "C" not null,
    start        bigint not null,
    slot         text collate "C" not null,
    project      text collate "C" not null,
    node_seconds bigint not null,
    primary key (system, job, start)
);
create index slot_job_slot on slot_job (slot);
create table slot_read (system text collate "C" primary key, until bigint not null);
"""

_SLOT: Final = KeyedTable(
    "slot",
    {"name": "text"},
    {
        "system": "text", "resource": "text", "client": "text", "ends_at": "bigint",
        "node_seconds": "bigint", "body": "bytea", "open": "boolean",
    },
)  # fmt: skip

_JOB: Final = KeyedTable(
    "slot_job",
    {"system": "text", "job": "text", "start": "bigint"},
    {"slot": "text", "project": "text", "node_seconds": "bigint"},
)

_READ: Final = KeyedTable("slot_read", {"system": "text"}, {"until": "bigint"})

_CLOSE: Final = (
    "update slot set open = false where open and system = $1::text and ends_at <= $2::bigint"
)


def _store(writes: TableWrites, fact: SlotStored) -> None:
    name, *others = msgspec.structs.astuple(fact)
    writes.put(_SLOT, (name,), (*others, True))


def _drop(writes: TableWrites, fact: SlotDropped) -> None:
    writes.drop(_SLOT, fact.name)


def _close(writes: TableWrites, fact: SlotsClosed) -> None:
    writes.then(_SLOT, Statement(_CLOSE, (fact.system, fact.before)))


def _read(writes: TableWrites, fact: JobsRead) -> None:
    for slot, job in ((each.slot, each.job) for each in fact.jobs):
        writes.put(_JOB, (fact.system, job.id, job.start), (slot, job.project, job.node_seconds))
    writes.put(_READ, (fact.system,), (fact.until,))


PART: Final = StorePart[TableWrites](
    SCHEMA, {SlotStored: _store, SlotDropped: _drop, SlotsClosed: _close, JobsRead: _read}
)


def known_slots(reader: SlowReader) -> KnownSlots:
    """Return what a site begins with; a slot that cannot be read gets no more jobs."""
    rows = reader.rows("select body from slot where open order by name")
    slots = readable((body for (body,) in rows), decode_slot)
    read = reader.rows("select system, until from slot_read")
    return KnownSlots(tuple(slots), {row[0]: row[1] for row in read})
