"""The reads of a register in dictionaries: a look at every single row. Questions to ask any register."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.support.register_twin import TwinRows
from tests.support.register_writes import (
    KEYS,
    LIVES,
    MOVED,
    OWNERS,
    RIDS,
    SCRIPTS,
    SITES,
    T0,
    USERS,
)

from kalends.broker.coordination.record.decision_record import (
    COMMITTED,
    Record,
    RecordState,
    Unreadable,
)
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
from kalends.broker.register.decisions.records import record_of
from kalends.broker.register.stored_request import read_record
from kalends.broker.register.writes import Feed, ListedSite, Named, NoticeAddress, ShareRow
from kalends.contract.calls import RequestState
from kalends.core.identifiers import is_part
from kalends.notices.delivery import StoredDeliveries
from kalends.notices.request_notice import RequestNotice


class TwinReads:
    """See `kalends.broker.register.contract.Register`."""

    def __init__(self, rows: TwinRows) -> None:
        self.rows = rows

    async def look(self, lives: Collection[str] = ()) -> Outlook:
        counts: dict[str, dict[str, int]] = {}
        for each in self.rows.requests.values():
            if not each.done:
                of_owner = counts.setdefault(each.owner, {})
                of_owner[each.user] = of_owner.get(each.user, 0) + 1
        return Outlook(
            beats=self.rows.beats,
            clock_bound=self.rows.clock or 0,
            put_back=self.rows.put_back,
            marks=self.rows.sites,
            lives={life: at for life, at in self.rows.lives.items() if life in lives},
            open_requests=counts,
        )

    async def listed_sites(self) -> Sequence[ListedSite]:
        return self.rows.all_listed_sites()

    async def left_behind(
        self, me: str, alive: Collection[str], attended: Collection[str], count_max: int
    ) -> Sequence[Row]:
        waits = sorted((row for row in self._known() if not row.done), key=lambda row: row.owner)
        orphans = [row for row in waits if row.owner not in (me, *alive)]
        mine = [row for row in waits if row.owner == me and row.rid not in attended]
        return [*_until_enough(orphans, count_max), *_until_enough(mine, count_max)]

    async def compared(
        self, after: str, until: str, rids: Sequence[str], count_max: int
    ) -> ComparedRows:
        found = [
            row
            for row in self._known()
            if row.rid in rids
            or (
                row.state in COMMITTED
                and row.rid > after
                and (not until or row.rid <= until)
                and not self.rows.is_aside(row.reservation)
            )
        ][:count_max]
        replaced = {row.rid for row in found if row.state == "replaced"}
        changes = {
            row.replaces: row
            for row in self._known()
            if isinstance(row, Record) and row.state in COMMITTED and row.replaces in replaced
        }
        return ComparedRows(found, changes)

    async def reservation(self, rid: str) -> WholeReservation | None:
        first = next((row.reservation for row in self._known() if row.rid == rid), rid)
        return next((each for each in self._reservations() if each.id == first), None)

    async def by_key(self, user: str, key: str) -> WholeReservation | None:
        first = next(
            (
                row.reservation
                for row in self.rows.requests.values()
                if (row.user, row.key) == (user, key) and row.body is not None
            ),
            None,
        )
        return next((each for each in self._reservations() if each.id == first), None)

    async def ids(self, user: str, part: str, count_max: int) -> Sequence[str]:
        theirs = (row.rid for row in self._known() if row.user == user)
        return [rid for rid in theirs if is_part(part, rid)][::-1][:count_max]

    async def reservations_of(self, rids: Collection[str]) -> Mapping[str, str]:
        changes = (row for row in self._known() if row.rid != row.reservation)
        return {row.rid: row.reservation for row in changes if row.rid in rids}

    async def listed(
        self, user: str, before: str, state: RequestState | str, count_max: int
    ) -> Sequence[WholeReservation]:
        return [
            each
            for each in self._of_firsts()
            if (not before or each.id < before) and user in ("", each.rows[0].user)
            if state in ("", each.current.public_state)
        ][::-1][:count_max]

    async def reservations(self, after: str, count_max: int) -> Sequence[WholeReservation]:
        there = (each for each in self._of_firsts() if not self.rows.is_aside(each.id))
        return [each for each in there if each.id > after][:count_max]

    async def page(self, after: str, count_max: int) -> Sequence[Row]:
        return [row for row in self._known() if row.rid > after][:count_max]

    async def ends(self, count_max: int) -> Sequence[Record]:
        endings = self.rows.endings
        there = (row for row in self._records() if not self.rows.is_aside(row.reservation))
        ended = [row for row in there if row.rid in endings]
        ended.sort(key=lambda row: (endings[row.rid].at, row.rid), reverse=True)
        return ended[:count_max][::-1]

    async def stranded(
        self, sites: Collection[str], but: Collection[str], count_max: int
    ) -> Sequence[Stranded]:
        found = []
        for reservation, row in self._waiting():
            site, places, again = self.rows.starts.get(row.rid, ("", "", False))
            may_run_at = {site} if site and again else set(places.split(",")) if not site else set()
            if row.rid not in but and may_run_at and may_run_at <= {*sites}:
                found.append(Stranded(row, len(reservation.rows)))
        return sorted(found, key=lambda each: each.record.rid)[:count_max]

    async def left(self, site: str, why: str, count_max: int) -> Sequence[Record]:
        found = []
        for _, row in self._waiting():
            start, place, made = (
                self.rows.starts.get(row.rid),
                row.spec.placement,
                row.spec.by_others,
            )
            if start is None or start.site or place is None or made is None:
                continue
            if site in place.elsewhere and place.running == "no" and made.reason == why:
                found.append(row)
        return sorted(found, key=lambda row: row.rid)[:count_max]

    async def scripts(self, user: str) -> Sequence[Named]:
        return [kept.named for kept in self.rows.names_of(user) if not kept.deleted]

    async def script(self, user: str, reference: str) -> Script | None:
        for named in await self.scripts(user):
            if reference in (named.name, named.script):
                return Script(named, self.rows.sources.get(named.script, ""))
        return None

    async def addresses(self, user: str) -> Sequence[NoticeAddress]:
        return self._addresses(user)

    async def feeds(self, user: str) -> Sequence[Feed]:
        return [each for key, each in sorted(self.rows.feeds.items()) if key[0] == user]

    async def feed(self, hash: str) -> Feed | None:
        return next((each for each in self.rows.feeds.values() if each.hash == hash), None)

    async def shares(self, reservations: Collection[str]) -> Sequence[ShareRow]:
        return [each for key, each in sorted(self.rows.shares.items()) if key[0] in reservations]

    async def shares_with(
        self, parties: Collection[str], before: str, count_max: int
    ) -> Sequence[ShareRow]:
        found = [
            each
            for (rid, party), each in self.rows.shares.items()
            if party in parties and rid < (before or "g")
        ]
        found.sort(key=lambda each: each.party)
        return sorted(found, key=lambda each: each.reservation, reverse=True)[:count_max]

    async def waiting_notices(self, of_user_max: int, count_max: int) -> WaitingNotices:
        counts: dict[str, int] = {}
        notices: dict[int, RequestNotice] = {}
        for number, notice in sorted(self.rows.notices.items()):
            counts[notice.user] = counts.get(notice.user, 0) + 1
            if counts[notice.user] <= of_user_max and len(notices) < count_max:
                notices[number] = notice
        users = {notice.user for notice in notices.values()}
        return WaitingNotices(notices, (), {user: self._addresses(user) for user in users})

    async def deliveries(self) -> StoredDeliveries:
        return StoredDeliveries([*self.rows.deliveries.values()], [])

    async def due_reminders(self, now_s: int, count_max: int) -> Sequence[DueReminder]:
        found = [
            DueReminder(request.begins - address.remind_s, address, record_of(self.rows, request))
            for request in self.rows.requests.values() if not self.rows.is_aside(request.reservation)
            for address in self._addresses(request.user)
            if address.remind_s and request.state == "commit" and request.begins > now_s
            and address.reminded_at < request.begins - address.remind_s <= now_s
        ]  # fmt: skip
        found.sort(key=lambda each: (each.due_s, *each.address[:2], each.record.rid))
        return [each for each in found[:count_max] if isinstance(each.record, Record)]

    def _addresses(self, user: str) -> tuple[NoticeAddress, ...]:
        return tuple(each for key, each in sorted(self.rows.addresses.items()) if key[0] == user)

    def _known(self) -> Iterator[Row]:
        for rid, request in sorted(self.rows.requests.items()):
            if request.body is not None:
                start, ending = self.rows.starts.get(rid), self.rows.endings.get(rid)
                yield read_record(
                    request,
                    start.site if start is not None else None,
                    ending.body if ending is not None else None,
                )

    def _records(self) -> Iterator[Record]:
        return (row for row in self._known() if isinstance(row, Record))

    def _reservations(self) -> Iterator[WholeReservation]:
        known = [*self._known()]
        for id in sorted({row.reservation for row in known}):
            yield WholeReservation(tuple(row for row in known if row.reservation == id))

    def _of_firsts(self) -> list[WholeReservation]:
        """Those whose first request is there."""
        return [each for each in self._reservations() if each.row(each.id) is not None]

    def _waiting(self) -> Iterator[tuple[WholeReservation, Record]]:
        """Jobs that have a place, have not ended, and are not being moved."""
        for each in self._reservations():
            for row in each.rows:
                has_a_place = row.state == "commit" and not each.changing
                if isinstance(row, Record) and has_a_place and row.rid not in self.rows.endings:
                    yield each, row


def _until_enough(rows: Sequence[Row], count_max: int) -> Iterator[Row]:
    readable = 0
    for row in rows:
        if readable == count_max:
            return
        readable += not isinstance(row, Unreadable)
        yield row


class Question(NamedTuple):
    """A read of a register, by its name, and what it is asked with."""

    read: str
    asked: tuple[Any, ...]

    async def to(self, reads: Any) -> Any:
        answer = await getattr(reads, self.read)(*self.asked)
        # Which kind of sequence it is, is not promised.
        return [*answer] if type(answer) in (list, tuple) else answer


def questions(random: Random) -> list[Question]:
    """One of each kind, in no order."""

    def some(of: Collection[str]) -> list[str]:
        return random.sample([*of], random.randrange(len(of) + 1))

    def any(*of: Any) -> Any:
        return random.choice(of)

    rid, user, count = any(*RIDS), any(*USERS, "nobody"), any(0, 1, 2, 3, 100)
    beyond = any("", *RIDS)
    part = any(rid, rid[:7], rid[-8:], rid[-8:][: any(1, 2, 7)], rid[-3:], "%", "_")
    states: Sequence[RecordState | str] = (
        "",
        "open",
        "reserved",
        "cancelled",
        "failed",
        "replaced",
        "held",
    )
    found: dict[str, tuple[Any, ...]] = {
        "look": (some(LIVES),),
        "left_behind": (any(*OWNERS), some(OWNERS), some(RIDS), count),
        "compared": (any("", *RIDS), beyond, some(RIDS), count),
        "reservation": (rid,),
        "by_key": (user, any(*KEYS[RIDS.index(rid)], f"key {rid}")),
        "ids": (user, part, count),
        "reservations_of": (some(RIDS),),
        "listed": (any("", user), beyond, any(*states), count),
        "reservations": (beyond, count),
        "page": (beyond, count),
        "ends": (count,),
        "stranded": (some(SITES), some(RIDS[:2]), count),
        "left": (any(*SITES), any(MOVED.reason, "another"), count),
        "scripts": (user,),
        "script": (user, any("mine", "Other", *SCRIPTS)),
        "addresses": (user,),
        "feeds": (user,),
        "feed": (f"{user} mine {any(0, 1)}",),
        "shares": ((any(*RIDS), any(*RIDS)),),
        "shares_with": ((f"user:{user}", f"heir:{user}", f"holder:{user}"), any("", *RIDS), count),
        "waiting_notices": (any(1, 2, 100), count),
        "due_reminders": (any(T0 - 7_200, T0 - 3_600, T0 - 1, T0), count),
        "deliveries": (),
        "listed_sites": (),
    }  # fmt: skip
    return [Question(*each) for each in found.items()]
