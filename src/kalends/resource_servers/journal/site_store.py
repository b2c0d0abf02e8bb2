"""A site's store: the journal of facts, and for each request the fact that stands.

========== =================================================================================
table      rows
========== =================================================================================
journal    every fact about a stake in order: who (`rid`), what did it (`event`), the whole stake
stake      for each request that is needed: the journal row that is true now; whether all have locked it
reclaim    each time that the owner has taken back, by its key
register   each register that has been heard of
node_grant each reservation that a batch system has been asked for
meta       name and value: owner, secret, epoch, horizon_s, draining, recovering, time surely passed
life       each opening: its random name, and the journal's position then
========== =================================================================================

The tables of jobs are in `kalends.batch.journal.job_journal`, those of what jobs used in batch systems in
`slot_table`, deliveries that wait to be sent in `kalends.notices.delivery_table`.

A stake that is no longer needed leaves a row ``dropped`` in the journal, so that the journal alone
tells what is in the tables. Rows that are true no more are pruned from the front when they are old.
Nothing here waits or uses threads: a simulation may keep a store for every site.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from kalends.batch.journal import job_journal
from kalends.batch.journal.job_journal import JobEntries, JobOver, ReservedTime
from kalends.core.errors import StoreDamaged
from kalends.notices import delivery_table
from kalends.notices.delivery import Delivery
from kalends.notices.delivery_table import DeliveriesDone
from kalends.resource_servers.journal import slot_table
from kalends.resource_servers.journal.slot_table import SlotFact
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeDropped,
    StakeForgotten,
    StakeStored,
    TimeClosed,
    decode_stake,
)
from kalends.resource_servers.participation.claims.claims_at_rest import Restored
from kalends.resource_servers.participation.effects import SiteFact
from kalends.resource_servers.participation.memory.past import Past, RecoveryChanged
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.memory.unreadable import (
    SetAside,
    UnreadableReclaim,
    UnreadableStake,
)
from kalends.resource_servers.participation.provision.grants import (
    GrantDropped,
    GrantStored,
    NodeGrant,
    decode_grant,
)
from kalends.resource_servers.participation.provision.slots import NO_SLOTS, KnownSlots
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    Reclaimed,
    ReclaimStored,
    decode_reclaim,
)
from kalends.resource_servers.participation.registers import (
    KnownRegister,
    RegisterStored,
    decode_register,
)
from kalends.stores.sqlite.maintenance import RECOVERING
from kalends.stores.sqlite.sqlite_file import (
    StoreFile,
    StoreKind,
    open_store,
    read_meta,
    write_meta,
)

T = TypeVar("T")

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
create table reclaim (key text primary key, body blob not null) without rowid;
create table register (id text primary key, body blob not null) without rowid;
create table node_grant (number integer primary key, body blob not null);
create table meta (name text primary key, value not null) without rowid;
insert into meta values ('secret', lower(hex(randomblob(32))));
create table life (number integer primary key, life text not null, seq integer not null);
"""

SCHEMA: Final = CLAIMS + job_journal.SCHEMA + delivery_table.DELIVERIES + slot_table.SLOTS

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
    "select rid, ends_at from stake where not exists"
    " (select 1 from journal where journal.seq = stake.seq and journal.rid = stake.rid)"
)

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""What bytes raise that are not what was stored: a flipped bit in a text is no error of msgspec's own."""

DROPPED: Final = "dropped"
HORIZON: Final = "horizon_s"
DRAINING: Final = "draining"

PRUNE_ROWS_MAX: Final = 5_000
"""Journal rows looked at in one step of pruning: a few milliseconds."""


class Loaded(NamedTuple):
    stakes: Restored
    forgotten: list[str]
    horizon_s: int
    epoch: int
    reclaims: list[Reclaimed]
    set_aside: SetAside
    """What cannot be read."""
    passed: TimePassed
    registers: list[KnownRegister]
    past: Past = Past()
    recovering: bool = False
    grants: Sequence[NodeGrant] = ()
    slots: KnownSlots = NO_SLOTS


class Setting(NamedTuple):
    """To be stored: a number in ``meta``."""

    name: str
    value: int


class Prune(NamedTuple):
    """To be done: one step of pruning (see `SiteStore.prune_step`)."""

    before_ms: int


SiteOperation = (
    SiteFact | Setting | Prune | JobEntries | JobOver | ReservedTime | Delivery | DeliveriesDone
)


class SiteStore:
    """The open store of one site. Not thread-safe; one writer at a time."""

    def __init__(self, file: StoreFile, life: str = "") -> None:
        self.file = file
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
        """Every stake that is needed, oldest fact first, and every reclaim, as far as they can be read.

        Raises `StoreDamaged` when the file itself cannot be read.
        """
        stakes = Restored()
        forgotten: list[str] = []
        unreadable: list[UnreadableStake] = []
        reclaims: list[Reclaimed] = []
        lost: list[UnreadableReclaim] = []
        try:
            for rid, ends_at, told, body in self.file.connection.execute(STANDING):
                try:
                    stake = stake_of(rid, body)
                    stakes.take(stake, body)
                    if told:
                        forgotten.append(stake.rid)
                except UNREADABLE as error:
                    unreadable.append(UnreadableStake(rid, ends_at, str(error)))
            for rid, ends_at in self.file.connection.execute(STANDING_NOWHERE):
                detail = "its row in the journal is missing"
                unreadable.append(UnreadableStake(rid, ends_at, detail))
            found = self.file.connection.execute(
                "select key, cast(body as blob) from reclaim order by key"
            )
            for key, body in found:
                try:
                    reclaims.append(decode_reclaim(body))
                except UNREADABLE as error:
                    lost.append(UnreadableReclaim(key, str(error)))
            # One that cannot be read is as one that never came: its broker binds it again.
            registers = self._readable("register", "id", decode_register)
            # One that cannot be read is made anew for its claims, and swept by its name.
            grants = self._readable("node_grant", "number", decode_grant)
            slots = slot_table.known_slots(self.file.connection)
        except sqlite3.DatabaseError as error:
            raise StoreDamaged(
                f"a claim set or a reclaim in it cannot be read: {error}",
                where=str(self.file.path),
                remedy=f"see kalends admin doctor {quote(str(self.file.path))}, and restore a backup",
            ) from error
        return Loaded(
            stakes=stakes,
            forgotten=forgotten,
            horizon_s=self.setting(HORIZON),
            epoch=self.epoch,
            reclaims=reclaims,
            set_aside=SetAside(unreadable, lost),
            registers=registers,
            past=self.past,
            recovering=bool(self.setting(RECOVERING)),
            grants=grants,
            slots=slots,
            passed=TimePassed(*(self.setting(name) for name in TimePassed.__struct_fields__)),
        )

    def _readable(self, table: str, key: str, decode: Callable[[bytes], T]) -> list[T]:
        """Return what can be read in a table of bodies, in the order of its key."""
        read = []
        for (body,) in self.file.connection.execute(
            f"select cast(body as blob) from {table} order by {key}"
        ):
            with contextlib.suppress(*UNREADABLE):
                read.append(decode(body))
        return read

    def setting(self, name: str) -> int:
        """A number in ``meta``; 0 when it was never set."""
        return int(read_meta(self.file.connection, name))

    def apply(self, facts: Sequence[SiteFact], at_ms: int) -> None:
        """Store `facts` in one transaction; when this raises `sqlite3.Error` none of them is.

        `at_ms` is UTC, for people who read the journal.
        """
        connection = self.file.connection
        connection.execute("begin immediate")
        try:
            self.write(connection, facts, at_ms)
            connection.execute("commit")
        except BaseException:
            connection.rollback()
            raise

    def write(self, connection: sqlite3.Connection, facts: Sequence[SiteFact], at_ms: int) -> None:
        """Do as `apply`, in the caller's transaction."""
        seq = self._last_seq
        journal: list[tuple[int, int, str, str, bytes]] = []
        standing: dict[str, tuple[str, int, int]] = {}
        dropped: set[str] = set()
        forgotten: list[tuple[str]] = []
        for fact in facts:
            if isinstance(fact, StakeStored):
                seq += 1
                journal.append((seq, at_ms, fact.rid, fact.event, fact.body))
                standing[fact.rid] = (fact.rid, seq, fact.ends_at)
                dropped.discard(fact.rid)
            elif isinstance(fact, StakeDropped):
                seq += 1
                journal.append((seq, at_ms, fact.rid, DROPPED, b""))
                standing.pop(fact.rid, None)
                dropped.add(fact.rid)
            elif isinstance(fact, StakeForgotten):
                forgotten.append((fact.rid,))
            elif isinstance(fact, ReclaimStored):
                row = (fact.key, fact.body)
                connection.execute("insert or replace into reclaim values (?, ?)", row)
            elif isinstance(fact, RegisterStored):
                row = (fact.register, fact.body)
                connection.execute("insert or replace into register values (?, ?)", row)
            elif isinstance(fact, GrantStored):
                connection.execute(
                    "insert or replace into node_grant values (?, ?)", (fact.number, fact.body)
                )
            elif isinstance(fact, GrantDropped):
                connection.execute("delete from node_grant where number = ?", (fact.number,))
            elif isinstance(fact, SlotFact):
                slot_table.store_fact(connection, fact)
            elif isinstance(fact, ReclaimDropped):
                connection.execute("delete from reclaim where key = ?", (fact.key,))
            elif isinstance(fact, TimeClosed):
                write_meta(connection, HORIZON, fact.horizon_s)
            elif isinstance(fact, RecoveryChanged):
                write_meta(connection, RECOVERING, int(fact.on))
            else:
                assert isinstance(fact, TimePassed)
                for name, value in msgspec.structs.asdict(fact).items():
                    write_meta(connection, name, value)
        connection.executemany("insert into journal values (?, ?, ?, ?, ?)", journal)
        connection.executemany(STAND, standing.values())
        if forgotten:
            connection.executemany("update stake set forgotten = 1 where rid = ?", forgotten)
        if dropped:
            connection.executemany("delete from stake where rid = ?", [(rid,) for rid in dropped])
        # A transaction that is rolled back leaves a gap in the numbers, which means nothing.
        self._last_seq = seq

    def carry_out(
        self,
        connection: sqlite3.Connection,
        operations: Sequence[SiteOperation],
        at_ms: int,
    ) -> list[int | None]:
        """Everything that a running site asks of its store, within a transaction; for group commit.

        The result of a `Prune` is that of `prune_step`; the others have none.
        """
        results: list[int | None] = [None] * len(operations)
        facts: list[SiteFact] = []
        for number, operation in enumerate(operations):
            if isinstance(operation, Setting):
                write_meta(connection, operation.name, operation.value)
            elif isinstance(operation, JobEntries):
                job_journal.store_entries(connection, operation)
            elif isinstance(operation, JobOver):
                job_journal.store_over(connection, operation)
            elif isinstance(operation, ReservedTime):
                job_journal.store_reserved(connection, operation)
            elif isinstance(operation, Delivery):
                delivery_table.store_delivery(connection, operation)
            elif isinstance(operation, DeliveriesDone):
                delivery_table.remove_deliveries(connection, operation)
            elif isinstance(operation, Prune):
                results[number] = self.prune_step(connection, operation.before_ms)
            else:
                facts.append(operation)
        self.write(connection, facts, at_ms)
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


def stake_of(rid: str, body: bytes) -> Stake:
    """The stake of `rid` that `body` holds; raises `msgspec.DecodeError` when it does not."""
    stake = decode_stake(body)
    if stake.rid != rid:
        raise msgspec.DecodeError(f"it is the claim set of {stake.rid}")
    return stake


def problems_of(connection: sqlite3.Connection) -> list[str]:
    """Return the faults in the tables of a site's store; reads the whole journal, writes nothing."""
    problems = []
    standing: dict[str, tuple[int, int]] = {}
    for seq, rid, event, body in connection.execute(
        "select seq, rid, event, cast(body as blob) from journal order by seq"
    ):
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
    version=1,
    schema=SCHEMA,
    problems_of=problems_of,
)
