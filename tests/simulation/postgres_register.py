"""The register as PostgreSQL behaves: a batch is sent, takes effect, and is answered, each late or never.

A batch is two messages of one session (`kalends.stores.postgres.batches`). With the first it passes its
owner's fence, and locks what `touched` names; then it is decided on the rows as they are. With the second
it commits: from when the standby has it, it is durable, and seen by all. A connection may hang, so that a
batch arrives long after its sender has given up; it may break on either way; and in a failover those who
wait for the standby are stored or lost, a prefix of them, and all sessions end.

What is not simulated: rows whose wait for the standby was cancelled are seen by nobody before it has them.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register.decisions.register_decisions import decide
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.sqlite.request_writes import carry_out
from kalends.broker.register.sqlite.sqlite_rows import SqliteRows
from kalends.broker.register.touched import touched as rows_touched
from kalends.broker.register.writes import LeaseRenewal, Result, Retire, Write
from kalends.broker.replica.leases import LEASE_MS
from tests.simulation.clocks import FASTEST
from tests.simulation.disks import RegisterDisk, Watcher, life_of, rid_of, touched
from tests.simulation.kernel import Kernel, Violation
from tests.support.at_once import at_once

if TYPE_CHECKING:
    from tests.simulation.postgres_broker import PostgresBroker

T = TypeVar("T")

GIVEN_UP_MS: Final = 4_000
"""A sender whose connection is silent for so long gives it up."""

HUNG_MS_MAX: Final = 30_000
READ_MS_MAX: Final = 2_000
LOCK_MS_MAX: Final = 150
"""So long a batch waits for locks before it looks at who has them."""

OWN: Final = (LeaseRenewal, Live, r.Remember, Retire)
"""Writes on rows that nobody else writes, or whose conditions are in their statements: nothing is decided."""

Key = tuple[str, ...]
Change = tuple[str, Sequence[Any]]


@dataclass
class DatabaseTrouble:
    """How likely each fault is, at each chance for it; `sync_ms_max` is how slow the standby is."""

    late: float = 0.0
    hung: float = 0.0
    lost: float = 0.0
    lost_answer: float = 0.0
    cancelled: float = 0.0
    sync_ms_max: int = 20


class Opening(NamedTuple):
    """What a process sees that wants to begin: fences with their beats, and whose sessions last."""

    fences: dict[str, int]
    lasting: frozenset[str]


@dataclass(eq=False)
class Connection:
    """A writer's session, of one life of one process."""

    node: PostgresBroker
    life: int
    owner: str
    ended: bool = False
    left: bool = False
    """Its process is gone, or has given it up: it ends when what is on its way has arrived."""
    on_its_way: int = 0


@dataclass(eq=False)
class Batch:
    """Writes that are stored together. `told` takes their results, and whether the server warned."""

    connection: Connection
    writes: Sequence[Write]
    told: Callable[[Sequence[Result], bool], None]
    enrols: bool = False
    warned: bool = False
    keys: set[Key] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def owner(self) -> str:
        return self.connection.owner

    @property
    def operations(self) -> list[Any]:
        return [each for each in self.writes if not isinstance(each, OWN)]


class _Recorded:
    """A connection of which the statements are kept that change something."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.changes: list[Change] = []

    def execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if not statement.lstrip().startswith("select"):
            self.changes.append((statement, values))
        return self._connection.execute(statement, values)


class RegisterJudge:
    """Keeps its own books of who has stored what, and when; it asks neither fence nor locks."""

    def __init__(self, kernel: Kernel, connection: sqlite3.Connection) -> None:
        self._kernel = kernel
        self._connection = connection
        self._began: dict[str, list[str]] = defaultdict(list)
        """For each replica the owners that have stored something, in the order of their first batches."""
        self._beaten_ms: dict[str, list[int]] = defaultdict(list)
        self._rows: dict[str, tuple[Any, ...]] = {}
        self._positions: dict[str, int] = {}

    def stored(self, owner: str, writes: Iterable[Write]) -> None:
        """A batch is stored: no later owner of this replica has stored anything yet."""
        began = self._began[owner.partition(":")[0]]
        if owner not in began:
            began.append(owner)
        if owner != began[-1]:
            raise Violation(f"a batch of {owner} is stored after one of {began[-1]}")
        if any(isinstance(each, LeaseRenewal) for each in writes):
            self._beaten_ms[owner].append(self._kernel.now_ms)

    def committed(self, life: str, rids: Iterable[str]) -> None:
        """One transaction is over: where requests have changed, their life has moved with them."""
        changed = []
        for rid in sorted(rids):
            row = self._connection.execute(
                "select client, att, state, body from request where rid = ?", (rid,)
            ).fetchone()
            if row is not None and row[0] and self._rows.get(rid) != row:
                self._rows[rid] = row
                changed.append(rid)
        found = self._connection.execute("select position from life where life = ?", (life,))
        position = (found.fetchone() or (0,))[0]
        if changed and position == self._positions.get(life, 0):
            raise Violation(f"{changed} have changed, and the position of their life has not")
        self._positions[life] = position

    def taken_over(self, name: str, owner: str, asked_ms: int) -> None:
        """Who has beaten until a short time before somebody looked is not taken over from."""
        beaten_ms = [each for each in self._beaten_ms[owner] if each <= asked_ms]
        if owner not in self._lasting():  # It was retired: others may go on at once.
            return
        if beaten_ms and asked_ms - beaten_ms[-1] < LEASE_MS / FASTEST - 1:
            raise Violation(f"{name} takes over from {owner}, which beat at {beaten_ms[-1]}")

    def _lasting(self) -> set[str]:
        return {owner for (owner,) in self._connection.execute("select owner from replica")}


class PostgresRegister(RegisterDisk):
    """One primary with its standby; every message to it and from it is an event of its own."""

    def __init__(self, kernel: Kernel, watcher: Watcher) -> None:
        super().__init__(kernel, watcher)
        self.trouble = DatabaseTrouble()
        self.judge = RegisterJudge(kernel, self.connection)
        self.fences: dict[str, int] = {}
        """The beats of all owners who are let in."""
        self.openings = 0
        self._connections: list[Connection] = []
        self._holding: list[Batch] = []
        """Batches that hold locks."""
        self._committing: list[Batch] = []
        """Those of them that wait for the standby, in the order of the log."""
        self._primary = 1
        self._down = False
        self._fails_at_commit = False

    # Connections

    def connect(self, node: PostgresBroker, owner: str) -> Connection:
        connection = Connection(node, node.life, owner)
        self._connections.append(connection)
        if self._down:
            self._break(connection)
        return connection

    def leave(self, connection: Connection) -> None:
        """The client's end is gone; the server notices that behind what is on its way."""
        self._kernel.after(self._kernel.random.randrange(1, 500), self._left, connection)

    def _left(self, connection: Connection) -> None:
        connection.left = True
        if not connection.on_its_way:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """End a session with its open transaction; one that waits for the standby is committed."""
        connection.ended = True
        if connection in self._connections:
            self._connections.remove(connection)
        self._holding = [
            each for each in self._holding
            if each.connection is not connection or each in self._committing
        ]  # fmt: skip

    def _break(self, connection: Connection) -> None:
        """The client hears no more, and finds that out after a while."""
        delay_ms = self._kernel.random.randrange(1, GIVEN_UP_MS)
        node = connection.node
        self._kernel.after(delay_ms, node.enter_life, connection.life, node.store_failed)

    # Faults

    def heal(self) -> None:
        self.trouble = DatabaseTrouble()

    def fail_over_at_commit(self) -> None:
        """Fail over as soon as a batch waits for the standby."""
        self._fails_at_commit = True

    def fail_over(self) -> None:
        """The primary dies, and the standby takes its place: it has some of what was committing."""
        random = self._kernel.random
        self._kernel.fault("failover")
        self._primary += 1
        self._down = True
        self._kernel.after(random.randrange(100, 5_000), self._is_up)
        cut = random.randrange(len(self._committing) + 1)
        committing, self._committing = self._committing, []
        for number, batch in enumerate(committing):
            self._kernel.fault("stored in a failover" if number < cut else "lost in a failover")
            if number < cut:
                self.store(batch)
        self._holding = []
        for connection in self._connections:
            connection.ended = True
            self._break(connection)
        self._connections = []

    def _is_up(self) -> None:
        self._down = False

    # Reads

    def read(
        self,
        node: PostgresBroker,
        question: Callable[[RegisterReads], Coroutine[Any, Any, T]],
        answered: Callable[[T], None],
    ) -> None:
        self._kernel.after(
            self._way_ms(), self._read, node, node.life, self._primary, question, answered
        )

    def _read(
        self, node: PostgresBroker, life: int, primary: int, question: Any, answered: Any
    ) -> None:
        if self._down or primary != self._primary or self._kernel.chance(self.trouble.lost):
            self._kernel.fault("read without an answer", node.name)
            self._kernel.after(READ_MS_MAX, node.enter_life, life, node.store_failed)
            return
        answer = at_once(question(self.reads))
        delay_ms = self._way_ms()
        if self._kernel.chance(self.trouble.late):
            self._kernel.fault("late read", node.name)
            delay_ms = self._kernel.random.randrange(1, READ_MS_MAX)
        self._kernel.after(delay_ms, node.enter_life, life, answered, answer)

    async def opening(self) -> Opening:
        """One look at all that whoever begins asks for."""
        lasting = frozenset(each.owner for each in self._connections)
        return Opening(dict(self.fences), lasting)

    # Batches

    def send(
        self,
        connection: Connection,
        writes: Sequence[Write],
        told: Callable[[Sequence[Result], bool], None],
        *,
        enrols: bool = False,
    ) -> None:
        """Send a batch; the owner's row begins with one that `enrols` it."""
        self._to_server(Batch(connection, writes, told, enrols), self._begin)

    def _to_server(self, batch: Batch, action: Callable[[Batch], None]) -> None:
        connection, random = batch.connection, self._kernel.random
        delay_ms = self._way_ms()
        if self._kernel.chance(self.trouble.lost):
            self._kernel.fault("lost batch", batch.owner)
            self._break(connection)
            return
        if self._kernel.chance(self.trouble.hung):
            self._kernel.fault("hung batch", batch.owner)
            delay_ms = random.randrange(GIVEN_UP_MS, HUNG_MS_MAX)
            self._break(connection)
        elif self._kernel.chance(self.trouble.late):
            self._kernel.fault("late batch", batch.owner)
            delay_ms = random.randrange(1, GIVEN_UP_MS)
        connection.on_its_way += 1
        self._kernel.after(delay_ms, self._arrived, batch, action)

    def _arrived(self, batch: Batch, action: Callable[[Batch], None]) -> None:
        batch.connection.on_its_way -= 1
        if not batch.connection.ended:
            action(batch)
            self._look_after(batch.connection)

    def _look_after(self, connection: Connection) -> None:
        if connection.left and not connection.on_its_way:
            self._end(connection)

    def _begin(self, batch: Batch) -> None:
        """The first message: fence, locks, and what is decided on the rows that they keep."""
        if not self.lets_in(batch):
            node, life = batch.connection.node, batch.connection.life
            lives = node.runs and node.life == life
            self._kernel.fault("zombie refused" if lives else "late zombie refused", batch.owner)
            self._end(batch.connection)
            self._kernel.after(self._way_ms(), node.enter_life, life, node.store_failed)
            return
        keys = self.locks(batch)
        holders = [each for each in self._holding if each.keys & keys]
        if holders:
            self._wait(batch, holders)
            return
        batch.keys = keys
        self._holding.append(batch)
        self._decide(batch)
        if batch.operations:
            self._to_client(batch, self._second)
        else:
            self._commit(batch)

    def lets_in(self, batch: Batch) -> bool:
        return batch.enrols or batch.owner in self.fences

    def locks(self, batch: Batch) -> set[Key]:
        """The rows that `batch` is about, and those of the fences that it counts up or removes."""
        return self.fence_rows(batch) | self.request_rows(batch)

    def fence_rows(self, batch: Batch) -> set[Key]:
        retires = [each for each in batch.writes if isinstance(each, Retire)]
        gone = {each for op in retires for each in self._others(op)}
        # Those who begin do so one after the other: each must see the row of the one before.
        names = {("replica", op.name) for op in retires}
        return names | {("fence", each) for each in gone | {batch.owner}}

    def _others(self, op: Retire) -> list[str]:
        return [each for each in self.fences if each.startswith(f"{op.name}:") and each != op.owner]

    def request_rows(self, batch: Batch) -> set[Key]:
        about = rows_touched(batch.operations)
        assert not about.everything
        rids = about.rids | {made.rid for made in about.made}
        whole = about.reservations | {made.reservation for made in about.made}
        for rid in about.whole:
            whole.update(self._texts("select reservation from request where rid = ?", rid))
        for reservation in whole:
            rids |= self._texts("select rid from request where reservation = ?", reservation)
        scripts = set(about.scripts)
        for rid in about.users_of_scripts:
            scripts |= self._texts("select hash from script_use where rid = ?", rid)
        users = {user for rid in about.users_of
                 for user in self._texts("select client from request where rid = ?", rid)}  # fmt: skip
        return (
            {("request", rid) for rid in rids}
            | {("key", *key) for key in about.keys | about.tries}
            | {("reservation", each) for each in whole}
            | {("script", each) for each in scripts}
            | {("user", each) for each in about.told | about.clients | users}
            | {("notice", str(each)) for each in about.notices}
            | {("delivery", each) for each in about.deliveries}
        )

    def _texts(self, select: str, value: str) -> set[str]:
        return {text for (text,) in self.connection.execute(select, (value,))}

    def _wait(self, batch: Batch, holders: Sequence[Batch]) -> None:
        """Wait for locks for a while; then end the sessions of those whose beats stand still."""
        node = batch.connection.node
        self._kernel.faults["waited for locks"] += 1
        still = node.still() if node.life == batch.connection.life else {}
        for holder in holders:
            beats = self.fences.get(holder.owner)
            if holder in self._committing or beats is None or still.get(holder.owner) != beats:
                continue
            self._kernel.fault("session ended by who waited", f"{holder.owner} by {batch.owner}")
            self._end(holder.connection)
            self._break(holder.connection)
        batch.connection.on_its_way += 1
        delay_ms = self._kernel.random.randrange(1, LOCK_MS_MAX)
        self._kernel.after(delay_ms, self._arrived, batch, self._begin)

    def _decide(self, batch: Batch) -> None:
        recorded = _Recorded(self.connection)
        self.connection.execute("begin immediate")
        rows = SqliteRows(recorded)  # type: ignore[arg-type]  # It does what rows need of one.
        batch.results = [
            None if isinstance(each, OWN) else decide(rows, each) for each in batch.writes
        ]
        self.connection.execute("rollback")
        batch.changes = recorded.changes

    def _second(self, batch: Batch) -> None:
        """The client has the rows, and sends what was decided."""
        self._to_server(batch, self._commit)

    def _commit(self, batch: Batch) -> None:
        self._committing.append(batch)
        if self._fails_at_commit:
            self._fails_at_commit = False
            self.fail_over()
            return
        sync_ms = self._kernel.random.randrange(1, self.trouble.sync_ms_max)
        self._kernel.after(sync_ms, self._is_durable, batch)
        if self._kernel.chance(self.trouble.cancelled):
            self._kernel.fault("cancelled wait", batch.owner)
            batch.warned = True
            self._to_client(batch, self._tell)

    def _is_durable(self, batch: Batch) -> None:
        if batch not in self._committing:
            return
        self._committing.remove(batch)
        self.store(batch)
        if not batch.warned:
            self._to_client(batch, self._tell)

    def store(self, batch: Batch) -> None:
        """The effect of `batch`, at one moment."""
        self._holding = [each for each in self._holding if each is not batch]
        self.judge.stored(batch.owner, batch.writes)
        self.transaction(batch, batch.changes, [e for e in batch.writes if isinstance(e, OWN)])
        if batch.enrols or batch.owner in self.fences:
            self.fences[batch.owner] = self.fences.get(batch.owner, 0) + 1
        for op in batch.writes:
            for owner in self._others(op) if isinstance(op, Retire) else ():
                del self.fences[owner]
        for result in batch.results:
            if isinstance(result, r.Registered):
                self._kernel.note(
                    f"{batch.owner} {type(result.operation).__name__}"
                    f" {rid_of(result.operation)[-6:]} won={result.won}"
                )

    def transaction(self, batch: Batch, changes: Sequence[Change], own: Sequence[Write]) -> None:
        self.connection.execute("begin immediate")
        for statement, values in changes:
            self.connection.execute(statement, values)
        carry_out(self.connection, own)
        self.connection.execute("commit")
        rids = touched(batch.operations)
        self._watcher.register_changed(rids)
        self.judge.committed(life_of(batch.owner), rids)

    def _tell(self, batch: Batch) -> None:
        batch.told(batch.results, batch.warned)

    def _to_client(self, batch: Batch, action: Callable[[Batch], None]) -> None:
        connection = batch.connection
        if self._kernel.chance(self.trouble.lost_answer):
            self._kernel.fault("lost answer", batch.owner)
            self._break(connection)
            return
        delay_ms = self._way_ms()
        if self._kernel.chance(self.trouble.late):
            self._kernel.fault("late answer", batch.owner)
            delay_ms = self._kernel.random.randrange(1, GIVEN_UP_MS)
        self._kernel.after(delay_ms, connection.node.enter_life, connection.life, action, batch)

    def _way_ms(self) -> int:
        return self._kernel.random.randrange(1, 5)
