"""The tables of a store, made and brought up to date by numbered scripts, and the cluster they are in.

All scripts that are missing run in one transaction, or none. Each row of `schema_version` tells which
kalends can still use the store after its script, so that replicas may be replaced by newer ones one after
the other.

A promoted standby has another timeline, and a database that was brought back from a dump or a file is
another system: then promises may be forgotten in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, NamedTuple

import psycopg
from psycopg import errors

from kalends.core.errors import Conflict, StoreDamaged, Unavailable
from kalends.stores.moves.closures import OPEN, MoveMark, closed
from kalends.stores.postgres import fence
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import (
    BEGIN,
    Statement,
    WriterSession,
    asked,
    committing,
    unreachable,
)

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "synchronous_commit": "on",
        # Whoever has waited for the lock sees what the one before has done.
        "default_transaction_isolation": "read committed",
        "client_min_messages": "warning",
        # Whoever waits longer stands in the way of all who write.
        "lock_timeout": "2s",
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
    }
)

_LOCK: Final = Statement(
    "select pg_advisory_xact_lock($1::integer, current_schema()::regnamespace::oid::integer)",
    (0x6B616C73,),  # "kals"
)

_SCHEMA: Final = Statement(
    "select current_schema(), current_setting('search_path'), current_user,"
    " has_schema_privilege(current_schema(), 'create')"
)

_TABLES: Final = Statement(
    "select relname from pg_class where relnamespace = current_schema()::regnamespace"
    " and relkind in ('r', 'p') order by relname"
)

CLUSTER: Final = Statement(
    "select (select system_identifier::text from pg_control_system()),"
    " ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer"
)

_KEEP_CLUSTER: Final = "update store set system_identifier = $1, timeline = $2"

_LOOK_AGAIN: Final = Statement("select pg_stat_clear_snapshot()")
"""Within a transaction, the server shows the same sessions at each look."""

LOOKS: Final = 20
"""The server shows a session for a moment after its process has ended."""

_WAIT: Final = Statement("select pg_sleep(0.05)")

RECONCILE: Final = "kalends admin reconcile"


class Migration(NamedTuple):
    """A script that makes a store of the version before it one of `version`.

    Programs that know the versions up to `oldest_reader`, at least, may go on using the store.
    """

    version: int
    oldest_reader: int
    script: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.script.encode()).hexdigest()


GROUND: Final = Migration(
    0,
    0,
    f"""
create table schema_version (
    version integer primary key,
    oldest_reader integer not null,
    sha256 text not null
);
create table store (
    kind text not null,
    owner text not null,
    system_identifier text not null,
    timeline integer not null,
    move text not null,
    moved_to text not null
);
create unique index store_is_one on store ((true));
create table revoked (
    number bigint generated always as identity primary key,
    kind text not null,
    id text collate "C" not null,
    note text not null,
    at timestamptz not null default now(),
    unique (kind, id)
);
{fence.TABLE}
""",
)
"""What all stores have, before the first script of their own; for `move` and `moved_to` see `MoveMark`.
`revoked` are tokens and keys: see `kalends.serving.auth.stored_revocations`."""


class DatabaseCluster(NamedTuple):
    """A database cluster, as it is and as it was known; the timeline rises when a standby is promoted."""

    system_identifier: str
    timeline: int


class StoreSchema(NamedTuple):
    """A kind of stores: the scripts that make its tables, numbered from 1."""

    kind: str
    migrations: Sequence[Migration]

    @property
    def version(self) -> int:
        return len(self.migrations)

    @property
    def tables(self) -> list[str]:
        """All tables that these scripts make, and what every store has."""
        scripts = "".join(each.script for each in (GROUND, *self.migrations))
        return re.findall(r"^create table (\w+)", scripts, re.M)

    @property
    def sequences(self) -> list[str]:
        scripts = "".join(each.script for each in self.migrations)
        return re.findall(r"^create sequence (\w+)", scripts, re.M)


class OpenedStore(NamedTuple):
    """The store that was opened, in which cluster, and in which it was when that was last accepted."""

    cluster: DatabaseCluster
    known: DatabaseCluster

    @property
    def is_promoted(self) -> bool:
        """Whether a standby was promoted, or the past brought back, since the cluster was last accepted."""
        return self.cluster != self.known


def open_store(address: Address, schema: StoreSchema, owner: str) -> OpenedStore:
    """Make the store of `owner`, or bring it up to date, and look which cluster it is in.

    Raises `StoreDamaged` for a database that is not ours, of another owner, newer, changed by hand, or
    brought back into another cluster (then nothing was changed), and `Unavailable` where it cannot be
    reached, or others keep it locked.
    """
    with alone(address) as session:
        if is_made(session, address):
            check_store(session, address, schema, owner)
            _bring_up_to_date(session, address, schema)
        else:
            make(session, schema, owner)
        opened = check_store(session, address, schema, owner)
        with committing(session, address):
            session.commit([])
    return opened


def accept_cluster(address: Address, others: Sequence[Statement] = ()) -> DatabaseCluster:
    """Store the present cluster and timeline as the known ones, with `others`.

    Raises `Conflict` while a server uses the store, and as `open_store`.
    """
    with alone(address) as session:
        check_unused(session, address)
        check_not_moved(session, address)
        cluster = _cluster(session)
        with committing(session, address):
            session.commit([Statement(_KEEP_CLUSTER, cluster), *others])
    return cluster


def believe(address: Address, cluster: DatabaseCluster) -> None:
    """Store the timeline of `cluster` as the known one, while servers use the store.

    Raises `Unavailable`.
    """
    session = WriterSession.open(address, SETTINGS)
    try:
        with asked(address), committing(session, address):
            known = Statement(f"{_KEEP_CLUSTER} where system_identifier = $1", cluster)
            session.commit([BEGIN, known])
    finally:
        session.close()


def kind_of(address: Address) -> str:
    """Return the kind of the store at `address`; raises `StoreDamaged` if there is none."""
    session = WriterSession.open(address)
    try:
        with asked(address):
            if not is_made(session, address):
                raise StoreDamaged(
                    "there is no store of kalends in it",
                    where=address.shown,
                    remedy="name the database that holds the store, and its schema, if it has one:"
                    " ?options=-csearch_path%3DSCHEMA",
                )
            return str(session.message([Statement("select kind from store")])[0][0][0])
    finally:
        session.close()


def is_made(session: WriterSession, address: Address) -> bool:
    """Return whether there is a store.

    Raises `StoreDamaged` if others have their tables there, or if there is no place for any.
    """
    ((schema, path, role, may_make),), found = session.message([_SCHEMA, _TABLES])
    tables = [name for (name,) in found]
    if schema is None:
        raise StoreDamaged(
            f"there is no schema for its tables: search_path is {path}",
            where=address.shown,
            remedy=f"make it: create schema NAME authorization {role}; or name another one",
        )
    if tables and "schema_version" not in tables:
        raise _refused(address, f"it has tables that are not of kalends: {', '.join(tables[:3])}")
    if not tables and not may_make:
        raise StoreDamaged(
            f"the role {role} may not make tables in the schema {schema}",
            where=address.shown,
            remedy=f"let the database belong to it: alter database ... owner to {role}; or make a schema"
            f" of its own: create schema NAME authorization {role}",
        )
    return bool(tables)


def make(session: WriterSession, schema: StoreSchema, owner: str, move: str = "") -> None:
    """Make the store of `owner` in the transaction of `session`; `move` closes it (see `MoveMark`)."""
    _run(session, GROUND)
    known = (schema.kind, owner, *_cluster(session), move, "")
    session.message([Statement("insert into store values ($1, $2, $3, $4, $5, $6)", known)])
    for migration in schema.migrations:
        _run(session, migration)


def check_unused(session: WriterSession, address: Address) -> None:
    """Raise `Conflict` while a server uses the store; one that has just ended is waited for."""
    for _ in range(LOOKS):
        if not session.message([_LOOK_AGAIN, fence.CONNECTED])[1]:
            return
        session.message([_WAIT])
    raise Conflict(
        "a server uses this store",
        where=address.shown,
        remedy="stop its servers first; pg_stat_activity shows from which hosts they are connected",
    )


def check_version(session: WriterSession, address: Address, schema: StoreSchema) -> None:
    """Raise `StoreDamaged` unless the scripts of this kalends, and no others, have made the store."""
    rows = session.message([Statement("select version, sha256 from schema_version")])[0]
    if dict(rows) != {each.version: each.sha256 for each in (GROUND, *schema.migrations)}:
        raise StoreDamaged(
            f"another version of kalends has made its tables (version {max(version for version, _ in rows)};"
            f" this one moves version {schema.version})",
            where=address.shown,
            remedy="start its server with this kalends once, which brings the tables up to date; then stop"
            " it, and move the store",
        )


def closure_of(session: WriterSession) -> MoveMark:
    """Return whether a move has closed the store, and why."""
    return MoveMark(*session.message([Statement("select move, moved_to from store")])[0][0])


def check_not_moved(session: WriterSession, address: Address) -> None:
    """Raise `StoreDamaged` if a move has closed the store."""
    if (closure := closure_of(session)) != OPEN:
        raise closed(address.shown, closure)


def problems_of(address: Address, schema: StoreSchema | None = None, owner: str = "") -> list[str]:
    """Return why a server that serves as `owner` would refuse the store at `address`; writes nothing.

    Without `schema`, whatever kind of server it belongs to. Raises `Unavailable`.
    """
    session = WriterSession.open(address)
    try:
        with asked(address):
            if is_made(session, address):
                check_store(session, address, schema, owner)
                if schema is not None:
                    _missing_scripts(session, address, schema)
        return []
    except StoreDamaged as error:
        return [str(error)]
    finally:
        session.close()


def begin_alone(session: WriterSession) -> None:
    """Begin a transaction during which no other process opens the store."""
    session.message([BEGIN, _LOCK])


@contextmanager
def alone(address: Address) -> Iterator[WriterSession]:
    """A transaction during which no other process opens the store; rolled back unless it is committed."""
    session = WriterSession.open(address, SETTINGS)
    try:
        begin_alone(session)
        yield session
    except errors.LockNotAvailable as error:
        raise Unavailable(
            "the store cannot be opened now: another session keeps it, or a table of it, locked",
            where=address.shown,
            remedy="end long transactions in this database: pg_stat_activity lists them",
            retry_after_s=1.0,
        ) from error
    except psycopg.Error as error:
        raise unreachable(address, error) from error
    finally:
        session.close()


def check_store(
    session: WriterSession, address: Address, schema: StoreSchema | None, owner: str
) -> OpenedStore:
    """Return where the store is and was; raises `StoreDamaged` if it is of others, or was brought back.

    Without a `schema`, it may be of others.
    """
    asked = Statement("select kind, owner, system_identifier, timeline from store")
    kind, name, *known = session.message([asked])[0][0]
    if schema is not None and kind != schema.kind:
        raise _refused(address, f"it is the store of a {kind}, not of a {schema.kind}")
    if schema is not None and name != owner:
        raise _refused(address, f"it belongs to {name!r}, not to {owner!r}")
    check_not_moved(session, address)
    opened = OpenedStore(_cluster(session), DatabaseCluster(*known))
    if opened.cluster.system_identifier != opened.known.system_identifier:
        raise StoreDamaged(
            "the store was brought back into another database cluster; promises that were made since"
            " then may be forgotten in it",
            where=address.shown,
            remedy=f"run: {RECONCILE} {address.shown}; then start this server: it takes nothing new until"
            " what it has forgotten is made good or named",
        )
    return opened


def _bring_up_to_date(session: WriterSession, address: Address, schema: StoreSchema) -> None:
    for migration in _missing_scripts(session, address, schema):
        _run(session, migration)


def _missing_scripts(
    session: WriterSession, address: Address, schema: StoreSchema
) -> list[Migration]:
    """Return what has to run yet; raises `StoreDamaged` for a store that is newer, or changed."""
    asked = Statement("select version, oldest_reader, sha256 from schema_version")
    rows = session.message([asked])[0]
    stored = {version: sha256 for version, _, sha256 in rows}
    oldest_reader = max(oldest for _, oldest, _ in rows)
    if oldest_reader > schema.version:
        raise StoreDamaged(
            f"a newer kalends wrote it (version {max(stored)}, which can be used from version {oldest_reader}"
            f" on; this one knows up to {schema.version})",
            where=address.shown,
            remedy="use that newer kalends",
        )
    scripts = (GROUND, *schema.migrations)
    for migration in scripts:
        if stored.get(migration.version, migration.sha256) != migration.sha256:
            raise _refused(
                address,
                f"its version {migration.version} was made by a script that this kalends has not",
            )
    return [each for each in scripts if each.version not in stored]


def _run(session: WriterSession, migration: Migration) -> None:
    # A script of several statements: not as a prepared one.
    session.connection.execute(migration.script.encode(), prepare=False)
    session.message(
        [
            Statement(
                "insert into schema_version values ($1, $2, $3)",
                (migration.version, migration.oldest_reader, migration.sha256),
            )
        ]
    )


def _cluster(session: WriterSession) -> DatabaseCluster:
    return DatabaseCluster(*session.message([CLUSTER])[0][0])


def _refused(address: Address, detail: str) -> StoreDamaged:
    return StoreDamaged(
        detail,
        where=address.shown,
        remedy="name another database as `store`; this one was left as it is",
    )
