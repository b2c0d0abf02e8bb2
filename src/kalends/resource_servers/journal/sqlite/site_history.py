"""Reader of a site's past in its SQLite store, off the event loop."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.batch.journal.sqlite.job_history import SqliteJobHistory
from kalends.contract.history_calls import SlotProject, SlotUser
from kalends.resource_servers.journal.contract import SlotCursor, SlotUse
from kalends.resource_servers.journal.sqlite import slot_table


class SqliteSiteHistory(SqliteJobHistory):
    """See `SiteHistory`."""

    async def slots(
        self, resource: str, user: str, start: int, end: int, after: SlotCursor, count: int
    ) -> Sequence[SlotUse]:
        return await self._read(slot_table.slots_between, resource, user, start, end, after, count)

    async def slot_users(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotUser, ...]:
        return await self._read(slot_table.users_between, resource, user, start, end)

    async def slot_projects(
        self, resource: str, user: str, start: int, end: int
    ) -> tuple[SlotProject, ...]:
        return await self._read(slot_table.projects_between, resource, user, start, end)
