"""Jobs that are over, read from a site's store by a reader of its own, off the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from kalends.batch.journal.contract import Cursor, JobOver, ReservedTime, ReservedUse, UserUse
from kalends.batch.journal.sqlite import job_tables
from kalends.contract.history_calls import PastBy
from kalends.core.errors import Unavailable
from kalends.core.limits import TIME_S_MAX

P = ParamSpec("P")
T = TypeVar("T")


class SqliteJobHistory:
    """See `JobHistory`; one question at a time, each once `settled` says that all before it is stored."""

    def __init__(self, path: Path, settled: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._settled = settled
        self._one = asyncio.Lock()

    async def job(self, machine: str, number: int) -> JobOver | None:
        return await self._read(job_tables.over_one, machine, number)

    async def newest(self, machine: str, user: str, before: int, count: int) -> Sequence[JobOver]:
        return await self._read(job_tables.over_newest, machine, user, before, count)

    async def jobs(
        self,
        machine: str,
        user: str,
        by: PastBy,
        start: int,
        end: int,
        after: Cursor,
        count: int,
    ) -> Sequence[JobOver]:
        return await self._read(
            job_tables.over_between, machine, user, by, start, end, after, count
        )

    async def use(self, machine: str, user: str, start: int, end: int) -> Sequence[UserUse]:
        return await self._read(job_tables.use_between, machine, user, start, end)

    async def reserved_use(
        self, machine: str, user: str, start: int, end: int
    ) -> Sequence[ReservedUse]:
        return await self._read(job_tables.reserved_between, machine, user, start, end)

    async def reserved(
        self, machine: str, user: str, start: int, count: int, *, end: int = TIME_S_MAX
    ) -> Sequence[ReservedTime]:
        return await self._read(job_tables.reserved_after, machine, user, start, count, end=end)

    async def _read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *asked: P.args,
        **named: P.kwargs,
    ) -> T:
        """Return the result of `function`, which gets a reader and the arguments."""
        async with self._one:
            await self._settled()
            return await asyncio.to_thread(
                self._read_now, lambda reader: function(reader, *asked, **named)
            )

    def _read_now(self, function: Callable[[sqlite3.Connection], T]) -> T:
        try:
            reader = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
            try:
                return function(reader)
            finally:
                reader.close()
        except sqlite3.Error as error:
            raise Unavailable(
                f"the site's store cannot be read now: {error}",
                where="store",
                remedy="try again in a moment",
                retry_after_s=1.0,
            ) from error
