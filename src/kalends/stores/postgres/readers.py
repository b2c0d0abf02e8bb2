"""Reads of a store on PostgreSQL: a few connections next to the writer's, on the event loop.

A read is one message, and sees one moment, whatever number of statements it has. Whoever reads waits for a
bounded time, whether connections are taken, the database is slow, frozen or gone. A read goes to a primary:
a standby's answers are of the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor

from kalends.core.errors import Unavailable
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.connection_faults import fault_of
from kalends.stores.postgres.session import (
    BEGIN,
    Row,
    Statement,
    WriterSession,
    asked,
    cut,
    settings_of,
    unreachable,
)

CONNECTIONS: Final = 4
READ_S_MAX: Final = 2.0
RECONNECT_S: Final = 0.1

SLOWLY: Final = MappingProxyType(
    {
        "default_transaction_isolation": "repeatable read",
        "default_transaction_read_only": "on",
        "statement_timeout": "0",
        "jit": "off",
        # All pages are read: what counts is the last one, not the first.
        "cursor_tuple_fraction": "1",
    }
)

SETTINGS: Final = MappingProxyType(
    {
        **SLOWLY,
        "statement_timeout": f"{READ_S_MAX:g}s",
        # Of a table about which nothing has been counted yet, all rows would be read.
        "enable_seqscan": "off",
    }
)


class _Read:
    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = statements
        self.rows: asyncio.Future[list[list[Row]]] = asyncio.get_running_loop().create_future()


class Readers:
    """A pool of readers, each with a connection; made, used and closed on one event loop."""

    def __init__(self, address: Address, connections: int = CONNECTIONS) -> None:
        self._address = address
        self._waiting: asyncio.Queue[_Read] = asyncio.Queue()
        self._failure = "its connections are taken"
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(connections)]

    async def read(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Return the rows of each statement, as of one moment; raises `Unavailable` after `READ_S_MAX`."""
        read = _Read(statements)
        self._waiting.put_nowait(read)
        try:
            async with asyncio.timeout(READ_S_MAX):
                return await read.rows
        except (TimeoutError, psycopg.Error) as error:
            why = self._failure if isinstance(error, TimeoutError) else fault_of(error).detail
            raise Unavailable(
                f"the store cannot be read now: {why}",
                where=self._address.shown,
                remedy="try again in a moment; the server goes on when the database answers",
                retry_after_s=1.0,
            ) from error

    async def close(self) -> None:
        """End all connections; who still waits gets `Unavailable` in time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self) -> None:
        """Keep one connection, made again whenever it broke; a read that met this goes to the next."""
        while True:
            try:
                connection = await AsyncConnection.connect(
                    self._address.conninfo(), autocommit=True, prepare_threshold=0
                )
            except (psycopg.Error, OSError) as error:
                await self._broke(error)
                continue
            try:
                await _ask(connection, settings_of(SETTINGS))
                await self._read_with(connection)
            except psycopg.Error as error:
                await self._broke(error)
            finally:
                cut(connection)
                await connection.close()

    async def _broke(self, error: Exception) -> None:
        self._failure = fault_of(error).detail
        await asyncio.sleep(RECONNECT_S)

    async def _read_with(self, connection: AsyncConnection[Row]) -> None:
        """Serve reads until the connection breaks; raises `psycopg.Error` then."""
        while True:
            read = await self._waiting.get()
            if read.rows.done():
                continue
            try:
                rows = await _ask(connection, read.statements)
            except Exception as error:
                if connection.closed:
                    self._waiting.put_nowait(read)
                    raise
                # The boundary of one read: those behind it are served all the same.
                if not read.rows.done():
                    read.rows.set_exception(error)
            else:
                if not read.rows.done():
                    read.rows.set_result(rows)


async def _ask(
    connection: AsyncConnection[Row], statements: Sequence[Statement]
) -> list[list[Row]]:
    # A frozen server does not answer to a cancellation either.
    cutting = asyncio.get_running_loop().call_later(READ_S_MAX, cut, connection)
    cursors = []
    try:
        async with connection.pipeline(), connection.transaction():
            for statement in statements:
                cursor = AsyncRawCursor(connection)
                await cursor.execute(statement.sql, statement.values, binary=True)
                cursors.append(cursor)
        return [await cursor.fetchall() for cursor in cursors]
    finally:
        cutting.cancel()


class SlowReader:
    """A session that reads for as long as it takes, on one thread at a time: for all that a start needs."""

    def __init__(self, address: Address) -> None:
        """Raises `Unavailable`."""
        self._address = address
        self._session = WriterSession.open(address, SLOWLY)

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Return what `sql` finds; raises `Unavailable`."""
        try:
            return self._session.message([Statement(sql, values)])[0]
        except psycopg.Error as error:
            raise unreachable(self._address, error) from error

    def pages(self, sql: str, size: int) -> Iterator[list[Row]]:
        """Give what `sql` finds as of one moment, `size` rows at a time; raises `Unavailable`.

        The rows are looked for once, however many pages there are. Nothing else is read meanwhile.
        """
        declare = Statement(f"declare page no scroll cursor for {sql}")
        fetch = Statement(f"fetch {size} from page")
        with asked(self._address):
            rows = self._session.message([BEGIN, declare, fetch])[-1]
            while rows:
                yield rows
                rows = self._session.message([fetch])[0]
            self._session.roll_back()

    def close(self) -> None:
        self._session.close()
