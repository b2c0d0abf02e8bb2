"""Registers on the PostgreSQL of this process, each in a schema of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
import postgres_clusters
import psycopg
from tests.support.register_twin import Tables, TwinRows, with_record
from tests.support.registers import with_functions, with_requests

from kalends.broker.register.contract import WholeReservation
from kalends.broker.register.postgres.locked_rows import LockedRows, SiteRow, standing_mark
from kalends.broker.register.postgres.old_requests import put_aside
from kalends.broker.register.postgres.register_batches import RegisterBatches
from kalends.broker.register.postgres.register_reads import RegisterReads
from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.broker.register.postgres.row_writes import changes
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.writes import Result, Write
from kalends.stores.group_commit import GroupCommit
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.batches import Batches
from kalends.stores.postgres.fence import OwnerMark
from kalends.stores.postgres.migrations import open_store
from kalends.stores.postgres.readers import Readers
from kalends.stores.postgres.session import BEGIN, COMMIT, SESSION, WriterSession

_numbers: Final = itertools.count(1)

UNSYNCED: Final = {**SESSION, "synchronous_commit": "off"}
"""Nothing is lost when no server is killed."""


async def confirmed() -> None:
    """Nobody cancels a wait: what is read is at a standby, or there is none."""


class PostgresReplica:
    """One of the replicas that share the register at `address`."""

    def __init__(self, address: Address, name: str, plain: psycopg.Connection[Any]) -> None:
        self.session = WriterSession.open(address, UNSYNCED)
        self.part = RegisterBatches(name)
        self.batches: Batches[Write, Result] = Batches(self.session, f"{name}:1", self.part, dict)
        self.batches.enrol(OwnerMark())
        self.writer = GroupCommit(self.batches)
        self.reads = RegisterReads(Readers(address), confirmed)
        self.address = address
        self._plain = plain

    async def run(self, writes: Sequence[Write]) -> Sequence[Result]:
        return await self.writer.run(writes)

    async def tables(self) -> Tables:
        found: Tables = {}
        for table, query in _ALL.items():
            found[table] = self._plain.execute(query.encode(), binary=True).fetchall()
        found["request"] = [with_record(StoredRequest(*columns)) for columns in found["request"]]
        found["script_name"] = [with_functions(columns) for columns in found["script_name"]]
        sites = map(SiteRow._make, found["site"])
        marks = {
            name: standing_mark(rows)
            for name, rows in itertools.groupby(sites, lambda row: row.name)
        }
        found["site"] = [
            (name, *msgspec.structs.astuple(mark)) for name, mark in marks.items() if mark
        ]
        return found

    async def fill(self, rows: TwinRows) -> None:
        locked = LockedRows()
        with_requests(locked, rows)
        self.session.message([BEGIN, *changes(locked, (), "test-0"), COMMIT])

    async def put_aside(self, reservations: Sequence[str]) -> int:
        """Put these aside, as the archive would."""
        found = [await self.reads.reservation(each) for each in reservations]
        settled = [each for each in found if each is not None]
        return await self.put_aside_read(settled)

    async def put_aside_read(self, settled: Sequence[WholeReservation]) -> int:
        session = WriterSession.open(self.address, UNSYNCED)
        return await asyncio.to_thread(put_aside, session, self.address, settled)

    async def close(self) -> None:
        await self.writer.close()
        await self.reads.close_readers()
        self.session.close()


_ALL: Final = {
    "request": "select rid, client, key, reservation, att, state, owner, done, body, begins"
    " from any_request order by rid",
    "start": "select rid, start_site, start_places, start_again from any_request"
    " where start_site is not null order by rid",
    "ending": "select rid, ended_at, ended from any_request where ended_at is not null order by rid",
    "script": "select hash, convert_from(source, 'UTF8') from script order by hash",
    "script_name": "select * from script_name order by client, name",
    "script_use": 'select rid, used collate "C" from any_request, unnest(uses) as used order by 1, 2',
    "notice": "select * from notice order by number",
    "letter": "select id, body from letter order by number",
    "feed": "select * from feed order by client, name",
    "share": "select * from share order by reservation, party",
    "notice_address": "select * from notice_address order by client, receiver",
    "replica": "select * from lease order by owner",
    "listed_site": "select * from listed_site order by name, key",
    "life": "select * from life order by life",
    "site": "select * from site order by name",
    "meta": "select (select max(bound) from clock), (select put_back from register)",
}


@asynccontextmanager
async def opened(replicas: int) -> AsyncIterator[Sequence[PostgresReplica]]:
    """Replicas of one register, which is gone afterwards."""
    cluster, schema = postgres_clusters.shared(), f"register_{next(_numbers)}"
    with cluster.connect(schema=schema) as plain:
        plain.execute("set synchronous_commit = off")
        plain.execute(f"create schema {schema}".encode())
        address = cluster.address(schema=schema)
        await asyncio.to_thread(open_store, address, REGISTER, "npaci")
        async with AsyncExitStack() as stack:
            made = [PostgresReplica(address, f"test-{number}", plain) for number in range(replicas)]
            for each in made:
                stack.push_async_callback(each.close)
            yield made
        plain.execute(f"drop schema {schema} cascade".encode())
