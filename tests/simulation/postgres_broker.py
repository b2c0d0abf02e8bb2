"""Replicas of a broker whose register is on PostgreSQL: nothing that they ask it is answered at once.

Each replica is two processes, of which one works. The other waits until the beats of the first stand still
on its own clock, or its session has ended: then it begins, and retires the first, which may go on when it
wakes up.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.reconciliation.recognition import Live
from kalends.broker.register.contract import Outlook
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.writes import Result, Retire, Write
from kalends.broker.replica.leases import Leases
from kalends.contract import messages as m
from kalends.core.clock import LogicalClock
from kalends.serving.clock_watch import ClockWatch
from tests.simulation.disks import life_of
from tests.simulation.network import Session
from tests.simulation.nodes import BrokerNode, commits
from tests.simulation.postgres_register import Connection, Opening, PostgresRegister
from tests.simulation.world import World

T = TypeVar("T")

TRIED_EVERY_MS: Final = 1_000
READS: Final = (r.Read, r.Examine, r.Ask)
"""Operations that leave nothing behind that the register could forget."""

Stored = Callable[[Sequence[Result]], None]


class PostgresBroker(BrokerNode):
    """One process of a replica; ``NAME-spare`` is the other one of ``NAME``."""

    register: PostgresRegister
    believes_warnings = False
    """True only in a broken broker: a cancelled wait for the standby counts as stored."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.replica = name.partition("-")[0]
        self.owner = ""
        """The last one that this process was; power that is lost is forgotten."""
        self._opening = False
        self._waits = False
        self._connection: Connection | None = None
        self._queue: list[tuple[Sequence[Write], Stored]] = []
        self._given = 0
        self._frames: dict[str, list[m.FrameToBroker]] = {}
        self._asked_ms = 0

    @property
    def runs(self) -> bool:
        return self.up or self._opening

    @property
    def in_place(self) -> bool:
        return self.up or self._waits

    def enter(self, action: Callable[..., None], *arguments: Any) -> None:
        """A process that has not begun serves nobody."""
        if self.up:
            super().enter(action, *arguments)

    # Lives

    def start(self) -> None:
        if self.runs:
            return
        self._opening = True
        self.paused_until_ms = 0
        self.clock.boot()
        self.watch = ClockWatch(self.clock.moment, lambda doubt: None)
        self._waking_ms = None
        self._fences = Leases()
        self.enter_life(self.life, self._try)

    def crash(self) -> None:
        self.owner = ""
        super().crash()

    def store_failed(self) -> None:
        """Nobody knows what was stored: this life ends, and the next one begins from the rows."""
        if self.runs:
            self.kernel.note(f"{self.name} does not hear from its register")
            self.end_life()
            self.kernel.after(self.kernel.random.randrange(1, TRIED_EVERY_MS), self.start)

    def end_life(self) -> None:
        super().end_life()
        self._opening = self._waits = False
        if self._connection is not None:
            self.register.leave(self._connection)
            self._connection = None

    def forget(self) -> None:
        super().forget()
        self._queue = []
        self._frames = {}

    def _try(self) -> None:
        asked_ms = self.now().monotonic_ms
        self.ask(lambda reads: self.register.opening(), partial(self._consider, asked_ms))

    def _consider(self, asked_ms: int, opening: Opening) -> None:
        """Begin, if no other process of this replica is at work."""
        self._fences.look(opening.fences, asked_ms, self.now().monotonic_ms)
        self._waits = any(
            owner.startswith(f"{self.replica}:")
            and owner != self.owner
            and owner in opening.lasting
            and self._fences.alive(owner)
            for owner in opening.fences
        )
        if self._waits:
            self.later(TRIED_EVERY_MS, self._try)
            return
        self.register.openings += 1
        self.owner = f"{self.replica}:{self.register.openings}"
        self._life = life_of(self.owner)
        self.kernel.note(f"{self.name} begins as {self.owner}")
        self._connection = self.register.connect(self, self.owner)
        self._given = 0
        begins = (Retire(self.replica, self.owner), Live(self._life, 0))
        self.register.send(self._connection, begins, self._enrolled, enrols=True)

    def _enrolled(self, results: Sequence[Result], warned: bool) -> None:
        if warned and not self.believes_warnings:
            self.store_failed()
            return
        asked_ms = self.now().monotonic_ms
        self.ask(lambda reads: reads.look(), partial(self._begun, asked_ms))

    def _begun(self, asked_ms: int, outlook: Outlook) -> None:
        self._opening = False
        self.up = True
        self.kernel.note(f"{self.name} is up")
        # Only now: the process before may have gone on giving out stamps until it was retired.
        self.logical = LogicalClock.resumed(outlook.clock_bound, self.now().wall_ms)
        self._bound = 0
        self.begin(outlook, asked_ms)

    # What is asked, and heard

    def ask(
        self,
        question: Callable[[RegisterReads], Coroutine[Any, Any, T]],
        answered: Callable[[T], None],
    ) -> None:
        """The answer comes in this life, or it ends: it may be older than what others have heard."""
        self.register.read(self, question, answered)

    def receive(self, session: Session, frame: m.FrameToBroker) -> None:
        """What the register has to say to one frame is heard before the next one is looked at."""
        frames = self._frames.setdefault(session.name, [])
        frames.append(frame)
        if len(frames) == 1:
            super().receive(session, frame)

    def heard(self, session: Session) -> None:
        frames = self._frames[session.name]
        frames.pop(0)
        if frames:
            super().receive(session, frames[0])

    # Leases

    def renew(self, renewed: Callable[[], None]) -> None:
        writes = [self.lease(self.now().wall_ms), *self.memories.to_store()]
        self._hand_in(writes, lambda results: renewed())

    def _renewed(self) -> None:
        self._asked_ms = self.kernel.now_ms
        super()._renewed()

    def _store_beat(self, wall_ms: int) -> None:
        self._hand_in([self.lease(wall_ms)], lambda results: None)

    def look_at_leases(self, outlook: Outlook, asked_ms: int) -> None:
        super().look_at_leases(outlook, asked_ms)
        self._fences.look(self.register.fences, asked_ms, self.now().monotonic_ms)

    def left_behind(self, found: Sequence[Any]) -> list[Any]:
        for each in found:
            if each.owner != self.owner:
                self.register.judge.taken_over(self.name, each.owner, self._asked_ms)
        return super().left_behind(found)

    def still(self) -> Mapping[str, int]:
        """Owners whose beats stand still, with these."""
        now_ms = self.now().monotonic_ms
        fences = dict(self.register.fences)
        self._fences.look(fences, now_ms, now_ms)
        return {owner: beats for owner, beats in fences.items() if not self._fences.alive(owner)}

    # The writer

    @property
    def idle(self) -> bool:
        return super().idle and not self._queue

    def _pump(self) -> None:
        batch, self._operations = self._operations, []
        if batch:
            writes: list[Write] = [*self.memories.to_store()] if commits(batch) else []
            if not all(isinstance(each, READS) for each in batch):
                self._given += 1
                writes.append(Live(self._life, self._given))
            self._hand_in([*writes, *batch], partial(self._registered, self._given))

    def _hand_in(self, writes: Sequence[Write], stored: Stored) -> None:
        """Group commit: what comes while a batch is under way goes into the next one."""
        self._queue.append((writes, stored))
        self._flush()

    def _flush(self) -> None:
        if self._writing or not self._queue or self._connection is None:
            return
        self.point("before the register stores")
        queue, self._queue = self._queue, []
        self._writing = True
        whole = [each for writes, _ in queue for each in writes]
        parts = [(len(writes), stored) for writes, stored in queue]
        self.register.send(self._connection, whole, partial(self._stored, parts))

    def _stored(
        self, parts: Sequence[tuple[int, Stored]], results: Sequence[Result], warned: bool
    ) -> None:
        if warned and not self.believes_warnings:
            self.store_failed()
            return
        self.point("after the register stored")
        self._writing = False
        first = 0
        for count, stored in parts:
            stored(results[first : first + count])
            first += count
        self._flush()

    def _registered(self, given: int, results: Sequence[Result]) -> None:
        self._position = given
        now = self.now()
        for result in results:
            if isinstance(result, r.Registered):
                self.coordinator.registered(result, now)
        self._carry_out()


class PostgresWorld(World):
    register_disk = PostgresRegister
    broker_node = PostgresBroker
    broker_names = ("red", "blue", "red-spare", "blue-spare")
