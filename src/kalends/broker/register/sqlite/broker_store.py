"""A broker's store: the register in its file, written by group commit, read on connections of their own.

Replicas of one broker on one host share the file. What is read here is durable: readers of SQLite see
a transaction only after it was synced.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kalends.broker.coordination.record.decision_record import (
    COMMITTED,
    Record,
    Unreadable,
)
from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.sqlite import (
    feed_table,
    notice_table,
    request_reads,
    script_table,
    share_table,
)
from kalends.broker.register.sqlite.archive_file import append
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.writes import (
    ForgetSettled,
    Result,
    Write,
)
from kalends.notices import delivery_table
from kalends.stores.group_commit import Committed, GroupCommit
from kalends.stores.moves.tables import META
from kalends.stores.sqlite.file_end import FileKind
from kalends.stores.sqlite.sqlite_file import StoreFile, StoreKind, open_store
from kalends.stores.sqlite.transactions import SqliteTransactions

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
    begins      integer not null default 0,
    unique (client, key)
) without rowid;
create index request_pending on request (owner) where done = 0;
create index request_change on request (reservation) where reservation != rid;
create index request_client on request (client, rid);
"""

BEGINS: Final = """
create index request_begins on request (client, begins) where state = 'commit' and begins > 0;
"""
"""By when they begin, the committed requests of a user: those that are over are put aside some day."""

STARTS: Final = """
create table start (
    rid    text primary key,
    site   text not null,
    places text not null,
    again  integer not null default 0
) without rowid;
create index start_open on start (rid) where site = '';
create index start_again on start (rid) where again = 1;
"""
"""The sites of jobs that start at most once; "" if a job may still start at any site of `places`. `again` is
1 for a job that may be running at its site, and starts again elsewhere if that site is lost."""

ENDINGS: Final = """
create table ending (rid text primary key, at integer not null, body blob not null) without rowid;
create index ending_at on ending (at);
"""
"""The ends of placed jobs: their times, and how they ended."""

LIVES: Final = """
create table meta (name text primary key, value not null) without rowid;
insert into meta values ('register', lower(hex(randomblob(16))));
insert into meta values ('secret', lower(hex(randomblob(32))));
create table replica (owner text primary key, beats integer not null) without rowid;
create table site (
    name     text primary key,
    life     text not null,
    position integer not null,
    proof    text not null
) without rowid;
create table life (life text primary key, position integer not null) without rowid;
"""

LISTED_SITES: Final = """
create table listed_site (
    name     text not null,
    key      text not null,
    url      text not null,
    ca       text not null,
    passes   integer not null,
    made_at  integer not null,
    state    text not null,
    since    integer not null,
    named_by text not null,
    until    integer not null,
    primary key (name, key)
) without rowid;
"""

SCHEMA: Final = (
    REQUESTS
    + BEGINS
    + script_table.SCHEMA
    + STARTS
    + ENDINGS
    + LIVES
    + delivery_table.DELIVERIES
    + notice_table.NOTICES
    + notice_table.REMINDERS
    + LISTED_SITES
    + feed_table.FEEDS
    + share_table.SHARES
)


class BrokerStore(RegisterReads):
    """The open store. Made and used on one event loop; `epoch` counts its openings by all replicas."""

    promoted = False
    """An older copy of a file is told by the count of openings next to it."""

    def __init__(self, file: StoreFile, observe: Callable[[Committed], None]) -> None:
        super().__init__(file.reader(), file.reader())
        self._file = file
        self._archive = file.path.with_suffix(".archive")
        self._closes = False
        self.writer: GroupCommit[Write, Result] = GroupCommit(
            SqliteTransactions(file.connection, carry_out), observe=observe
        )
        self.epoch = file.epoch

    @classmethod
    async def open(cls, path: Path, name: str, observe: Callable[[Committed], None]) -> BrokerStore:
        """Open or make the store of broker `name`; raises as `sqlite_file.open_store`."""
        return cls(await asyncio.to_thread(open_store, path, KIND, name), observe)

    async def put_aside(self, settled: Sequence[WholeReservation]) -> int:
        """Move them to the archive next to the file."""
        records = [row for each in settled for row in each.rows if isinstance(row, Record)]
        await asyncio.to_thread(append, self._archive, records)
        if self._closes:
            return 0  # What was written is there twice.
        await self.writer.run((ForgetSettled(tuple(each.rid for each in records)),))
        return len(records)

    async def believe(self) -> None:
        """Nothing is to be stored."""

    async def close(self) -> None:
        """Write everything that was submitted, and close the file."""
        self._closes = True
        await self.writer.close()
        await self.close_readers()
        await asyncio.to_thread(self._file.close)


PROBLEMS_MAX: Final = 100


def problems_of(connection: sqlite3.Connection) -> list[str]:
    """Return faults of the register's rows, at most `PROBLEMS_MAX` lines; empty if there are none."""
    problems: list[str] = []
    for row in request_reads.every(connection):
        if isinstance(row, Unreadable):
            problems.append(f"{row.rid}: {row.reason}")
        elif row.state in COMMITTED and not row.chosen:
            problems.append(f"{row.rid}: {row.state}, but nothing was chosen")
        if len(problems) == PROBLEMS_MAX:
            break
    return problems


KIND: Final = StoreKind(
    name="broker",
    application_id=0x6B6C7362,  # "klsb"
    version=5,
    schema=SCHEMA,
    upgrades={
        1: LISTED_SITES,
        2: feed_table.FEEDS,
        3: share_table.SHARES,
        4: "alter table request add column begins integer not null default 0;"
        + BEGINS
        + notice_table.REMINDERS,
    },
    shared=True,
    problems_of=problems_of,
)

MOVED: Final = FileKind(KIND, {"meta": META})
