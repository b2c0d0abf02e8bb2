"""A site's store: the journal of facts, and for each request the fact that stands.

========== =================================================================================
table      rows
========== =================================================================================
journal    every fact about a stake in order: who (`rid`), what did it (`event`), the whole stake;
           and each entry of the ledger, by its key
stake      for each request that is needed: the journal row that is true now; whether all have locked it
register   each register that has been heard of
meta       name and value: owner, secret, epoch, horizon_s, draining, recovering, time surely passed
life       each opening: its random name, and the journal's position then
========== =================================================================================

The tables of its wings are its `PARTS`: what they handle is stored in the same transactions.

A stake that is no longer needed leaves a row ``dropped`` in the journal, so that the journal alone
tells what is in the tables. Rows that are true no more are pruned from the front when they are old.
Nothing here waits or uses threads: a simulation may keep a store for every site.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Final, Literal

import msgspec

from kalends.batch.journal.sqlite import job_tables
from kalends.core.conversion import UNREADABLE
from kalends.core.errors import StoreDamaged
from kalends.notices import delivery_table
from kalends.resource_servers.journal.contract import (
    DRAINING,
    MORNING,
    Loaded,
    Prune,
    Setting,
    SiteOperation,
)
from kalends.resource_servers.journal.sqlite import (
    credit_table,
    grant_table,
    reclaim_table,
    slot_table,
)
from kalends.resource_servers.journal.sqlite.credit_table import CREDIT, stored_entries
from kalends.resource_servers.journal.sqlite.grant_table import stored_grants
from kalends.resource_servers.journal.sqlite.reclaim_table import stored_reclaims
from kalends.resource_servers.journal.sqlite.slot_table import known_slots
from kalends.resource_servers.journal.standing_stakes import (
    readable,
    standing_of,
)
from kalends.resource_servers.participation.claims.claim_sets import (
    StakeDropped,
    StakeForgotten,
    StakeStored,
    TimeClosed,
    decode_stake,
)
from kalends.resource_servers.participation.effects import EntryStored
from kalends.resource_servers.participation.memory.past import Past, RecoveryChanged
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.memory.unreadable import SetAside
from kalends.resource_servers.participation.registers import RegisterStored, decode_register
from kalends.stores.moves.tables import META, FileForm
from kalends.stores.sqlite.file_end import FileKind
from kalends.stores.sqlite.maintenance import RECOVERING
from kalends.stores.sqlite.sqlite_file import (
    StoreFile,
    StoreKind,
    open_store,
    read_meta,
    write_meta,
)
from kalends.stores.sqlite.upserts import upsert
from kalends.stores.store_part import StorePart, handlers_of

CLAIMS: Final = """
create table journal (
    seq   integer primary key,
    at_ms integer not null,
    rid   text not null,
    event text not null,
    body  blob not null
);
create table stake (
    rid       text primary key,
    seq       integer not null,
    ends_at   integer not null,
    forgotten integer not null default 0
) without rowid;
create table register (id text primary key, body blob not null) without rowid;
create table meta (name text primary key, value not null) without rowid;
insert into meta values ('secret', lower(hex(randomblob(32))));
create table life (number integer primary key, life text not null, seq integer not null);
"""

PARTS: Final = (
    reclaim_table.PART, grant_table.PART, job_tables.PART, delivery_table.PART, slot_table.PART,
    credit_table.PART,
)  # fmt: skip

SCHEMA: Final = CLAIMS + "".join(part.schema for part in PARTS)

STAND: Final = (
    "insert into stake (rid, seq, ends_at) values (?, ?, ?) on conflict (rid)"
    " do update set seq = excluded.seq, ends_at = excluded.ends_at"
)
"""What all have locked stays so, whatever becomes of it later."""

STANDING: Final = (
    "select stake.rid, ends_at, forgotten, cast(body as blob) from journal"
    " cross join stake on stake.rid = journal.rid and stake.seq = journal.seq order by journal.seq"
)
"""What is true of each request. Reads the journal from its front: half the time of a look for each row."""

STANDING_NOWHERE: Final = (
    "select rid, ends_at, 0, null from stake where not exists"
    " (select 1 from journal where journal.seq = stake.seq and journal.rid = stake.rid)"
)

DROPPED: Final = "dropped"
HORIZON: Final = "horizon_s"

PRUNE_ROWS_MAX: Final = 5_000
"""Journal rows looked at in one step of pruning: a few milliseconds."""


_KEEP_REGISTER: Final = upsert("register", ("id",), ("body",))


class SiteStore:
    """The open store of one site. Not thread-safe; one writer at a time."""

    def __init__(self, file: StoreFile, life: str = "") -> None:
        self.file = file
        self._handlers = handlers_of((_KERNEL, *PARTS))
        self._pruned_seq = 0
        row = file.connection.execute("select max(seq) from journal").fetchone()
        self._last_seq: int = row[0] or 0
        self.past = self._begin_life(life or secrets.token_hex(16))

    @classmethod
    def open(
        cls,
        path: Path,
        site_name: str,
        *,
        sync: Literal["full", "off"] = "full",
        life: str = "",
    ) -> SiteStore:
        """Open or make the store; raises as `kalends.stores.sqlite.sqlite_file.open_store`.

        `life` is the name of the life that begins; a random one when none is given.
        """
        return cls(open_store(path, KIND, site_name, sync=sync), life)

    def _begin_life(self, life: str) -> Past:
        """Write down, durably, that `life` begins; each one before has ended where the next began."""
        connection = self.file.connection
        rows = connection.execute("select life, seq from life order by number").fetchall()
        ends = [seq for _, seq in rows[1:]] + [self._last_seq]
        connection.execute("insert into life (life, seq) values (?, ?)", (life, self._last_seq))
        ended = {name: end for (name, _), end in zip(rows, ends, strict=False)}
        return Past(life, self._last_seq, ended, str(read_meta(connection, "secret")))

    @property
    def epoch(self) -> int:
        """Higher than at any earlier opening of this store."""
        return self.file.epoch

    def load(self) -> Loaded:
        """Raises `StoreDamaged` when the file itself cannot be read."""
        connection = self.file.connection
        try:
            standing = standing_of(
                chain(connection.execute(STANDING), connection.execute(STANDING_NOWHERE))
            )
            reclaims = stored_reclaims(connection)
            # One that cannot be read is as one that never came: its broker binds it again.
            rows = connection.execute("select cast(body as blob) from register order by id")
            registers = readable((body for (body,) in rows), decode_register)
            grants = stored_grants(connection)
            slots = known_slots(connection)
            entries = stored_entries(connection)
        except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
            raise StoreDamaged(
                f"a claim set, a reclaim or an entry of credit in it cannot be read: {error}",
                where=str(self.file.path),
                remedy=f"see kalends admin doctor {quote(str(self.file.path))}, and restore a backup",
            ) from error
        return Loaded(
            stakes=standing.stakes,
            forgotten=standing.forgotten,
            horizon_s=self.setting(HORIZON),
            epoch=self.epoch,
            reclaims=reclaims.reclaims,
            set_aside=SetAside(standing.unreadable, reclaims.unreadable),
            registers=registers,
            past=self.past,
            recovering=bool(self.setting(RECOVERING)),
            draining=self.setting(DRAINING),
            morning=self.setting(MORNING),
            grants=grants,
            slots=slots,
            credits=entries,
            passed=TimePassed(*(self.setting(name) for name in TimePassed.__struct_fields__)),
        )

    def setting(self, name: str) -> int:
        """A number in ``meta``; 0 when it was never set."""
        return int(read_meta(self.file.connection, name))

    def carry_out(
        self,
        connection: sqlite3.Connection,
        operations: Sequence[SiteOperation],
        at_ms: int,
    ) -> list[int | None]:
        """Everything that a running site asks of its store, in the caller's transaction.

        `at_ms` is UTC, for people who read the journal.
        The result of a `Prune` is that of `prune_step`; the others have none.
        """
        results: list[int | None] = [None] * len(operations)
        handlers = self._handlers
        seq = self._last_seq
        journal: list[tuple[int, int, str, str, bytes]] = []
        standing: dict[str, tuple[str, int, int]] = {}
        dropped: set[str] = set()
        forgotten: list[tuple[str]] = []
        for number, operation in enumerate(operations):
            if isinstance(operation, StakeStored):
                seq += 1
                rid = operation.rid
                journal.append((seq, at_ms, rid, operation.event, operation.body))
                standing[rid] = (rid, seq, operation.ends_at)
                dropped.discard(rid)
            elif carry := handlers.get(type(operation)):
                carry(connection, operation)
                if isinstance(operation, EntryStored):
                    seq += 1
                    journal.append((seq, at_ms, operation.key, CREDIT, b""))
            elif isinstance(operation, StakeDropped):
                seq += 1
                journal.append((seq, at_ms, operation.rid, DROPPED, b""))
                standing.pop(operation.rid, None)
                dropped.add(operation.rid)
            elif isinstance(operation, StakeForgotten):
                forgotten.append((operation.rid,))
            else:
                assert isinstance(operation, Prune), operation
                results[number] = self.prune_step(connection, operation.before_ms)
        connection.executemany("insert into journal values (?, ?, ?, ?, ?)", journal)
        connection.executemany(STAND, standing.values())
        if forgotten:
            connection.executemany("update stake set forgotten = 1 where rid = ?", forgotten)
        if dropped:
            connection.executemany("delete from stake where rid = ?", [(rid,) for rid in dropped])
        # A transaction that is rolled back leaves a gap in the numbers, which means nothing.
        self._last_seq = seq
        return results

    def prune_step(self, connection: sqlite3.Connection, before_ms: int) -> int | None:
        """Remove what may go of the next rows; None when all rows were looked at (then it begins anew).

        Rows go from the front only: what stays is what the journal says when it is read from there.
        """
        rows = connection.execute(
            "select seq, at_ms from journal where seq > ? order by seq limit ?",
            (self._pruned_seq, PRUNE_ROWS_MAX),
        ).fetchall()
        old = [seq for seq, at_ms in rows if at_ms < before_ms]
        if len(old) < len(rows):
            # The clock may have been set back: stop at the first row that is young.
            first_young = next(index for index, (_, at_ms) in enumerate(rows) if at_ms >= before_ms)
            old = [seq for seq, _ in islice(rows, first_young)]
        if not old:
            self._pruned_seq = 0
            return None
        self._pruned_seq = old[-1]
        cursor = connection.execute(
            "delete from journal where seq between ? and ?"
            " and seq < (select max(seq) from journal) and not exists"
            " (select 1 from stake where stake.rid = journal.rid and stake.seq = journal.seq)",
            (old[0], old[-1]),
        )
        return cursor.rowcount

    def check(self) -> None:
        """Raises `AssertionError` when the tables are not what the journal says."""
        problems = list(problems_of(self.file.connection))
        assert not problems, problems

    def close(self) -> None:
        self.file.close()


def _keep_register(connection: sqlite3.Connection, fact: RegisterStored) -> None:
    connection.execute(_KEEP_REGISTER, (fact.register, fact.body))


def _set(connection: sqlite3.Connection, setting: Setting) -> None:
    write_meta(connection, setting.name, setting.value)


def _close_time(connection: sqlite3.Connection, fact: TimeClosed) -> None:
    write_meta(connection, HORIZON, fact.horizon_s)


def _change_recovery(connection: sqlite3.Connection, fact: RecoveryChanged) -> None:
    write_meta(connection, RECOVERING, int(fact.on))


def _pass_time(connection: sqlite3.Connection, fact: TimePassed) -> None:
    for name, value in msgspec.structs.asdict(fact).items():
        write_meta(connection, name, value)


_KERNEL: Final = StorePart[sqlite3.Connection](
    CLAIMS,
    {
        RegisterStored: _keep_register,
        Setting: _set,
        TimeClosed: _close_time,
        RecoveryChanged: _change_recovery,
        TimePassed: _pass_time,
    },
)
"""What the kernel stores besides stakes, which it gathers."""


def problems_of(connection: sqlite3.Connection) -> list[str]:
    """Return the faults in the tables of a site's store; reads the whole journal, writes nothing."""
    problems = []
    standing: dict[str, tuple[int, int]] = {}
    for seq, rid, event, body in connection.execute(
        "select seq, rid, event, cast(body as blob) from journal order by seq"
    ):
        if event == CREDIT:
            continue
        if event == DROPPED:
            standing.pop(rid, None)
            continue
        try:
            stake = decode_stake(body)
        except UNREADABLE as error:
            problems.append(f"journal row {seq} of request {rid} cannot be read: {error}")
            continue
        if stake.rid != rid:
            problems.append(f"journal row {seq} of request {rid} holds the claims of {stake.rid}")
        standing[rid] = (seq, stake.ends_at)
    for rid, seq, ends_at in connection.execute("select rid, seq, ends_at from stake"):
        said = standing.pop(rid, None)
        if said != (seq, ends_at):
            problems.append(
                f"request {rid} points at row {seq} until {ends_at}, but the journal has {said}"
            )
    problems += [
        f"request {rid} is in the journal, but not among the claim sets" for rid in standing
    ]
    return problems


KIND: Final = StoreKind(
    name="site",
    application_id=0x6B6C7331,  # "kls1"
    version=2,
    schema=SCHEMA,
    problems_of=problems_of,
)

_LIVES: Final = FileForm(
    ("number", "life", "seq"),
    "select case when number = (select max(number) from life)"
    " then max(number, (select value from meta where name = 'epoch')) else number end as number, life, seq"
    " from life",
)
"""Lives with their numbers in a database, where the number of the last one is the epoch."""

MOVED: Final = FileKind(KIND, {"meta": META, "life": _LIVES})
