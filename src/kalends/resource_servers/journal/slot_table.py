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

import contextlib
import sqlite3
from typing import Final, NamedTuple

import msgspec

from kalends.contract.history_calls import SlotProject, SlotUser
from kalends.resource_servers.participation.provision.slots import (
    JobsRead,
    KnownSlots,
    ReservedSlot,
    SlotDropped,
    SlotsClosed,
    SlotStored,
    decode_slot,
)

SLOTS: Final = """
create table slot (
    name         text primary key,
    system       text not null,
    resource     text not null,
    user         text not null,
    end          integer not null,
    node_seconds integer not null,
    open         integer not null,
    body         blob not null
) without rowid;
create index slot_end on slot (resource, end, name);
create index slot_open on slot (system, end) where open = 1;
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


class SlotCursor(NamedTuple):
    """Behind which slot a page begins: its end and its name."""

    end: int = 0
    name: str = ""


class SlotUse(NamedTuple):
    """A slot, and what jobs used of it."""

    slot: ReservedSlot
    jobs: int
    used: int


def store_fact(connection: sqlite3.Connection, fact: SlotFact) -> None:
    """Store a fact in the caller's transaction; storing it again changes nothing."""
    if isinstance(fact, SlotStored):
        connection.execute(
            "insert or replace into slot values (?, ?, ?, ?, ?, ?, 1, ?)",
            msgspec.structs.astuple(fact),
        )
    elif isinstance(fact, SlotDropped):
        connection.execute("delete from slot where name = ?", (fact.name,))
    elif isinstance(fact, SlotsClosed):
        connection.execute(
            "update slot set open = 0 where open = 1 and system = ? and end <= ?",
            (fact.system, fact.before),
        )
    else:
        connection.executemany(
            "insert or replace into slot_job values (?, ?, ?, ?, ?, ?)",
            [
                (fact.system, job.id, job.start, slot, job.project, job.node_seconds)
                for slot, job in ((each.slot, each.job) for each in fact.jobs)
            ],
        )
        connection.execute(
            "insert or replace into slot_read values (?, ?)", (fact.system, fact.until)
        )


def known_slots(connection: sqlite3.Connection) -> KnownSlots:
    """Return what a site begins with; a slot that cannot be read gets no more jobs."""
    slots = []
    for (body,) in connection.execute("select cast(body as blob) from slot where open = 1"):
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            slots.append(decode_slot(body))
    read = dict(connection.execute("select system, until from slot_read").fetchall())
    return KnownSlots(tuple(slots), read)


_WITHIN: Final = "slot.resource = ? and slot.end >= ? and slot.end < ?"
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
        f" where {_WITHIN}{_of(user)} and (end, name) > (?, ?) order by end, name limit ?",
        [resource, start, end, *filter(None, [user]), *after, count],
    )
    return [SlotUse(decode_slot(body), jobs, used) for body, jobs, used in rows]


def users_between(
    connection: sqlite3.Connection, resource: str, user: str, start: int, end: int
) -> tuple[SlotUser, ...]:
    """Return the sums of the slots that end in ``[start, end)``, of one user or ("") of all."""
    rows = connection.execute(
        f"select user, count(*), sum(node_seconds), sum({_JOBS}), sum({_USED}) from slot"
        f" where {_WITHIN}{_of(user)} group by user order by user",
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
        "select user, project, count(*), sum(slot_job.node_seconds) from slot"
        f" join slot_job on slot_job.slot = name where {_WITHIN}{_of(user)}"
        " group by user, project order by user, 4 desc, project",
        [resource, start, end, *filter(None, [user])],
    )
    return tuple(
        SlotProject(user=name, project=project, jobs=jobs, used=used)
        for name, project, jobs, used in rows
    )


def _of(user: str) -> str:
    return " and user = ?" if user else ""
