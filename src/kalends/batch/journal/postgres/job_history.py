"""Jobs that are over, read from a site's store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kalends.batch.journal.contract import Cursor, JobOver, ReservedTime, ReservedUse, UserUse
from kalends.batch.journal.postgres.job_tables import RESERVED_AFTER
from kalends.batch.journal.stored_entries import reserved_time
from kalends.contract.history_calls import PastBy
from kalends.core.limits import TIME_S_MAX
from kalends.stores.postgres.readers import Readers
from kalends.stores.postgres.session import Row, Statement

EVERY: Final = 1 << 62
"""A higher number than there is."""

_WITHIN: Final = {
    "over": ("over", "over >= $3::bigint and over < $4::bigint"),
    "submitted": ("submitted", "submitted >= $3::bigint and submitted < $4::bigint"),
    "ran": ("over", "over > $3::bigint and started > 0 and started < $4::bigint"),
}
"""The column that orders the jobs, and the condition with both ends of the time."""


@dataclass(frozen=True, eq=False)
class PostgresJobHistory:
    """See `JobHistory`; each question is asked once `settled` says that all before it is stored."""

    readers: Callable[[], Readers]
    settled: Callable[[], Awaitable[None]]

    async def job(self, machine: str, number: int) -> JobOver | None:
        rows = await self._read(
            "select body from job where machine = $1 and number = $2::bigint", machine, number
        )
        return _jobs(rows)[0] if rows else None

    async def newest(self, machine: str, user: str, before: int, count: int) -> Sequence[JobOver]:
        rows = await self._read(
            f"select body from job where machine = $1 and {of(user)}"
            " and number < $3::bigint order by number desc limit $4::bigint",
            machine,
            user,
            before or EVERY,
            count,
        )
        return _jobs(rows)

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
        rows = await self._read(
            f"select body from job where machine = $1 and {of(user)} and {within}"
            f" and ({column}, number) > ($5::bigint, $6::bigint)"
            f" order by {column}, number limit $7::bigint",
            machine,
            user,
            start,
            end,
            *after,
            count,
        )
        return _jobs(rows)

    async def use(self, machine: str, user: str, start: int, end: int) -> Sequence[UserUse]:
        rows = await self._read(
            "select client, project, count(*), sum(node_seconds)::bigint, sum(cpu_s),"
            " sum(credit_seconds)::bigint from job"
            f" where machine = $1 and {of(user)} and over >= $3::bigint and over < $4::bigint"
            " group by client, project order by 4 desc, client, project",
            machine,
            user,
            start,
            end,
        )
        return [UserUse(*row) for row in rows]

    async def reserved_use(
        self, machine: str, user: str, start: int, end: int
    ) -> Sequence[ReservedUse]:
        rows = await self._read(
            "select client, count(*), sum(nodes * (ends_at - start))::bigint, sum(credit_seconds)::bigint"
            f" from reserved where machine = $1 and {of(user)} and ends_at >= $3::bigint"
            " and ends_at < $4::bigint and ends_at > start group by client order by client",
            machine,
            user,
            start,
            end,
        )
        return [ReservedUse(*row) for row in rows]

    async def reserved(
        self, machine: str, user: str, start: int, count: int, *, end: int = TIME_S_MAX
    ) -> Sequence[ReservedTime]:
        rows = await self._read(RESERVED_AFTER, machine, start, end, user, count)
        return [reserved_time(row) for row in rows]

    async def _read(self, sql: str, *asked: object) -> list[Row]:
        await self.settled()
        (rows,) = await self.readers().read([Statement(sql, asked)])
        return rows


def of(user: str) -> str:
    """Return the condition that rows are of `user`, or ("") of all users; $2 is the user."""
    return "client = $2" if user else "$2::text = ''"


def _jobs(rows: Sequence[Row]) -> list[JobOver]:
    return [msgspec.msgpack.decode(body, type=JobOver) for (body,) in rows]
