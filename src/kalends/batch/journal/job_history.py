"""Jobs that are over, read from a site's store by a reader of its own, off the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from kalends.batch.journal import job_journal
from kalends.batch.journal.job_journal import Cursor, JobOver, ReservedTime, ReservedUse, UserUse
from kalends.contract.history_calls import PastBy
from kalends.core.errors import Unavailable

T = TypeVar("T")


class StoreReader:
    """One question at a time; each is answered from what is durable, once all that was stored before is."""

    def __init__(self, path: Path, settled: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._settled = settled
        self._one = asyncio.Lock()

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        async with self._one:
            await self._settled()
            return await asyncio.to_thread(self._read_now, function)

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


class StoredHistory(StoreReader):
    """A job that is in its queue no more is found here, from that moment on."""

    async def one(self, machine: str, number: int) -> JobOver | None:
        return await self.read(lambda reader: job_journal.over_one(reader, machine, number))

    async def newest(self, machine: str, user: str, before: int, count: int) -> Sequence[JobOver]:
        return await self.read(
            lambda reader: job_journal.over_newest(reader, machine, user, before, count)
        )

    async def between(
        self,
        machine: str,
        user: str,
        by: PastBy,
        start: int,
        end: int,
        after: Cursor,
        count: int,
    ) -> Sequence[JobOver]:
        return await self.read(
            lambda reader: job_journal.over_between(
                reader, machine, user, by, start, end, after, count
            )
        )

    async def use(self, machine: str, user: str, start: int, end: int) -> Sequence[UserUse]:
        return await self.read(
            lambda reader: job_journal.use_between(reader, machine, user, start, end)
        )

    async def reserved_within(
        self, machine: str, user: str, start: int, end: int, count: int
    ) -> Sequence[ReservedTime]:
        return await self.read(
            lambda reader: job_journal.reserved_after(
                reader, machine, start, before_s=end, user=user, count=count
            )
        )

    async def reserved(
        self, machine: str, user: str, start: int, end: int
    ) -> Sequence[ReservedUse]:
        return await self.read(
            lambda reader: job_journal.reserved_between(reader, machine, user, start, end)
        )
