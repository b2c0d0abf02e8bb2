"""The reads of `kalends.broker.register.contract.Register`, on connections of their own.

What reads a few rows does so at once: that takes less time than a change of threads. What may read thousands
does it on a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.reconciliation.reconciler import ComparedRows
from kalends.broker.register.contract import (
    DueReminder,
    Outlook,
    Row,
    Script,
    Stranded,
    WaitingNotices,
    WholeReservation,
)
from kalends.broker.register.sqlite import (
    feed_table,
    job_reads,
    lives,
    notice_table,
    request_reads,
    script_table,
    share_table,
)
from kalends.broker.register.sqlite.sqlite_rows import ALL_LISTED_SITES, listed_site
from kalends.broker.register.writes import Feed, ListedSite, Named, NoticeAddress, ShareRow
from kalends.core.errors import Unavailable
from kalends.notices import delivery_table
from kalends.notices.delivery import StoredDeliveries

P = ParamSpec("P")
T = TypeVar("T")


class RegisterReads:
    """`reader` serves short reads. Readers of SQLite see a transaction only after it was synced."""

    def __init__(self, reader: sqlite3.Connection, slow_reader: sqlite3.Connection) -> None:
        self._reader = reader
        self._slow_reader = slow_reader
        self._slowly = asyncio.Lock()
        self.secret = self._read(lives.secret)
        self.identity = self._read(lives.identity)

    async def close_readers(self) -> None:
        async with self._slowly:
            self._reader.close()
            self._slow_reader.close()

    def _read(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **keywords: P.kwargs,
    ) -> T:
        try:
            return function(self._reader, *args, **keywords)
        except sqlite3.Error as error:
            raise unreadable(error) from error

    async def _read_slowly(
        self,
        function: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **keywords: P.kwargs,
    ) -> T:
        async def read() -> T:
            async with self._slowly:
                return await asyncio.to_thread(function, self._slow_reader, *args, **keywords)

        try:
            # Who is cancelled goes at once; the connection is in use until the thread has ended.
            return await asyncio.shield(read())
        except sqlite3.Error as error:
            raise unreadable(error) from error

    # Replicas and sites

    async def look(self, lives: Collection[str] = ()) -> Outlook:
        return self._read(_look, lives)

    async def listed_sites(self) -> Sequence[ListedSite]:
        return self._read(_listed_sites)

    async def left_behind(
        self, me: str, alive: Collection[str], attended: Collection[str], count_max: int
    ) -> Sequence[Row]:
        orphans = self._read(request_reads.orphans, (me, *alive), count_max)
        return orphans + self._read(request_reads.unattended, me, attended, count_max)

    async def compared(
        self, after: str, until: str, rids: Sequence[str], count_max: int
    ) -> ComparedRows:
        return self._read(request_reads.compared, after, until, rids, count_max)

    # Requests

    async def reservation(self, rid: str) -> WholeReservation | None:
        return self._read(request_reads.reservation, rid)

    async def by_key(self, user: str, key: str) -> WholeReservation | None:
        return self._read(request_reads.by_key, user, key)

    async def ids(self, user: str, part: str, count_max: int) -> Sequence[str]:
        return await self._read_slowly(request_reads.ids, user, part, count_max)

    async def reservations_of(self, rids: Collection[str]) -> Mapping[str, str]:
        return await self._read_slowly(request_reads.reservations_of, rids)

    async def listed(
        self, user: str, before: str, state: str, count_max: int
    ) -> Sequence[WholeReservation]:
        return await self._read_slowly(request_reads.listed, user, before, state, count_max)

    async def reservations(self, after: str, count_max: int) -> Sequence[WholeReservation]:
        return await self._read_slowly(request_reads.reservations, after, count_max)

    async def page(self, after: str, count_max: int) -> Sequence[Row]:
        return await self._read_slowly(request_reads.page, after, count_max)

    # Jobs that are left to the broker

    async def ends(self, count_max: int) -> Sequence[Record]:
        return await self._read_slowly(job_reads.newest_ends, count_max)

    async def stranded(
        self, sites: Collection[str], but: Collection[str], count_max: int
    ) -> Sequence[Stranded]:
        return await self._read_slowly(job_reads.stranded, sites, but, count_max)

    async def left(self, site: str, why: str, count_max: int) -> Sequence[Record]:
        return await self._read_slowly(job_reads.left, site, why, count_max)

    # Scripts and notices

    async def scripts(self, user: str) -> Sequence[Named]:
        return self._read(script_table.names, user)

    async def script(self, user: str, reference: str) -> Script | None:
        named = self._read(script_table.find, user, reference)
        if named is None:
            return None
        return Script(named, self._read(script_table.source_of, named.script))

    async def addresses(self, user: str) -> Sequence[NoticeAddress]:
        return self._read(notice_table.addresses_of, user)

    async def feeds(self, user: str) -> Sequence[Feed]:
        return self._read(feed_table.feeds_of, user)

    async def feed(self, hash: str) -> Feed | None:
        return self._read(feed_table.feed_of, hash)

    async def shares(self, reservations: Collection[str]) -> Sequence[ShareRow]:
        return self._read(share_table.shares_of, reservations)

    async def shares_with(
        self, parties: Collection[str], before: str, count_max: int
    ) -> Sequence[ShareRow]:
        return self._read(share_table.shares_with, parties, before, count_max)

    async def waiting_notices(self, of_user_max: int, count_max: int) -> WaitingNotices:
        return self._read(notice_table.waiting_notices, of_user_max, count_max)

    async def due_reminders(self, now_s: int, count_max: int) -> Sequence[DueReminder]:
        return self._read(notice_table.due_reminders, now_s, count_max)

    async def deliveries(self) -> StoredDeliveries:
        return self._read(delivery_table.stored_deliveries)


def _look(connection: sqlite3.Connection, asked: Collection[str]) -> Outlook:
    positions = {life: lives.position_of(connection, life) for life in asked}
    return Outlook(
        beats=lives.beats(connection),
        clock_bound=lives.clock_bound(connection),
        put_back=lives.is_put_back(connection),
        marks=lives.marks(connection),
        lives={life: position for life, position in positions.items() if position is not None},
        open_requests=request_reads.open_requests(connection),
    )


def _listed_sites(connection: sqlite3.Connection) -> list[ListedSite]:
    return [listed_site(*each) for each in connection.execute(ALL_LISTED_SITES)]


def unreadable(error: sqlite3.Error) -> Unavailable:
    return Unavailable(
        f"the broker's store cannot be read now: {error}",
        where="store",
        remedy="try again in a moment; the operator of the broker sees why in its log",
        retry_after_s=1.0,
    )
