"""Reader of a site's past in its SQLite store, off the event loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kalends.batch.journal.sqlite.job_history import SqliteJobHistory, of
from kalends.contract.history_calls import SlotProject, SlotUser
from kalends.resource_servers.journal.contract import SlotCursor, SlotUse
from kalends.resource_servers.participation.provision.slots import decode_slot

_WITHIN: Final = "slot.resource = ? and slot.ends_at >= ? and slot.ends_at < ?"
"""Slots belong to the time in which they end."""

_JOBS: Final = "(select count(*) from slot_job where slot = name)"
_USED: Final = "(select coalesce(sum(slot_job.node_seconds), 0) from slot_job where slot = name)"


class SqliteSiteHistory(SqliteJobHistory):
    """See `SiteHistory`."""

    async def slots(
        self, resource: str, user: str, start: int, end: int, after: SlotCursor, count: int
    ) -> Sequence[SlotUse]:
        return await self._read(
            f"select cast(body as blob), {_JOBS}, {_USED} from slot"
            f" where {_WITHIN}{of(user)} and (ends_at, name) > (?, ?) order by ends_at, name limit ?",
            [resource, start, end, *filter(None, [user]), *after, count],
            _slot_use,
        )

    async def slot_users(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotUser, ...]:
        rows = await self._read(
            f"select client, count(*), sum(node_seconds), sum({_JOBS}), sum({_USED}) from slot"
            f" where {_WITHIN}{of(user)} group by client order by client",
            [resource, start, end, *filter(None, [user])],
            tuple,
        )
        return tuple(
            SlotUser(user=name, slots=slots, reserved=reserved, jobs=jobs, used=used)
            for name, slots, reserved, jobs, used in rows
        )

    async def slot_projects(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotProject, ...]:
        rows = await self._read(
            "select client, project, count(*), sum(slot_job.node_seconds) from slot"
            f" join slot_job on slot_job.slot = name where {_WITHIN}{of(user)}"
            " group by client, project order by client, 4 desc, project",
            [resource, start, end, *filter(None, [user])],
            tuple,
        )
        return tuple(
            SlotProject(user=name, project=project, jobs=jobs, used=used)
            for name, project, jobs, used in rows
        )


def _slot_use(row: tuple[Any, ...]) -> SlotUse:
    return SlotUse(decode_slot(row[0]), *row[1:])
