"""Reader of a site's past in its store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kalends.batch.journal.postgres.job_history import PostgresJobHistory, of
from kalends.contract.history_calls import SlotProject, SlotUser
from kalends.resource_servers.journal.contract import SlotCursor, SlotUse
from kalends.resource_servers.participation.provision.slots import decode_slot

_WITHIN: Final = "slot.resource = $1 and slot.ends_at >= $3::bigint and slot.ends_at < $4::bigint"
"""Slots belong to the time in which they end."""

_JOBS: Final = "(select count(*) from slot_job where slot_job.slot = slot.name)"
_USED: Final = (
    "(select coalesce(sum(slot_job.node_seconds), 0)::bigint from slot_job"
    " where slot_job.slot = slot.name)"
)


class PostgresSiteHistory(PostgresJobHistory):
    """See `SiteHistory`."""

    async def slots(
        self, resource: str, user: str, start: int, end: int, after: SlotCursor, count: int
    ) -> Sequence[SlotUse]:
        rows = await self._read(
            f"select body, {_JOBS}, {_USED} from slot where {_WITHIN} and {of(user)}"
            " and (ends_at, name) > ($5::bigint, $6::text) order by ends_at, name limit $7::bigint",
            resource,
            user,
            start,
            end,
            *after,
            count,
        )
        return [SlotUse(decode_slot(body), jobs, used) for body, jobs, used in rows]

    async def slot_users(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotUser, ...]:
        rows = await self._read(
            f"select client, count(*), sum(node_seconds)::bigint, sum({_JOBS})::bigint,"
            f" sum({_USED})::bigint from slot where {_WITHIN} and {of(user)} group by client order by client",
            resource,
            user,
            start,
            end,
        )
        return tuple(
            SlotUser(user=name, slots=slots, reserved=reserved, jobs=jobs, used=used)
            for name, slots, reserved, jobs, used in rows
        )

    async def slot_projects(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotProject, ...]:
        rows = await self._read(
            "select client, project, count(*), sum(slot_job.node_seconds)::bigint from slot"
            f" join slot_job on slot_job.slot = slot.name where {_WITHIN} and {of(user)}"
            " group by client, project order by client, 4 desc, project",
            resource,
            user,
            start,
            end,
        )
        return tuple(
            SlotProject(user=name, project=project, jobs=jobs, used=used)
            for name, project, jobs, used in rows
        )
