"""A site's journal on PostgreSQL, with its writer and its readers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kalends.batch.journal.postgres.job_journal import PostgresJobJournal
from kalends.notices.delivery import StoredDeliveries
from kalends.resource_servers.journal.contract import Loaded, RunsKept, SiteOperation
from kalends.resource_servers.journal.postgres import booked_once, booked_units, site_tables
from kalends.resource_servers.journal.postgres.booked_once import BookedOnce
from kalends.resource_servers.journal.postgres.booked_units import BookedUnits
from kalends.resource_servers.journal.postgres.site_batches import Guard, SiteBatches
from kalends.resource_servers.journal.postgres.site_history import PostgresSiteHistory
from kalends.resource_servers.journal.sqlite.runs_store import RunsStore
from kalends.resource_servers.journal.standing_stakes import FollowedStakes
from kalends.resource_servers.participation.memory.past import Past
from kalends.serving.garbage_collection import not_collecting
from kalends.serving.logs import Logger
from kalends.stores.group_commit import STUCK_DATABASE, Committed, GroupCommit
from kalends.stores.postgres import migrations
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.batches import Batches, now_s
from kalends.stores.postgres.readers import Readers, SlowReader
from kalends.stores.postgres.session import Statement, WriterSession, asked
from kalends.stores.postgres.sole_owner import (
    BEAT_S,
    LEASE_S,
    StoreCandidate,
    begin,
    connected,
    leave,
)
from kalends.stores.served_elsewhere import ServedElsewhere

_BEGIN_LIFE: Final = (
    "insert into life (number, life, seq) select coalesce(max(number), 0) + 1, $1::text,"
    " (select coalesce(max(seq), 0) from journal) from life returning number, seq"
)

_LIVES: Final = Statement("select life, seq from life order by number")
_SECRET: Final = Statement("select secret from site_secret")

OPEN_S_MAX: Final = 10.0
"""A frozen database, or one that waits for its standby, is not waited for longer when a life begins."""

CLOSE_S_MAX: Final = 10.0
"""What a frozen database has not taken by then is not waited for when a site stops."""


class _OpenedLife(NamedTuple):
    session: WriterSession
    reader: SlowReader
    past: Past
    epoch: int
    guards: Sequence[Guard]
    followed: FollowedStakes


class PostgresJournal:
    """See `Journal`. It has a session that writes, and one to read what a life begins with."""

    fenced = True

    def __init__(
        self, opened: _OpenedLife, observe: Callable[[Committed], None] | None = None
    ) -> None:
        self._session, self._reader = opened.session, opened.reader
        self._followed = opened.followed
        self.epoch = opened.epoch
        self.past = opened.past
        self.jobs = PostgresJobJournal(opened.reader)
        self.wall_ms = 0
        part = SiteBatches(opened.past.position, lambda: self.wall_ms, opened.guards)
        self._batches: Batches[SiteOperation, int | None] = Batches(
            opened.session, opened.past.life, part, dict
        )
        self.writer: GroupCommit[SiteOperation, int | None] = GroupCommit(
            self._batches, observe=observe, stuck_because=STUCK_DATABASE
        )

    def is_ours(self) -> bool:
        """Others take over once the beats have stood still for a lease since they saw the last one."""
        return now_s() - self._batches.fenced_s < LEASE_S

    async def load(self) -> Loaded:
        return await asyncio.to_thread(self._load)

    def _load(self) -> Loaded:
        with not_collecting():
            followed, self._followed = self._followed, FollowedStakes()
            return site_tables.load(self._reader, followed, self.past, self.epoch)

    async def deliveries(self) -> StoredDeliveries:
        return await asyncio.to_thread(site_tables.stored_deliveries, self._reader)

    async def close(self) -> None:
        cutting = asyncio.get_running_loop().call_later(CLOSE_S_MAX, self._session.cut)
        try:
            await self.writer.close()
            await asyncio.to_thread(leave, self._session)
        finally:
            cutting.cancel()
        await asyncio.to_thread(self._reader.close)


class PostgresStorage:
    """See `SiteStorage`: a database, or a schema of it, and a file of this host with records of runs."""

    beat_s = BEAT_S

    def __init__(
        self,
        address: Address,
        site: str,
        runs: Path,
        units: Mapping[str, int],
        host: str,
        *,
        guard_counted: bool = False,
    ) -> None:
        """`units` gives the capacity of each resource: the database, too, guards those of one unit.

        If `guard_counted`, it guards those of several units as well. `host` is the name of this one, for
        others who want the store.
        """
        self._address = address
        self._host = host
        self._candidate: StoreCandidate | None = None
        self._followed = FollowedStakes()
        """The stakes that the standby knows; what was read before a failover may not have been stored."""
        self._site = site
        self._runs = runs
        self._units = units
        self._guards: list[Guard] = [BookedOnce(units)]
        if guard_counted:
            self._guards.append(BookedUnits(units))
        self._guard_counted = guard_counted
        self._readers: Readers | None = None

    async def open(self, observe: Callable[[Committed], None]) -> PostgresJournal:
        if self._candidate is None:
            self._candidate = await self._new_candidate()
            self._followed = FollowedStakes()
        candidate, self._candidate = self._candidate, None
        late = asyncio.get_running_loop().call_later(OPEN_S_MAX, candidate.session.cut)
        try:
            return PostgresJournal(await asyncio.to_thread(self._begin, candidate), observe)
        except ServedElsewhere:
            self._candidate = candidate
            raise
        except BaseException:
            candidate.close()
            raise
        finally:
            late.cancel()

    async def _new_candidate(self) -> StoreCandidate:
        session = await asyncio.to_thread(connected, self._address, self._host)
        given = (session, self._address, site_tables.SCHEMA, self._site)
        opening = asyncio.create_task(asyncio.to_thread(StoreCandidate.open, *given))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            session.cut()
            await asyncio.gather(opening, return_exceptions=True)
            raise

    def history(self, settled: Callable[[], Awaitable[None]]) -> PostgresSiteHistory:
        return PostgresSiteHistory(self._read, settled)

    def runs(self, kept: RunsKept, logger: Logger) -> RunsStore:
        return RunsStore(self._runs, self._site, kept, logger)

    async def close(self) -> None:
        if self._candidate is not None:
            self._candidate.close()
            self._candidate = None
        if self._readers is not None:
            await self._readers.close()
            self._readers = None

    def _read(self) -> Readers:
        if self._readers is None:
            self._readers = Readers(self._address)
        return self._readers

    def _begin(self, candidate: StoreCandidate) -> _OpenedLife:
        """Begin a life, on a thread; each one before has ended where the next began."""
        session = candidate.session
        try:
            candidate.take()
        except ServedElsewhere:
            with asked(self._address):
                site_tables.follow(session, self._followed)
            raise
        # Another process may have moved the store since this one looked at it.
        with asked(self._address):
            migrations.check_not_moved(session, self._address)
        if candidate.store.is_promoted:
            # What this site may have forgotten, the marks of its brokers tell.
            migrations.accept_cluster(self._address)
        life = secrets.token_hex(16)
        statements = [
            Statement(_BEGIN_LIFE, (life,)),
            _LIVES,
            _SECRET,
            *booked_once.begin(self._units, self._guard_counted),
            *booked_units.begin(),
        ]
        [(epoch, position)], lives, [(secret,)], *_ = begin(session, life, statements)
        starts = [seq for _, seq in lives]
        ended = {name: end for (name, _), end in zip(lives, starts[1:], strict=False)}
        reader = SlowReader(self._address)
        past = Past(life, position, ended, secret)
        return _OpenedLife(session, reader, past, epoch, self._guards, self._followed)
