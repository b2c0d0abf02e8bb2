"""Slots of batch systems and the jobs' use of them, in the site's own store.

========= ==================================================================================
table     rows
========= ==================================================================================
slot      each reservation of a batch system that has begun, or will: whose it is, what it costs
slot_job  each job that ran in one and is over, by its system, its id and its start
slot_read of each system: until when all jobs are known that have ended
========= ==================================================================================
"""

from __future__ import annotations

import sqlite3
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
from kalends.stores.sqlite.upserts import upsert
from kalends.stores.store_part import StorePart

SLOTS: Final = """
create table slot (
    name         text primary key,
    system       text not null,
    resource     text not null,
    client       text not null,
    ends_at      integer not null,
    node_seconds integer not null,
    open         integer not null,
    body         blob not null
) without rowid;
create index slot_ends on slot (resource, ends_at, name);
create index slot_open on slot (system, ends_at) where open = 1;
create table slot_job (
    system       text not null,
    job          text not null,
    start        integer not null,
    slot         text not null,
    project      text not null,
    node_seconds integer not null,
    primary key (system, job, start)
) without rowid;
create index slot_job_slot on slot_job (slot);
create table slot_read (system text primary key, until integer not null) without rowid;
"""

SlotFact = SlotStored | SlotDropped | SlotsClosed | JobsRead


_KEEP_SLOT: Final = upsert(
    "slot",
    ("name",),
    ("system", "resource", "client", "ends_at", "node_seconds", "body", "open"),
)

_KEEP_JOB: Final = upsert(
    "slot_job", ("system", "job", "start"), ("slot", "project", "node_seconds")
)

_KEEP_READ: Final = upsert("slot_read", ("system",), ("until",))


def store_fact(connection: sqlite3.Connection, fact: SlotFact) -> None:
    """Store a fact in the caller's transaction; storing it again changes nothing."""
    if isinstance(fact, SlotStored):
        connection.execute(_KEEP_SLOT, (*msgspec.structs.astuple(fact), 1))
    elif isinstance(fact, SlotDropped):
        connection.execute("delete from slot where name = ?", (fact.name,))
    elif isinstance(fact, SlotsClosed):
        connection.execute(
            "update slot set open = 0 where open = 1 and system = ? and ends_at <= ?",
            (fact.system, fact.before),
        )
    else:
        connection.executemany(
            _KEEP_JOB,
            [
                (fact.system, job.id, job.start, slot, job.project, job.node_seconds)
                for slot, job in ((each.slot, each.job) for each in fact.jobs)
            ],
        )
        connection.execute(_KEEP_READ, (fact.system, fact.until))


PART: Final = StorePart[sqlite3.Connection](
    SLOTS, dict.fromkeys((SlotStored, SlotDropped, SlotsClosed, JobsRead), store_fact)
)


def known_slots(connection: sqlite3.Connection) -> KnownSlots:
    """Return what a site begins with; a slot that cannot be read gets no more jobs."""
    rows = connection.execute("select cast(body as blob) from slot where open = 1 order by name")
    slots = readable((body for (body,) in rows), decode_slot)
    read = dict(connection.execute("select system, until from slot_read").fetchall())
    return KnownSlots(tuple(slots), read)
