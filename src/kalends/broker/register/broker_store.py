"""A broker's store: the register in its file, written by group commit, read on connections of their own.

Replicas of one broker on one host share the file. What is read here is durable: readers of SQLite see
a transaction only after it was synced.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from kalends.broker.coordination.record.decision_record import (
    COMMITTED,
    Operation,
    Registered,
    Remember,
    Unreadable,
)
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register import (
    lives,
    notice_table,
    request_reads,
    request_writes,
    script_table,
)
from kalends.broker.register.notice_table import (
    ForgetAddress,
    KeepAddress,
    MakeDeliveries,
    PostNotice,
)
from kalends.broker.register.script_table import Named
from kalends.core.errors import Problem, Unavailable
from kalends.notices import delivery_table
from kalends.notices.delivery_table import DeliveriesDone
from kalends.stores.sqlite.group_commit import Committed, GroupCommit
from kalends.stores.sqlite.sqlite_file import StoreFile, StoreKind, open_store

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
"""

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

SCHEMA: Final = (
    REQUESTS
    + script_table.SCHEMA
    + STARTS
    + ENDINGS
    + LIVES
    + delivery_table.DELIVERIES
    + notice_table.NOTICES
)

P = ParamSpec("P")
T = TypeVar("T")


class LeaseRenewal(NamedTuple):
    """Show that `owner` lives; no logical time above `clock` is given out before the next one."""

    owner: str
    clock: int


class Retire(NamedTuple):
    """The earlier starts of replica `name` are gone; `owner` is the present one."""

    name: str
    owner: str


class Resign(NamedTuple):
    """`owner` stops."""

    owner: str


class KeepScript(NamedTuple):
    """As `script_table.keep`; the result has the name as it stands now, or nothing."""

    client: str
    named: Named
    source: str
    names_max: int


class ForgetScript(NamedTuple):
    """As `script_table.forget`; the result has the names that are deleted now."""

    client: str
    reference: str


class PutBack(NamedTuple):
    """Do as `lives.put_back`."""


class MadeGood(NamedTuple):
    """Do as `lives.made_good`."""

    known: tuple[Live, ...]
    problem: Problem


class ForgetSettled(NamedTuple):
    """Do as `request_writes.forget`."""

    rids: tuple[str, ...]


NoticeWrite = KeepAddress | ForgetAddress | PostNotice | MakeDeliveries | DeliveriesDone

Write = (
    Operation
    | Remember
    | LeaseRenewal
    | Retire
    | Resign
    | Live
    | PutBack
    | MadeGood
    | KeepScript
    | ForgetScript
    | ForgetSettled
    | NoticeWrite
)
Result = Registered | tuple[Named, ...] | int | None


def carry_out(connection: sqlite3.Connection, writes: Sequence[Write]) -> list[Result]:
    """Do `writes` in order within the open transaction; leases have no result."""
    results: list[Result] = []
    for write in writes:
        if isinstance(write, LeaseRenewal):
            lives.beat(connection, *write)
            results.append(None)
        elif isinstance(write, Remember):
            lives.remember(connection, write)
            results.append(None)
        elif isinstance(write, Retire):
            lives.retire(connection, *write)
            results.append(None)
        elif isinstance(write, Resign):
            lives.resign(connection, write.owner)
            results.append(None)
        elif isinstance(write, Live):
            lives.live(connection, write)
            results.append(None)
        elif isinstance(write, PutBack):
            lives.put_back(connection)
            results.append(None)
        elif isinstance(write, MadeGood):
            results.append(lives.made_good(connection, *write))
        elif isinstance(write, ForgetSettled):
            results.append(request_writes.forget(connection, write.rids))
        elif isinstance(write, KeepScript):
            kept = script_table.keep(connection, *write)
            results.append((kept,) if kept is not None else ())
        elif isinstance(write, ForgetScript):
            results.append(tuple(script_table.forget(connection, *write)))
        elif isinstance(write, NoticeWrite):
            results.append(_carry_out_notice(connection, write))
        else:
            results.extend(request_writes.apply(connection, (write,)))
    return results


def _carry_out_notice(connection: sqlite3.Connection, write: NoticeWrite) -> int | None:
    match write:
        case KeepAddress():
            return notice_table.keep_address(connection, write)
        case ForgetAddress():
            return notice_table.forget_address(connection, write)
        case MakeDeliveries():
            return notice_table.make_deliveries(connection, write)
        case PostNotice():
            notice_table.post_notice(connection, write.notice)
        case DeliveriesDone():
            delivery_table.remove_deliveries(connection, write)
    return None


class BrokerStore:
    """The open store. Made and used on one event loop; `epoch` counts its openings by all replicas."""

    def __init__(self, file: StoreFile, observe: Callable[[Committed], None]) -> None:
        self._file = file
        self._reader = file.reader()
        self._slow_reader = file.reader()
        self._slowly = asyncio.Lock()
        self.writer: GroupCommit[Write, Result] = GroupCommit(
            file.connection, carry_out, observe=observe
        )
        self.epoch = file.epoch
        self.secret = self.read(lives.secret)
        self.register = self.read(lives.identity)
        """The register's identity; the same for all replicas, for ever."""

    @classmethod
    async def open(cls, path: Path, name: str, observe: Callable[[Committed], None]) -> BrokerStore:
        """Open or make the store of broker `name`; raises as `sqlite_file.open_store`."""
        return cls(await asyncio.to_thread(open_store, path, KIND, name), observe)

    def read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **keywords: P.kwargs,
    ) -> T:
        """Return the result of a short reading `function` of `register`; raises `Unavailable`."""
        try:
            return function(self._reader, *args, **keywords)
        except sqlite3.Error as error:
            raise unreadable(error) from error

    async def read_slowly(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """As `read`, on a thread and one at a time: for what may read thousands of rows."""
        async with self._slowly:
            try:
                return await asyncio.to_thread(function, self._slow_reader)
            except sqlite3.Error as error:
                raise unreadable(error) from error

    async def close(self) -> None:
        """Write everything that was submitted, and close the file."""
        await self.writer.close()
        async with self._slowly:
            self._reader.close()
            self._slow_reader.close()
            await asyncio.to_thread(self._file.close)


def unreadable(error: sqlite3.Error) -> Unavailable:
    return Unavailable(
        f"the broker's store cannot be read now: {error}",
        where="store",
        remedy="try again in a moment; the operator of the broker sees why in its log",
        retry_after_s=1.0,
    )


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
    version=1,
    schema=SCHEMA,
    shared=True,
    problems_of=problems_of,
)
