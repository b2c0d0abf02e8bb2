"""The tables of a site's store: see `kalends.resource_servers.journal.sqlite.site_store`.

Besides: `setting` has the numbers of `meta`, `site_secret` what proves the marks of the site; `replica` has
one row, that of the life that may write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from kalends.batch.journal.postgres import job_tables
from kalends.core.conversion import UNREADABLE
from kalends.notices.delivery import DeliveriesDone, Delivery, StoredDeliveries, read_deliveries
from kalends.resource_servers.journal.contract import DRAINING, MORNING, Loaded, Setting
from kalends.resource_servers.journal.postgres import booked_once, booked_units, slot_table
from kalends.resource_servers.journal.standing_stakes import (
    FollowedStakes,
    StandingStakes,
    readable,
)
from kalends.resource_servers.participation.claims.claim_sets import TimeClosed
from kalends.resource_servers.participation.credits.entries import decode_entry
from kalends.resource_servers.participation.effects import EntriesFolded, EntryStored
from kalends.resource_servers.participation.memory.past import Past, RecoveryChanged
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.memory.unreadable import SetAside, UnreadableReclaim
from kalends.resource_servers.participation.provision.grants import (
    GrantDropped,
    GrantStored,
    decode_grant,
)
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    ReclaimStored,
    decode_reclaim,
)
from kalends.resource_servers.participation.registers import RegisterStored, decode_register
from kalends.stores.postgres.migrations import Migration, StoreSchema
from kalends.stores.postgres.readers import SlowReader
from kalends.stores.postgres.session import Statement, WriterSession
from kalends.stores.postgres.tables import KeyedTable, TableWrites
from kalends.stores.store_part import StorePart, handlers_of

T = TypeVar("T")

_CLAIMS: Final = """
create table journal (
    seq   bigint primary key,
    at_ms bigint not null,
    rid   text collate "C" not null,
    event text collate "C" not null,
    body  bytea not null
);
create table stake (
    rid       text collate "C" primary key,
    seq       bigint not null,
    ends_at   bigint not null,
    forgotten boolean not null default false
) with (fillfactor = 80);
create table register (id text collate "C" primary key, body bytea not null);
create table setting (name text collate "C" primary key, value bigint not null);
create table site_secret (secret text not null);
insert into site_secret values (replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''));
create table life (number bigint primary key, life text collate "C" not null, seq bigint not null);
create table reclaim (key text collate "C" primary key, body bytea not null);
create table node_grant (number bigint primary key, body bytea not null);
create table letter (
    number bigint generated always as identity primary key,
    id     text collate "C" not null unique,
    body   bytea not null
);
"""

_CREDITS: Final = """
create table credit (
    key    text collate "C" primary key,
    number bigint not null,
    body   bytea not null
);
"""
"""An older program would lock without charging, so it may no longer use the store."""

SCHEMA: Final = StoreSchema(
    "site",
    (
        Migration(
            1,
            1,
            _CLAIMS
            + job_tables.SCHEMA
            + slot_table.SCHEMA
            + booked_once.SCHEMA
            + booked_units.SCHEMA,
        ),
        Migration(2, 2, _CREDITS),
    ),
)

JOURNAL: Final = KeyedTable(
    "journal",
    {"seq": "bigint"},
    {"at_ms": "bigint", "rid": "text", "event": "text", "body": "bytea"},
    appends=True,
)

STAKE: Final = KeyedTable("stake", {"rid": "text"}, {"seq": "bigint", "ends_at": "bigint"})
"""What all have locked stays so, whatever becomes of it later."""

_REGISTER: Final = KeyedTable("register", {"id": "text"}, {"body": "bytea"})
_SETTING: Final = KeyedTable("setting", {"name": "text"}, {"value": "bigint"})
_RECLAIM: Final = KeyedTable("reclaim", {"key": "text"}, {"body": "bytea"})
_GRANT: Final = KeyedTable("node_grant", {"number": "bigint"}, {"body": "bytea"})
_CREDIT: Final = KeyedTable("credit", {"key": "text"}, {"number": "bigint", "body": "bytea"})
_LETTER: Final = KeyedTable("letter", {"id": "text"}, {"body": "bytea"})

HORIZON: Final = "horizon_s"
RECOVERING: Final = "recovering"
STAKES_A_MESSAGE: Final = 10_000

_FOLLOWED: Final = (
    "select journal.seq, journal.rid, stake.ends_at, journal.body from journal"
    " left join stake on stake.rid = journal.rid and stake.seq = journal.seq"
    " where journal.seq > {} and (stake.rid is not null or journal.event = 'dropped')"
    " order by journal.seq"
)
"""What stands behind a fact, and what has been dropped."""

_SUMS: Final = "select count(*), coalesce(sum(seq), 0)::bigint from stake"
_FORGOTTEN: Final = "select rid from stake where forgotten order by seq"
_STANDING_NOWHERE: Final = (
    "select rid, ends_at from stake where not exists"
    " (select 1 from journal where journal.seq = stake.seq and journal.rid = stake.rid)"
)


def _set(writes: TableWrites, name: str, value: int) -> None:
    writes.put(_SETTING, (name,), (value,))


def _pass_time(writes: TableWrites, fact: TimePassed) -> None:
    for name, value in msgspec.structs.asdict(fact).items():
        _set(writes, name, value)


def _drop_letters(writes: TableWrites, done: DeliveriesDone) -> None:
    for name in done.ids:
        writes.drop(_LETTER, name)


def _enter(writes: TableWrites, entry: EntryStored) -> None:
    writes.put(_CREDIT, (entry.key,), (entry.number, entry.body))


def _fold(writes: TableWrites, fact: EntriesFolded) -> None:
    for key in fact.keys:
        writes.drop(_CREDIT, key)
    for each in fact.carried:
        _enter(writes, each)


_KERNEL: Final = StorePart[TableWrites](
    _CLAIMS,
    {
        RegisterStored: lambda writes, fact: writes.put(_REGISTER, (fact.register,), (fact.body,)),
        Setting: lambda writes, setting: _set(writes, setting.name, setting.value),
        TimeClosed: lambda writes, fact: _set(writes, HORIZON, fact.horizon_s),
        RecoveryChanged: lambda writes, fact: _set(writes, RECOVERING, int(fact.on)),
        TimePassed: _pass_time,
        ReclaimStored: lambda writes, fact: writes.put(_RECLAIM, (fact.key,), (fact.body,)),
        ReclaimDropped: lambda writes, fact: writes.drop(_RECLAIM, fact.key),
        GrantStored: lambda writes, fact: writes.put(_GRANT, (fact.number,), (fact.body,)),
        GrantDropped: lambda writes, fact: writes.drop(_GRANT, fact.number),
        EntryStored: _enter,
        EntriesFolded: _fold,
        Delivery: lambda writes, each: writes.put(
            _LETTER, (each.id,), (msgspec.msgpack.encode(each),)
        ),
        DeliveriesDone: _drop_letters,
    },
)

HANDLERS: Final = handlers_of((_KERNEL, job_tables.PART, slot_table.PART))
"""The part that carries out each kind of operation, except facts of stakes."""


def follow(session: WriterSession, followed: FollowedStakes) -> None:
    """Take the next facts into `followed`, if there are any; raises `psycopg.Error`."""
    page = f"{_FOLLOWED.format('$1::bigint')} limit {STAKES_A_MESSAGE}"
    for row in session.message([Statement(page, (followed.upto,))])[0]:
        followed.take(*row)


def load(reader: SlowReader, followed: FollowedStakes, past: Past, epoch: int) -> Loaded:
    """Read what a life begins with, behind what is `followed` already; raises `Unavailable`."""
    standing = _standing(reader, followed)
    reclaims, unreadable = _reclaims(reader)
    # One that cannot be read is as one that never came: its broker binds it again.
    registers = _decoded(reader, "select body from register order by id", decode_register)
    numbers = {row[0]: row[1] for row in reader.rows("select name, value from setting")}
    return Loaded(
        stakes=standing.stakes,
        forgotten=standing.forgotten,
        horizon_s=numbers.get(HORIZON, 0),
        epoch=epoch,
        reclaims=reclaims,
        set_aside=SetAside(standing.unreadable, unreadable),
        registers=registers,
        past=past,
        recovering=bool(numbers.get(RECOVERING)),
        draining=numbers.get(DRAINING, 0),
        morning=numbers.get(MORNING, 0),
        grants=_decoded(reader, "select body from node_grant order by number", decode_grant),
        slots=slot_table.known_slots(reader),
        credits=[
            decode_entry(body)
            for (body,) in reader.rows("select body from credit order by number, key")
        ],
        passed=TimePassed(*(numbers.get(name, 0) for name in TimePassed.__struct_fields__)),
    )


def stored_deliveries(reader: SlowReader) -> StoredDeliveries:
    """Read all of them, in the order in which each was first stored."""
    return read_deliveries(reader.rows("select id, body from letter order by number"))


def _standing(reader: SlowReader, followed: FollowedStakes) -> StandingStakes:
    _catch_up(reader, followed)
    if reader.rows(_SUMS) != [(len(followed), followed.numbers)]:
        # A fact was pruned before it was seen, or the journal is damaged.
        followed = FollowedStakes()
        _catch_up(reader, followed)
        for rid, ends_at in reader.rows(_STANDING_NOWHERE):
            followed.lose(rid, ends_at)
    return followed.standing(rid for (rid,) in reader.rows(_FORGOTTEN))


def _catch_up(reader: SlowReader, followed: FollowedStakes) -> None:
    for rows in reader.pages(_FOLLOWED.format(followed.upto), STAKES_A_MESSAGE):
        for row in rows:
            followed.take(*row)


def _reclaims(reader: SlowReader) -> tuple[list[Reclaimed], list[UnreadableReclaim]]:
    found: list[Reclaimed] = []
    unreadable = []
    for key, body in reader.rows("select key, body from reclaim order by key"):
        try:
            found.append(decode_reclaim(body))
        except UNREADABLE as error:
            unreadable.append(UnreadableReclaim(key, str(error)))
    return found, unreadable


def _decoded(reader: SlowReader, sql: str, decode: Callable[[bytes], T]) -> list[T]:
    return readable((body for (body,) in reader.rows(sql)), decode)
