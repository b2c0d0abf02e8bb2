"""Jobs that are over, read from a site's store by a reader of its own, off the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from kalends.batch.journal.contract import Cursor, JobOver, ReservedTime, ReservedUse, UserUse
from kalends.batch.journal.sqlite.job_tables import RESERVED
from kalends.batch.journal.stored_entries import reserved_time
from kalends.contract.history_calls import PastBy
from kalends.core.errors import Unavailable
from kalends.core.limits import TIME_S_MAX

T = TypeVar("T")

EVERY: Final = 1 << 62
"""A higher number than there is."""

_WITHIN: Final = {
    "over": ("over", "over >= ? and over < ?"),
    "submitted": ("submitted", "submitted >= ? and submitted < ?"),
    "ran": ("over", "over > ? and started > 0 and started < ?"),
}
"""The column that orders the jobs, and the condition with both ends of the time."""


class SqliteJobHistory:
    """See `JobHistory`; one question at a time, each once `settled` says that all before it is stored."""

    def __init__(self, path: Path, settled: Callable[[], Awaitable[None]]) -> None:
        self._path = path
        self._settled = settled
        self._one = asyncio.Lock()

    async def job(self, machine: str, number: int) -> JobOver | None:
        sql = "select cast(body as blob) from job where machine = ? and number = ?"
        found = await self._read(sql, (machine, number), _over)
        return found[0] if found else None

    async def newest(self, machine: str, user: str, before: int, count: int) -> Sequence[JobOver]:
        return await self._read(
            f"select cast(body as blob) from job where machine = ?{of(user)} and number < ?"
            " order by number desc limit ?",
            [machine, *filter(None, [user]), before or EVERY, count],
            _over,
        )

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
        column, within = _WITHIN[by]
        return await self._read(
            f"select cast(body as blob) from job where machine = ? and {within}{of(user)}"
            f" and ({column}, number) > (?, ?) order by {column}, number limit ?",
            [machine, start, end, *filter(None, [user]), *after, count],
            _over,
        )

    async def use(self, machine: str, user: str, start: int, end: int) -> Sequence[UserUse]:
        return await self._read(
            "select client, project, count(*), sum(node_seconds), sum(cpu_s),"
            " sum(credit_seconds) from job"
            f" where machine = ? and over >= ? and over < ?{of(user)}"
            " group by client, project order by 4 desc, client, project",
            [machine, start, end, *filter(None, [user])],
            UserUse._make,
        )

    async def reserved_use(
        self, machine: str, user: str, start: int, end: int
    ) -> Sequence[ReservedUse]:
        return await self._read(
            "select client, count(*), sum(nodes * (ends_at - start)), sum(credit_seconds)"
            " from reserved where machine = ? and ends_at >= ? and ends_at < ? and ends_at > start"
            f"{of(user)} group by client order by client",
            [machine, start, end, *filter(None, [user])],
            ReservedUse._make,
        )

    async def reserved(
        self, machine: str, user: str, start: int, count: int, *, end: int = TIME_S_MAX
    ) -> Sequence[ReservedTime]:
        return await self._read(
            f"select {RESERVED} from reserved where machine = ? and ends_at > ? and start < ?"
            f" and ends_at > start{of(user)} order by ends_at, reservation, booked_start limit ?",
            [machine, start, end, *filter(None, [user]), count],
            reserved_time,
        )

    async def _read(self, sql: str, asked: Sequence[object], of_row: Callable[[Any], T]) -> list[T]:
        """Return what `of_row` makes of each row, by a reader of its own."""
        async with self._one:
            await self._settled()
            return await asyncio.to_thread(self._read_now, sql, asked, of_row)

    def _read_now(self, sql: str, asked: Sequence[object], of_row: Callable[[Any], T]) -> list[T]:
        try:
            reader = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
            try:
                return list(map(of_row, reader.execute(sql, tuple(asked))))
            finally:
                reader.close()
        except sqlite3.Error as error:
            raise Unavailable(
                f"the site's store cannot be read now: {error}",
                where="store",
                remedy="try again in a moment",
                retry_after_s=1.0,
            ) from error


def of(user: str) -> str:
    """Return the condition that rows are of `user`, or ("") of all users."""
    return " and client = ?" if user else ""


def _over(row: tuple[bytes]) -> JobOver:
    return msgspec.msgpack.decode(row[0], type=JobOver)
