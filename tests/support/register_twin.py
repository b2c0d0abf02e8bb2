"""A register in dictionaries: slow, obvious, and with nothing of a database."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from kalends.broker.coordination.record.decision_record import decode_record
from kalends.broker.register.decisions.register_decisions import decide
from kalends.broker.register.rows import KeptName, StoredEnd, StoredStart
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.touched import Made, Touched, touched
from kalends.broker.register.writes import Feed, ListedSite, NoticeAddress, Result, ShareRow, Write
from kalends.contract.messages import Mark
from kalends.notices.delivery import Delivery
from kalends.notices.request_notice import RequestNotice

K = TypeVar("K")
V = TypeVar("V")

Tables = dict[str, list[tuple[Any, ...]]]
"""All rows of a register, in order of key; deliveries in their own order.

Records are decoded: what is omitted as a default depends on which object it is.
"""


def with_record(request: StoredRequest) -> tuple[Any, ...]:
    """A row with its record in place of the body, where that can be read."""
    try:
        record: Any = decode_record(request.body) if request.body is not None else None
    except msgspec.MsgspecError:
        record = request.body
    return (*request[:-1], record)


class TwinRows:
    """See `kalends.broker.register.rows.Rows`."""

    def __init__(self) -> None:
        self.requests: dict[str, StoredRequest] = {}
        self.aside: dict[str, list[tuple[Any, ...]]] = {}
        """Reservations that were put aside, as they were then: they come back when they are changed."""
        self.starts: dict[str, StoredStart] = {}
        self.endings: dict[str, StoredEnd] = {}
        self.sources: dict[str, str] = {}
        self.names: dict[tuple[str, str], KeptName] = {}
        self.uses: set[tuple[str, str]] = set()
        self.addresses: dict[tuple[str, str], NoticeAddress] = {}
        self.feeds: dict[tuple[str, str], Feed] = {}
        self.shares: dict[tuple[str, str], ShareRow] = {}
        self.notices: dict[int, RequestNotice] = {}
        self.posted = 0
        self.deliveries: dict[str, Delivery] = {}
        self.beats: dict[str, int] = {}
        self.lives: dict[str, int] = {}
        self.sites: dict[str, Mark] = {}
        self.listed_sites: dict[tuple[str, str], ListedSite] = {}
        self.clock: int | None = None
        self.put_back = False

    def of_key(self, user: str, key: str) -> StoredRequest | None:
        found = [each for each in self.requests.values() if (each.user, each.key) == (user, key)]
        return found[0] if found else None

    def reservation(self, reservation: str) -> list[StoredRequest]:
        found = (each for each in self.requests.values() if each.reservation == reservation)
        return sorted(found, key=lambda each: each.rid)

    def has_closed(self, user: str, common: str, but: str) -> bool:
        return any(
            each.user == user and each.rid != but and each.state == "closed"
            and each.key.startswith(f"{common} ") and each.key != f"{common} "
            for each in self.requests.values()
        )  # fmt: skip

    def open_requests(self) -> list[StoredRequest]:
        return [each for each in self.requests.values() if each.state == "open"]

    def waiting_starts(self) -> list[str]:
        return [rid for rid, start in self.starts.items() if not start.site]

    def names_of(self, client: str) -> list[KeptName]:
        return [kept for (of, _), kept in sorted(self.names.items()) if of == client]

    def add_use(self, rid: str, script: str) -> None:
        self.uses.add((rid, script))

    def end_uses(self, rid: str) -> list[str]:
        ended = sorted(use for use in self.uses if use[0] == rid)
        self.uses.difference_update(ended)
        return [script for _, script in ended]

    def is_wanted(self, script: str) -> bool:
        named = (kept.named.script for kept in self.names.values() if not kept.deleted)
        return script in [*named, *(used for _, used in self.uses)]

    def receivers(self, user: str) -> Collection[str]:
        return [receiver for of, receiver in self.addresses if of == user]

    def feeds_of(self, user: str) -> Collection[str]:
        return [name for of, name in self.feeds if of == user]

    def shares_of(self, reservation: str) -> Collection[ShareRow]:
        return [each for _, each in sorted(self.shares.items()) if each[0] == reservation]

    def post(self, notice: RequestNotice) -> None:
        self.posted += 1
        self.notices[self.posted] = notice

    def take_notices(self, numbers: Sequence[int]) -> bool:
        if not self.notices.keys() >= set(numbers):
            return False
        for number in numbers:
            del self.notices[number]
        return True

    def put_delivery(self, delivery: Delivery) -> None:
        self.deliveries[delivery.id] = delivery

    def drop_delivery(self, id: str) -> None:
        self.deliveries.pop(id, None)

    def owners_of(self, name: str) -> list[str]:
        return [owner for owner in self.beats if owner.startswith(f"{name}:")]

    def settled(self) -> list[str]:
        """Reservations whose first request is there, and of which nothing is left to be done."""
        first = [
            rid for rid, each in self.requests.items() if each.reservation == rid and each.body
        ]
        return [
            rid for rid in sorted(first)
            if all(each.done and each.state != "open" for each in self.reservation(rid))
        ]  # fmt: skip

    def put_aside(self, reservation: str) -> None:
        self.aside[reservation] = self._all_of(reservation)

    def is_aside(self, reservation: str) -> bool:
        return self.aside.get(reservation) == self._all_of(reservation)

    def _all_of(self, reservation: str) -> list[tuple[Any, ...]]:
        return [
            (each, self.starts.get(each.rid), self.endings.get(each.rid))
            for each in self.reservation(reservation)
        ]

    def all_listed_sites(self) -> list[ListedSite]:
        return [each for _, each in sorted(self.listed_sites.items())]

    def tables(self) -> Tables:
        encode = msgspec.msgpack.encode
        return {
            "request": [with_record(each) for _, each in sorted(self.requests.items())],
            "start": [(rid, *each) for rid, each in sorted(self.starts.items())],
            "ending": [(rid, *each) for rid, each in sorted(self.endings.items())],
            "script": sorted(self.sources.items()),
            "script_name": [
                (client, *kept.named, kept.deleted)
                for (client, _), kept in sorted(self.names.items())
            ],
            "script_use": sorted(self.uses),
            "notice": [
                (number, each.user, encode(each)) for number, each in sorted(self.notices.items())
            ],
            "letter": [(id, encode(each)) for id, each in self.deliveries.items()],
            "feed": [tuple(each) for _, each in sorted(self.feeds.items())],
            "share": [tuple(each) for _, each in sorted(self.shares.items())],
            "notice_address": [tuple(each) for _, each in sorted(self.addresses.items())],
            "replica": sorted(self.beats.items()),
            "life": sorted(self.lives.items()),
            "site": [
                (site, each.life, each.position, each.proof)
                for site, each in sorted(self.sites.items())
            ],
            "listed_site": [tuple(each) for each in self.all_listed_sites()],
            "meta": [(self.clock, self.put_back)],
        }


class _Guarded(Generic[K, V]):
    """A table of which only some keys may be looked at."""

    def __init__(self, table: dict[K, V], allowed: Callable[[K], bool]) -> None:
        self._table = table
        self._allowed = allowed

    def get(self, key: K, /) -> V | None:
        assert self._allowed(key), f"not touched: {key}"
        return self._table.get(key)

    def __setitem__(self, key: K, value: V, /) -> None:
        assert self._allowed(key), f"not touched: {key}"
        self._table[key] = value

    def pop(self, key: K, default: None, /) -> object:
        assert self._allowed(key), f"not touched: {key}"
        return self._table.pop(key, default)


class _GuardedRequests(_Guarded[str, StoredRequest]):
    reservations: Collection[str] = ()

    def __setitem__(self, rid: str, request: StoredRequest, /) -> None:
        made, reservation = self.get(rid) is None, request.reservation
        if made and reservation != rid:
            assert reservation in self.reservations, f"not touched: {reservation}"
        super().__setitem__(rid, request)


class GuardedRows:
    """Rows of which nothing may be looked at, nor changed, but what `about` names."""

    def __init__(self, rows: TwinRows, about: Touched) -> None:
        self._rows = rows
        self._about = about
        known: list[StoredRequest | Made] = [*rows.requests.values(), *about.made]
        self._reservations = about.reservations | {
            each.reservation for each in known if each.rid in about.whole
        }
        rids = about.rids | {
            each.rid
            for each in known
            if each.reservation in self._reservations or (each.user, each.key) in about.keys
        }
        self._scripts = about.scripts | {
            script for rid, script in rows.uses if rid in about.users_of_scripts
        } | {
            kept.named.script for (client, _), kept in rows.names.items() if client in about.clients
        }  # fmt: skip
        self._users = about.told | {each.user for each in known if each.rid in about.users_of}
        everything = about.everything

        def of_request(rid: str) -> bool:
            return everything or rid in rids

        self.requests = _GuardedRequests(rows.requests, of_request)
        self.requests.reservations = self._reservations
        self.starts = _Guarded(rows.starts, of_request)
        self.endings = _Guarded(rows.endings, of_request)
        self.sources = _Guarded(rows.sources, self._is_touched)
        self.names = _Guarded(rows.names, lambda key: key[0] in about.clients)
        self.addresses = _Guarded(rows.addresses, lambda key: key[0] in self._users)
        self.feeds = _Guarded(rows.feeds, lambda key: key[0] in about.followed)
        self.shares = _Guarded(rows.shares, lambda key: key[0] in about.shared)
        self.beats = _Guarded(
            rows.beats,
            lambda owner: owner in about.owners or owner.rpartition(":")[0] in about.replicas,
        )
        self.lives = _Guarded(rows.lives, lambda life: everything or life in about.lives)
        self.sites = _Guarded(rows.sites, lambda site: site in about.sites)
        self.listed_sites = _Guarded(rows.listed_sites, lambda key: about.listed_sites)

    def _is_touched(self, script: str) -> bool:
        return self._about.everything or script in self._scripts

    def of_key(self, user: str, key: str) -> StoredRequest | None:
        assert (user, key) in self._about.keys
        return self._rows.of_key(user, key)

    def reservation(self, reservation: str) -> list[StoredRequest]:
        assert reservation in self._reservations
        return self._rows.reservation(reservation)

    def has_closed(self, user: str, common: str, but: str) -> bool:
        assert (user, common) in self._about.tries
        return self._rows.has_closed(user, common, but)

    def open_requests(self) -> list[StoredRequest]:
        assert self._about.everything
        return self._rows.open_requests()

    def waiting_starts(self) -> list[str]:
        assert self._about.everything
        return self._rows.waiting_starts()

    def names_of(self, client: str) -> list[KeptName]:
        assert client in self._about.clients
        return self._rows.names_of(client)

    def add_use(self, rid: str, script: str) -> None:
        assert rid in self._about.rids
        assert script in self._scripts
        self._rows.add_use(rid, script)

    def end_uses(self, rid: str) -> list[str]:
        assert self._about.everything or rid in self._about.users_of_scripts
        return self._rows.end_uses(rid)

    def is_wanted(self, script: str) -> bool:
        assert self._is_touched(script)
        return self._rows.is_wanted(script)

    def feeds_of(self, user: str) -> Collection[str]:
        assert user in self._about.followed
        return self._rows.feeds_of(user)

    def shares_of(self, reservation: str) -> Collection[ShareRow]:
        assert reservation in self._about.shared
        return self._rows.shares_of(reservation)

    def receivers(self, user: str) -> Collection[str]:
        assert user in self._users
        return self._rows.receivers(user)

    def post(self, notice: RequestNotice) -> None:
        assert notice.user in self._users
        self._rows.post(notice)

    def take_notices(self, numbers: Sequence[int]) -> bool:
        assert self._about.notices >= set(numbers)
        return self._rows.take_notices(numbers)

    def put_delivery(self, delivery: Delivery) -> None:
        assert delivery.id in self._about.deliveries
        self._rows.put_delivery(delivery)

    def drop_delivery(self, id: str) -> None:
        assert id in self._about.deliveries
        self._rows.drop_delivery(id)

    def owners_of(self, name: str) -> list[str]:
        assert name in self._about.replicas
        return self._rows.owners_of(name)

    def all_listed_sites(self) -> list[ListedSite]:
        assert self._about.listed_sites
        return self._rows.all_listed_sites()

    @property
    def clock(self) -> int | None:
        assert self._about.clock
        return self._rows.clock

    @clock.setter
    def clock(self, value: int | None) -> None:
        assert self._about.clock
        self._rows.clock = value

    @property
    def put_back(self) -> bool:
        assert self._about.put_back or self._about.everything
        return self._rows.put_back

    @put_back.setter
    def put_back(self, value: bool) -> None:
        assert self._about.put_back or self._about.everything
        self._rows.put_back = value


class TwinRegister:
    """A replica of a register that is `rows`; see `tests.support.registers.Replica`."""

    def __init__(self, rows: TwinRows) -> None:
        self.rows = rows

    def carry_out(self, writes: Sequence[Write]) -> list[Result]:
        """Decide `writes` on what they name, and fail if they look at more."""
        guarded = GuardedRows(self.rows, touched(writes))
        # What is answered is what was decided then, whatever is decided afterwards.
        return [copy.deepcopy(decide(guarded, write)) for write in writes]

    @property
    def reads(self) -> Any:
        from tests.support.twin_reads import TwinReads  # It stands on these rows.

        return TwinReads(self.rows)

    async def fill(self, rows: TwinRows) -> None:
        self.rows.requests |= rows.requests
        self.rows.starts |= rows.starts
        self.rows.endings |= rows.endings

    async def run(self, writes: Sequence[Write]) -> list[Result]:
        return self.carry_out(writes)

    async def tables(self) -> Tables:
        return self.rows.tables()
