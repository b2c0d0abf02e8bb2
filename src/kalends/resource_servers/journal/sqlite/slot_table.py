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

from kalends.contract.history_calls import SlotProject, SlotUser
from kalends.resource_servers.journal.contract import SlotCursor, SlotUse
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


_WITHIN: Final = "slot.resource = ? and slot.ends_at >= ? and slot.ends_at < ?"
"""Slots belong to the time in which they end."""

_JOBS: Final = "(select count(*) from slot_job where slot = name)"
_USED: Final = "(select coalesce(sum(slot_job.node_seconds), 0) from slot_job where slot = name)"


def slots_between(
    connection: sqlite3.Connection,
    resource: str,
    user: str,
    start: int,
    end: int,
    after: SlotCursor,
    count: int,
) -> list[SlotUse]:
    """Return slots of one user or ("") of all that end in ``[start, end)``, behind `after`, by their ends."""
    rows = connection.execute(
        f"select cast(body as blob), {_JOBS}, {_USED} from slot"
        f" where {_WITHIN}{_of(user)} and (ends_at, name) > (?, ?) order by ends_at, name limit ?",
        [resource, start, end, *filter(None, [user]), *after, count],
    )
    return [SlotUse(decode_slot(body), jobs, used) for body, jobs, used in rows]


def users_between(
    connection: sqlite3.Connection, resource: str, user: str, start: int, end: int
) -> tuple[SlotUser, ...]:
    """Return the sums of the slots that end in ``[start, end)``, of one user or ("") of all."""
    rows = connection.execute(
        f"select client, count(*), sum(node_seconds), sum({_JOBS}), sum({_USED}) from slot"
        f" where {_WITHIN}{_of(user)} group by client order by client",
        [resource, start, end, *filter(None, [user])],
    )
    return tuple(
        SlotUser(user=name, slots=slots, reserved=reserved, jobs=jobs, used=used)
        for name, slots, reserved, jobs, used in rows
    )


def projects_between(
    connection: sqlite3.Connection, resource: str, user: str, start: int, end: int
) -> tuple[SlotProject, ...]:
    """Return what jobs used in these slots, by the projects of the batch system."""
    rows = connection.execute(
        "select client, project, count(*), sum(slot_job.node_seconds) from slot"
        f" join slot_job on slot_job.slot = name where {_WITHIN}{_of(user)}"
        " group by client, project order by client, 4 desc, project",
        [resource, start, end, *filter(None, [user])],
    )
    return tuple(
        SlotProject(user=name, project=project, jobs=jobs, used=used)
        for name, project, jobs, used in rows
    )


def _of(user: str) -> str:
    return " and client = ?" if user else ""
