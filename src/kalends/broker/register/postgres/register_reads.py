"""The reads of `kalends.broker.register.contract.Register`: one message each, which sees one moment.

Some rows do not count, and no statement can tell which, as with those that cannot be read: then more of them
are asked for.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

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
from kalends.broker.register.found_rows import (
    UNDECIDED,
    by_owner,
    has_left,
    named,
    read_notices,
    reminders_of,
    row_of,
    took_their_place,
    whole_reservations,
)
from kalends.broker.register.postgres import read_statements as s
from kalends.broker.register.postgres.locked_rows import SiteRow, standing_mark
from kalends.broker.register.postgres.locks import LISTED_SITES
from kalends.broker.register.writes import Feed, ListedSite, Named, NoticeAddress, ShareRow
from kalends.contract.calls import RequestState
from kalends.core.errors import StoreDamaged, Unavailable
from kalends.notices.delivery import StoredDeliveries, read_deliveries
from kalends.stores.postgres.readers import Readers
from kalends.stores.postgres.session import Row as Columns
from kalends.stores.postgres.session import Statement

PAGE: Final = 200
AT_ONCE_MAX: Final = 100
NEVER_S: Final = 1 << 62

CONFIRM_S_MAX: Final = 5.0
"""A commit takes milliseconds, and seconds on a busy disk."""


class RegisterReads:
    """All reads of a register by `readers`, which are closed with it.

    Rows can be seen that no standby has: the wait of the replica that wrote them was cancelled.
    `confirm` returns once all that was committed before it is at a standby.
    """

    def __init__(self, readers: Readers, confirm: Callable[[], Awaitable[object]]) -> None:
        self._readers = readers
        self._confirm = confirm

    async def close_readers(self) -> None:
        await self._readers.close()

    # Replicas and sites

    async def look(self, lives: Collection[str] = ()) -> Outlook:
        beats, standing, sites, positions, counts = await self._read(
            [
                Statement(s.BEATS),
                Statement(s.STANDING),
                Statement(s.SITES),
                Statement(s.LIVES, ([*lives],)),
                Statement(s.OPEN_REQUESTS),
            ]
        )
        ((clock_bound, put_back),) = standing
        by_site = itertools.groupby(map(SiteRow._make, sites), lambda row: row.name)
        marks = {site: standing_mark(rows) for site, rows in by_site}
        return Outlook(
            beats=dict(beats),
            clock_bound=clock_bound,
            put_back=put_back,
            marks={site: mark for site, mark in marks.items() if mark is not None},
            lives=dict(positions),
            open_requests=by_owner(counts),
        )

    async def listed_sites(self) -> Sequence[ListedSite]:
        (found,) = await self._readers.read([Statement(LISTED_SITES)])
        return [*map(ListedSite._make, found)]

    async def left_behind(
        self, me: str, alive: Collection[str], attended: Collection[str], count_max: int
    ) -> Sequence[Row]:
        orphans = await self._first(s.ORPHANS, ([me, *alive],), ("", ""), count_max)
        mine = await self._first(s.UNATTENDED, (me, [*attended]), ("",), count_max)
        return [row for row, _ in orphans + mine]

    async def compared(
        self, after: str, until: str, rids: Sequence[str], count_max: int
    ) -> ComparedRows:
        asked = (after, until or "g", [*rids], count_max)
        found, changes = await self._read(
            [Statement(s.COMPARED, asked), Statement(s.CHANGES, asked)]
        )
        rows = await _read_rows(found)
        return ComparedRows(rows, took_their_place(rows, await _read_rows(changes)))

    # Requests

    async def reservation(self, rid: str) -> WholeReservation | None:
        return await self._reservation(s.RESERVATION, rid)

    async def by_key(self, user: str, key: str) -> WholeReservation | None:
        return await self._reservation(s.BY_KEY, user, key)

    async def ids(self, user: str, part: str, count_max: int) -> Sequence[str]:
        return [rid for (rid,) in await self._rows(s.IDS, user, part, count_max)]

    async def reservations_of(self, rids: Collection[str]) -> Mapping[str, str]:
        return dict(await self._rows(s.RESERVATIONS_OF, [*rids]))

    async def listed(
        self, user: str, before: str, state: RequestState | str, count_max: int
    ) -> Sequence[WholeReservation]:
        found: list[WholeReservation] = []
        before = before or "g"
        size = PAGE if state else count_max
        everyone, of_user = (
            (s.UNDECIDED, s.UNDECIDED_OF) if state in UNDECIDED else (s.LISTED, s.LISTED_OF)
        )
        statement, of = (of_user, (user,)) if user else (everyone, ())
        while len(found) < count_max:
            rows = await _read_rows(await self._rows(statement, before, size, *of))
            page = whole_reservations(rows)
            found += (each for each in reversed(page) if state in ("", each.current.public_state))
            if len(page) < size:
                break
            before = page[0].id
        return found[:count_max]

    async def reservations(self, after: str, count_max: int) -> Sequence[WholeReservation]:
        rows = await self._rows(s.RESERVATIONS, after, count_max)
        return whole_reservations(await _read_rows(rows))

    async def page(self, after: str, count_max: int) -> Sequence[Row]:
        return await _read_rows(await self._one(s.PAGE, after, count_max))

    # Jobs that are left to the broker

    async def ends(self, count_max: int) -> Sequence[Record]:
        newest = await self._first(s.ENDS, (), (NEVER_S, "g"), count_max)
        return [row for row, _ in reversed(newest) if isinstance(row, Record)]

    async def stranded(
        self, sites: Collection[str], but: Collection[str], count_max: int
    ) -> Sequence[Stranded]:
        found = await self._first(s.STRANDED, ([*sites], [*but]), ("",), count_max)
        return [Stranded(row, count) for row, count in found if isinstance(row, Record)]

    async def left(self, site: str, why: str, count_max: int) -> Sequence[Record]:
        found = await self._first(
            s.LEFT, (), ("",), count_max, lambda row: has_left(row, site, why)
        )
        return [row for row, _ in found if isinstance(row, Record)]

    # Scripts and notices

    async def scripts(self, user: str) -> Sequence[Named]:
        return [named(*columns) for columns in await self._rows(s.SCRIPTS, user)]

    async def script(self, user: str, reference: str) -> Script | None:
        for *columns, source in await self._rows(s.SCRIPT, user, reference):
            return Script(named(*columns), _text(source) if source is not None else "")
        return None

    async def addresses(self, user: str) -> Sequence[NoticeAddress]:
        return [NoticeAddress(*columns) for columns in await self._rows(s.ADDRESSES, user)]

    async def feeds(self, user: str) -> Sequence[Feed]:
        return [Feed(*columns) for columns in await self._rows(s.FEEDS, user)]

    async def feed(self, hash: str) -> Feed | None:
        return next((Feed(*columns) for columns in await self._rows(s.FEED, hash)), None)

    async def shares(self, reservations: Collection[str]) -> Sequence[ShareRow]:
        return [ShareRow(*columns) for columns in await self._rows(s.SHARES, [*reservations])]

    async def shares_with(
        self, parties: Collection[str], before: str, count_max: int
    ) -> Sequence[ShareRow]:
        found = await self._rows(s.SHARES_WITH, [*parties], before or "g", count_max)
        return [ShareRow(*columns) for columns in found]

    async def waiting_notices(self, of_user_max: int, count_max: int) -> WaitingNotices:
        asked = (of_user_max, count_max)
        rows, addresses = await self._read(
            [Statement(s.NOTICES, asked), Statement(s.ADDRESSES_OF_NOTICES, asked)]
        )
        notices, unreadable = read_notices(rows)
        theirs = [*map(NoticeAddress._make, addresses)]
        users = {notice.user for notice in notices.values()}
        of_user = {user: tuple(each for each in theirs if each.user == user) for user in users}
        return WaitingNotices(notices, unreadable, of_user)

    async def due_reminders(self, now_s: int, count_max: int) -> Sequence[DueReminder]:
        return reminders_of(await self._rows(s.DUE_REMINDERS, now_s, count_max))

    async def deliveries(self) -> StoredDeliveries:
        return read_deliveries(await self._one(s.DELIVERIES))

    async def _reservation(self, sql: str, *asked: object) -> WholeReservation | None:
        rows = await self._rows(sql, *asked)
        return WholeReservation(tuple(map(row_of, rows))) if rows else None

    async def _read(self, statements: Sequence[Statement]) -> list[list[Columns]]:
        rows = await self._readers.read(statements)
        if any(rows):
            await self._confirm()
        return rows

    async def _rows(self, sql: str, *asked: object) -> list[Columns]:
        """Return rows that a caller waits for; raises `Unavailable` if they are not confirmed in time."""
        try:
            async with asyncio.timeout(CONFIRM_S_MAX):
                return await self._one(sql, *asked)
        except TimeoutError as error:
            raise Unavailable(
                "what was read may be gone after a failover: no standby has confirmed it yet",
                where="store",
                remedy="try again in a moment; the broker goes on when the database commits",
                retry_after_s=1.0,
            ) from error

    async def _one(self, sql: str, *asked: object) -> list[Columns]:
        (rows,) = await self._read([Statement(sql, asked)])
        return rows

    async def _first(
        self,
        sql: str,
        asked: tuple[object, ...],
        behind: tuple[object, ...],
        count_max: int,
        wanted: Callable[[Row], bool] = lambda row: True,
    ) -> list[tuple[Row, int]]:
        """Return the first rows that are `wanted`, until `count_max` of them can be read.

        `sql` finds rows behind the place that `behind` says, each with its place and one number at its end.
        """
        found: list[tuple[Row, int]] = []
        size = max(count_max, PAGE)
        while count_max:
            rows = await self._one(sql, *asked, *behind, size)
            records = await _read_rows([columns[: s.COLUMN_COUNT] for columns in rows])
            for row, columns in zip(records, rows, strict=True):
                if wanted(row):
                    found.append((row, columns[-1]))
                    count_max -= isinstance(row, Record)
                if not count_max:
                    return found
            if len(rows) < size:
                break
            behind = rows[-1][s.COLUMN_COUNT : s.COLUMN_COUNT + len(behind)]
        return found


async def _read_rows(rows: Sequence[Columns]) -> list[Row]:
    """Decode a few at once, and many on a thread: that of the event loop would be away for too long."""
    if len(rows) <= AT_ONCE_MAX:
        return [*map(row_of, rows)]
    return await asyncio.to_thread(lambda: [*map(row_of, rows)])


def _text(source: bytes) -> str:
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        raise StoreDamaged(
            "the broker cannot read the stored source of this script",
            where="store",
            remedy="store it again; tell the broker's operator",
        ) from error
