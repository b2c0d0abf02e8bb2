"""Every store of a register, opened alike: what is promised of one is promised of all.

A store is added to `STORES` by a function that opens it in a directory with so many replicas.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from tests.support.register_twin import Tables, TwinRegister, TwinRows, with_record

from kalends.broker.register.rows import Rows
from kalends.broker.register.sqlite.broker_store import KIND
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.sqlite.sqlite_rows import SqliteRows
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.writes import Result, Write
from kalends.stores.group_commit import GroupCommit
from kalends.stores.sqlite.sqlite_file import StoreFile, open_store
from kalends.stores.sqlite.transactions import SqliteTransactions


class Replica(Protocol):
    """A replica's door to the register that it shares with others."""

    async def run(self, writes: Sequence[Write]) -> Sequence[Result]:
        """Return the results of `writes`, which are one transaction, once they are durable."""
        ...

    async def tables(self) -> Tables:
        """Return all rows, as plain values."""
        ...

    @property
    def reads(self) -> Any:
        """The reads of `kalends.broker.register.contract.Register`."""
        ...

    async def fill(self, rows: TwinRows) -> None:
        """Store the requests of `rows` as they are, with all that is known of their jobs."""
        ...


Opener = Callable[[Path, int], AbstractAsyncContextManager[Sequence[Replica]]]


@asynccontextmanager
async def twin(directory: Path, replicas: int) -> AsyncIterator[Sequence[Replica]]:
    rows = TwinRows()
    yield [TwinRegister(rows) for _ in range(replicas)]


class _SqliteReplica:
    def __init__(self, file: StoreFile) -> None:
        self._reader = file.reader()
        self.reads = RegisterReads(self._reader, file.reader())
        self._connection = connection = file.connection
        self.writer: GroupCommit[Write, Result] = GroupCommit(
            SqliteTransactions(connection, carry_out)
        )

    async def run(self, writes: Sequence[Write]) -> Sequence[Result]:
        return await self.writer.run(writes)

    async def fill(self, rows: TwinRows) -> None:
        with_requests(SqliteRows(self._connection), rows)

    async def close(self) -> None:
        await self.writer.close()
        await self.reads.close_readers()

    async def tables(self) -> Tables:
        found = {table: self._reader.execute(query).fetchall() for table, query in _ALL.items()}
        found["request"] = [
            with_record(StoredRequest(*columns)._replace(done=bool(columns[7])))
            for columns in found["request"]
        ]
        found["script_name"] = [with_functions(columns) for columns in found["script_name"]]
        meta = dict(found["meta"])
        found["meta"] = [(meta.get("clock"), bool(meta.get("recovering")))]
        return found


def with_requests(into: Rows, rows: TwinRows) -> None:
    """Put the requests of `rows` `into` others."""
    for rid, request in rows.requests.items():
        into.requests[rid] = request
        if rid in rows.starts:
            into.starts[rid] = rows.starts[rid]
        if rid in rows.endings:
            into.endings[rid] = rows.endings[rid]


def with_functions(columns: Sequence[Any]) -> tuple[Any, ...]:
    """A name of a script with its functions one by one."""
    *head, functions, uploaded_ms, deleted = columns
    return (*head, tuple(functions.split()), uploaded_ms, bool(deleted))


_ALL: Final = {
    "request": "select rid, client, key, reservation, att, state, owner, done, cast(body as blob), begins"
    " from request order by rid",
    "start": "select * from start order by rid",
    "ending": "select * from ending order by rid",
    "script": "select * from script order by hash",
    "script_name": "select * from script_name order by client, name",
    "script_use": "select * from script_use order by rid, hash",
    "notice": "select * from notice order by number",
    "letter": "select id, body from letter order by number",
    "feed": "select * from feed order by client, name",
    "share": "select * from share order by reservation, party",
    "notice_address": "select * from notice_address order by client, receiver",
    "replica": "select * from replica order by owner",
    "life": "select * from life order by life",
    "site": "select * from site order by name",
    "listed_site": "select * from listed_site order by name, key",
    "meta": "select name, value from meta",
}


@asynccontextmanager
async def sqlite(directory: Path, replicas: int) -> AsyncIterator[Sequence[Replica]]:
    path = directory / "register.sqlite"
    async with contextlib.AsyncExitStack() as stack:
        opened: list[Any] = []
        for _ in range(replicas):
            file = open_store(path, KIND, "npaci", sync="off")
            stack.callback(file.close)
            replica = _SqliteReplica(file)
            stack.push_async_callback(replica.close)
            opened.append(replica)
        yield opened


@asynccontextmanager
async def postgres(directory: Path, replicas: int) -> AsyncIterator[Sequence[Replica]]:
    from tests.support.postgres_registers import (
        opened,
    )  # With the driver, which no other store needs.

    async with opened(replicas) as found:
        yield found


STORES: Final[Mapping[str, Opener]] = {"twin": twin, "sqlite": sqlite, "postgres": postgres}

ON_POSTGRES: Final = (pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres"))


def stores(*but: str) -> list[Any]:
    """The names of all stores but these, as parameters of tests."""
    return [
        pytest.param(name, marks=ON_POSTGRES if name == "postgres" else ())
        for name in STORES
        if name not in but
    ]
