"""A site's journal in a SQLite file, with its writer and its readers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from kalends.batch.journal.sqlite.job_journal import SqliteJobJournal
from kalends.notices.delivery import StoredDeliveries
from kalends.notices.delivery_table import stored_deliveries
from kalends.resource_servers.journal.contract import Loaded, RunsKept, SiteOperation
from kalends.resource_servers.journal.sqlite.runs_store import RunsStore
from kalends.resource_servers.journal.sqlite.site_history import SqliteSiteHistory
from kalends.resource_servers.journal.sqlite.site_store import SiteStore
from kalends.serving.garbage_collection import not_collecting
from kalends.serving.logs import Logger
from kalends.stores.group_commit import Committed, GroupCommit
from kalends.stores.sqlite.sqlite_file import runs_path
from kalends.stores.sqlite.transactions import SqliteTransactions


class SqliteJournal:
    """See `Journal`. The writer's connection reads before anything is submitted, and never later."""

    fenced = False

    def __init__(
        self, store: SiteStore, observe: Callable[[Committed], None] | None = None
    ) -> None:
        self._store = store
        self.epoch = store.epoch
        self.past = store.past
        self.jobs = SqliteJobJournal(store.file.connection)
        self.wall_ms = 0
        self.writer: GroupCommit[SiteOperation, int | None] = GroupCommit(
            SqliteTransactions(
                store.file.connection,
                lambda connection, operations: store.carry_out(
                    connection, operations, self.wall_ms
                ),
            ),
            observe=observe,
        )

    def is_ours(self) -> bool:
        """Always: the lock of the file ends with this process."""
        return True

    async def load(self) -> Loaded:
        return await asyncio.to_thread(self._load)

    def _load(self) -> Loaded:
        with not_collecting():
            return self._store.load()

    async def deliveries(self) -> StoredDeliveries:
        return await asyncio.to_thread(stored_deliveries, self._store.file.connection)

    async def close(self) -> None:
        await self.writer.close()
        await asyncio.to_thread(self._store.close)


class SqliteStorage:
    """See `SiteStorage`: the file `path`, and next to it the records of runs."""

    beat_s = None

    def __init__(self, path: Path, site: str) -> None:
        self._path = path
        self._site = site

    async def open(self, observe: Callable[[Committed], None]) -> SqliteJournal:
        return SqliteJournal(
            await asyncio.to_thread(SiteStore.open, self._path, self._site), observe
        )

    def history(self, settled: Callable[[], Awaitable[None]]) -> SqliteSiteHistory:
        return SqliteSiteHistory(self._path, settled)

    def runs(self, kept: RunsKept, logger: Logger) -> RunsStore:
        return RunsStore(runs_path(self._path), self._site, kept, logger)

    async def close(self) -> None:
        """Readers of a file are closed with each question."""
