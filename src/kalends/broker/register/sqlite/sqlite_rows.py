"""The rows of a register in its SQLite file: what decisions look at, a statement for each look.

Who writes has the whole file to itself: nothing is locked, and nothing is read ahead.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from kalends.broker.register.found_rows import named
from kalends.broker.register.rows import KeptName, StoredEnd, StoredStart, Table
from kalends.broker.register.sqlite import share_table
from kalends.broker.register.stored_request import StoredRequest
from kalends.broker.register.writes import Feed, ListedSite, NoticeAddress, ShareRow
from kalends.contract.messages import Mark
from kalends.notices import delivery_table
from kalends.notices.delivery import DeliveriesDone, Delivery
from kalends.notices.request_notice import RequestNotice
from kalends.stores.sqlite.maintenance import RECOVERING
from kalends.stores.sqlite.sqlite_file import read_meta, write_meta
from kalends.stores.sqlite.upserts import upsert

K = TypeVar("K")
V = TypeVar("V")


class _Kind(NamedTuple, Generic[K, V]):
    """The statements of a table. `value` is made of all columns, and `row` has them; the key's come first."""

    select: str
    put: str
    delete: str
    value: Callable[..., V]
    row: Callable[[K, V], tuple[Any, ...]]


class _SqliteTable(Generic[K, V]):
    """See `kalends.broker.register.rows.Table`."""

    def __init__(self, connection: sqlite3.Connection, kind: _Kind[K, V]) -> None:
        self._connection = connection
        self._kind = kind

    def get(self, key: K, /) -> V | None:
        columns = self._connection.execute(self._kind.select, _values(key)).fetchone()
        return self._kind.value(*columns) if columns is not None else None

    def __setitem__(self, key: K, value: V, /) -> None:
        self._connection.execute(self._kind.put, self._kind.row(key, value))

    def pop(self, key: K, default: None, /) -> None:
        self._connection.execute(self._kind.delete, _values(key))


def _values(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _kind(
    table: str, key: str, others: str,
    value: Callable[..., V], row: Callable[[K, V], tuple[Any, ...]],
) -> _Kind[K, V]:  # fmt: skip
    """Return the kind of the columns of `key` and then `others`, each a text of names."""
    keys, rest = key.split(), others.split()
    where = f"from {table} where {' and '.join(f'{each} = ?' for each in keys)}"
    select = f"select {_read(keys + rest)} {where}"
    return _Kind(select, upsert(table, keys, rest), f"delete {where}", value, row)


def _read(columns: Sequence[str]) -> str:
    """Return `columns` as they are read: a damaged blob may be stored as a text."""
    return ", ".join(
        f"cast({each} as blob)" if each in ("body", "secret") else each for each in columns
    )


def _request(*columns: Any) -> StoredRequest:
    rid, user, key, reservation, att, state, owner, done, body, begins = columns
    return StoredRequest(rid, user, key, reservation, att, state, owner, bool(done), body, begins)


def _kept_name(client: str, *columns: Any) -> KeptName:
    return KeptName(named(*columns[:-1]), bool(columns[-1]))


def _name_row(key: tuple[str, str], kept: KeptName) -> tuple[Any, ...]:
    name, script, size_bytes, functions, uploaded_ms = kept.named
    return (key[0], name, script, size_bytes, " ".join(functions), uploaded_ms, kept.deleted)


_OF_REQUEST: Final = "client key reservation att state owner done body begins"
_OF_NAME: Final = "hash size_bytes functions uploaded_ms deleted"

_REQUESTS: Final[_Kind[str, StoredRequest]] = _kind(
    "request", "rid", _OF_REQUEST, _request, lambda rid, request: request
)
_STARTS: Final[_Kind[str, StoredStart]] = _kind(
    "start", "rid", "site places again",
    lambda rid, site, places, again: StoredStart(site, places, bool(again)),
    lambda rid, start: (rid, *start),
)  # fmt: skip
_ENDINGS: Final[_Kind[str, StoredEnd]] = _kind(
    "ending", "rid", "at body",
    lambda rid, *ending: StoredEnd(*ending), lambda rid, ending: (rid, *ending),
)  # fmt: skip
_SOURCES: Final[_Kind[str, str]] = _kind(
    "script", "hash", "source",
    lambda script, source: str(source), lambda script, source: (script, source),
)  # fmt: skip
_NAMES: Final[_Kind[tuple[str, str], KeptName]] = _kind(
    "script_name", "client name", _OF_NAME, _kept_name, _name_row
)
_ADDRESSES: Final[_Kind[tuple[str, str], NoticeAddress]] = _kind(
    "notice_address", "client receiver", "zone added_at secret remind_s reminded_at",
    NoticeAddress, lambda key, address: address,
)  # fmt: skip
_FEEDS: Final[_Kind[tuple[str, str], Feed]] = _kind(
    "feed", "client name", "hash added_at", Feed, lambda key, feed: feed
)
_SHARES: Final[_Kind[tuple[str, str], ShareRow]] = _kind(
    "share", "reservation party", "may client at until", ShareRow, lambda key, share: share
)
_BEATS: Final[_Kind[str, int]] = _kind(
    "replica",
    "owner",
    "beats",
    lambda owner, beats: int(beats),
    lambda owner, beats: (owner, beats),
)
_LIVES: Final[_Kind[str, int]] = _kind(
    "life", "life", "position",
    lambda life, position: int(position), lambda life, position: (life, position),
)  # fmt: skip
_SITES: Final[_Kind[str, Mark]] = _kind(
    "site", "name", "life position proof",
    lambda name, *mark: Mark(*mark), lambda name, mark: (name, mark.life, mark.position, mark.proof),
)  # fmt: skip
_OF_LISTED_SITE: Final = "url ca passes made_at state since named_by until"


def listed_site(*columns: Any) -> ListedSite:
    name, key, url, ca, passes, *rest = columns
    return ListedSite(name, key, url, ca, bool(passes), *rest)


_LISTED_SITES: Final[_Kind[tuple[str, str], ListedSite]] = _kind(
    "listed_site", "name key", _OF_LISTED_SITE, listed_site, lambda key, site: site
)
ALL_LISTED_SITES: Final = (
    f"select name, key, {', '.join(_OF_LISTED_SITE.split())} from listed_site order by name, key"
)
REQUEST_COLUMNS: Final = _read(["rid", *_OF_REQUEST.split()])


class SqliteRows:
    """See `kalends.broker.register.rows.Rows`: within the open transaction of `connection`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.requests: Table[str, StoredRequest] = _SqliteTable(connection, _REQUESTS)
        self.starts: Table[str, StoredStart] = _SqliteTable(connection, _STARTS)
        self.endings: Table[str, StoredEnd] = _SqliteTable(connection, _ENDINGS)
        self.sources: Table[str, str] = _SqliteTable(connection, _SOURCES)
        self.names: Table[tuple[str, str], KeptName] = _SqliteTable(connection, _NAMES)
        self.addresses: Table[tuple[str, str], NoticeAddress] = _SqliteTable(connection, _ADDRESSES)
        self.feeds: Table[tuple[str, str], Feed] = _SqliteTable(connection, _FEEDS)
        self.shares: Table[tuple[str, str], ShareRow] = _SqliteTable(connection, _SHARES)
        self.beats: Table[str, int] = _SqliteTable(connection, _BEATS)
        self.lives: Table[str, int] = _SqliteTable(connection, _LIVES)
        self.sites: Table[str, Mark] = _SqliteTable(connection, _SITES)
        self.listed_sites: Table[tuple[str, str], ListedSite] = _SqliteTable(
            connection, _LISTED_SITES
        )

    def of_key(self, user: str, key: str) -> StoredRequest | None:
        found = self._requests("client = ? and key = ?", user, key)
        return found[0] if found else None

    def reservation(self, reservation: str) -> list[StoredRequest]:
        # Only changes are in an index of their own, for most are never changed.
        of_it = "(rid = ? or (reservation = ? and reservation != rid)) order by rid"
        return self._requests(of_it, reservation, reservation)

    def has_closed(self, user: str, common: str, but: str) -> bool:
        found = self._connection.execute(
            "select 1 from request where client = ? and key > ? and key < ? and rid != ?"
            " and state = 'closed' limit 1",
            (user, f"{common} ", f"{common}!", but),
        )
        return found.fetchone() is not None

    def open_requests(self) -> list[StoredRequest]:
        return self._requests("state = 'open'")

    def waiting_starts(self) -> Collection[str]:
        return self._texts("select rid from start where site = ''")

    def names_of(self, client: str) -> list[KeptName]:
        found = self._connection.execute(
            "select * from script_name where client = ? order by name", (client,)
        )
        return [_kept_name(*columns) for columns in found]

    def add_use(self, rid: str, script: str) -> None:
        self._connection.execute(
            "insert into script_use values (?, ?) on conflict do nothing", (rid, script)
        )

    def end_uses(self, rid: str) -> list[str]:
        used = self._texts("select hash from script_use where rid = ?", rid)
        if used:
            self._connection.execute("delete from script_use where rid = ?", (rid,))
        return used

    def is_wanted(self, script: str) -> bool:
        found = self._connection.execute(
            "select 1 from script_name where hash = ? and deleted = 0"
            " union all select 1 from script_use where hash = ?",
            (script, script),
        )
        return found.fetchone() is not None

    def receivers(self, user: str) -> Collection[str]:
        return self._texts("select receiver from notice_address where client = ?", user)

    def feeds_of(self, user: str) -> Collection[str]:
        return self._texts("select name from feed where client = ?", user)

    def shares_of(self, reservation: str) -> Collection[ShareRow]:
        return share_table.shares_of(self._connection, (reservation,))

    def post(self, notice: RequestNotice) -> None:
        body = msgspec.msgpack.encode(notice)
        self._connection.execute(
            "insert into notice (client, body) values (?, ?)", (notice.user, body)
        )

    def take_notices(self, numbers: Sequence[int]) -> bool:
        among = f"from notice where number in ({', '.join('?' * len(numbers))})"
        (here,) = self._connection.execute(f"select count(*) {among}", numbers).fetchone()
        if here < len(numbers):
            return False
        self._connection.execute(f"delete {among}", numbers)
        return True

    def put_delivery(self, delivery: Delivery) -> None:
        delivery_table.store_delivery(self._connection, delivery)

    def drop_delivery(self, id: str) -> None:
        delivery_table.remove_deliveries(self._connection, DeliveriesDone((id,)))

    def owners_of(self, name: str) -> list[str]:
        owners = self._texts("select owner from replica")
        return [each for each in owners if each.startswith(f"{name}:")]

    def all_listed_sites(self) -> list[ListedSite]:
        return [listed_site(*each) for each in self._connection.execute(ALL_LISTED_SITES)]

    @property
    def clock(self) -> int | None:
        found = self._connection.execute("select value from meta where name = 'clock'").fetchone()
        return found[0] if found else None

    @clock.setter
    def clock(self, value: int | None) -> None:
        write_meta(self._connection, "clock", value or 0)

    @property
    def put_back(self) -> bool:
        return bool(read_meta(self._connection, RECOVERING))

    @put_back.setter
    def put_back(self, value: bool) -> None:
        if value:
            write_meta(self._connection, RECOVERING, 1)
        else:
            self._connection.execute("delete from meta where name = ?", (RECOVERING,))

    def _requests(self, where: str, *values: str) -> list[StoredRequest]:
        found = self._connection.execute(
            f"select {REQUEST_COLUMNS} from request where {where}", values
        )
        return [_request(*columns) for columns in found]

    def _texts(self, select: str, *values: str) -> list[str]:
        return [text for (text,) in self._connection.execute(select, values)]
