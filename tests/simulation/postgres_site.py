"""Sites whose stores are on PostgreSQL: each has a standby, which takes over when the beats stand still.

Two processes of a site share its store, of which one owns it. Who pauses for longer than a lease is taken
over, and wakes up with what it knew, in the middle of a batch or between two steps, and with what was sent
to it meanwhile. From then on the store lets nothing of it in, and nothing may follow from what it knows:
no answer that others rely on, and no command to the batch system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from kalends.contract import messages as m
from kalends.resource_servers.participation.effects import ParticipantEffects as SiteEffects
from kalends.resource_servers.participation.effects import Provision
from kalends.stores.postgres.sole_owner import BEAT_S, LEASE_S
from tests.simulation.clocks import NodeClock
from tests.simulation.kernel import Violation
from tests.simulation.network import SILENT_MS, Session
from tests.simulation.nodes import SiteNode
from tests.simulation.world import World

BEAT_MS: Final = int(BEAT_S * 1_000)
LEASE_MS: Final = int(LEASE_S * 1_000)
LOOK_MS: Final = 200
WAITS_MS_MAX: Final = 3_000
"""So long an errand may wait for its turn at the batch system."""

OF_A_PROCESS: Final = (
    "clock", "life", "logical", "participant", "paused_until_ms", "position", "sessions", "watch",
    "_beaten_ms", "_queue", "_relays", "_storing", "_waking_ms",
)  # fmt: skip

MAY_BE_STALE: Final = (m.Hello, m.View, m.Inquire, m.StartAsk, m.PeerAsk)
"""What leaves at once. Visits that are passed on are none of these: they begin nothing by themselves."""

Process = dict[str, Any]
Batch = list[tuple[SiteEffects, int]]


class PostgresSite(SiteNode):
    """Whoever owns the store; a process that was taken over is a zombie, and has its turns all the same."""

    of_a_process: tuple[str, ...] = OF_A_PROCESS

    def __init__(self, world: World, *arguments: Any) -> None:
        super().__init__(world, *arguments)
        self._zombies: dict[int, Process] = {}
        self._is_zombie = False
        self._processes: dict[str, int] = {}
        """Sessions by their names, with the lives of the processes that have them."""
        self._owner = 0
        """The life that the fence lets in."""
        self._began_ms = 0
        """When that has begun."""
        self._seen_ms = 0
        """When the standby has seen a beat."""
        self._beaten_ms = 0
        """When the last batch was sent that is known to be stored, by the clock of its process."""
        self._made_ms: dict[int, int] = {}
        """When each step was made whose effects wait."""

    # Processes

    def boot(self) -> None:
        self._owner, self._began_ms, self._beaten_ms = self.life, self.kernel.now_ms, -LEASE_MS
        super().boot()
        self._beat()

    def pause(self, length_ms: int) -> None:
        """Stop the process that owns the store, and let the standby look after its beats."""
        self.paused_until_ms = self.kernel.now_ms + length_ms
        self._look(self.life)

    def _look(self, life: int) -> None:
        if life != self.life or not self.up or self.paused_until_ms <= self.kernel.now_ms:
            return
        if self.kernel.now_ms - self._seen_ms < LEASE_MS:
            self.kernel.after(LOOK_MS, self._look, life)
            return
        self.kernel.fault("taken over", self.name)
        self._zombies[life] = {name: getattr(self, name) for name in self.of_a_process}
        for session in self.sessions.values():
            delay_ms = self.kernel.random.randrange(1, SILENT_MS)
            self.kernel.after(delay_ms, self.network.break_session, session)
        self.life += 1
        self.up = False
        self.sessions = {}
        self.forget()
        self.clock = NodeClock(self.kernel)
        self.start()

    def enter(self, action: Callable[..., None], *arguments: Any) -> None:
        """A session belongs to the process that it was opened to."""
        life = self.life
        if arguments and isinstance(arguments[0], Session):
            life = self._processes.setdefault(arguments[0].name, life)
        self._enter(life, action, arguments)

    def _enter(self, life: int, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if life not in self._zombies:
            super()._enter(life, action, arguments)
            return
        with self._as_zombie(life):
            super()._enter(life, action, arguments)

    @contextmanager
    def _as_zombie(self, life: int) -> Iterator[None]:
        owner = {name: getattr(self, name) for name in self.of_a_process}
        self._become(self._zombies[life])
        self._is_zombie = True
        try:
            yield
        finally:
            self._is_zombie = False
            if life in self._zombies:
                self._zombies[life] = {name: getattr(self, name) for name in self.of_a_process}
            self._become(owner)

    def _become(self, process: Process) -> None:
        for name, value in process.items():
            setattr(self, name, value)

    # The store

    def lets_in(self, life: int) -> bool:
        return life == self._owner

    def waits(self, effects: SiteEffects) -> bool:
        return super().waits(effects) or effects.weigh

    def hand_in(self, batch: Batch) -> None:
        """A batch that is sent arrives, whatever becomes of its process."""
        delay_ms = self.kernel.random.randrange(1, self.trouble.commit_ms_max)
        sent_ms = self.now().monotonic_ms
        self.kernel.after(delay_ms, self._arrived, self.life, batch, sent_ms, self.now().wall_ms)

    def _arrived(self, life: int, batch: Batch, sent_ms: int, wall_ms: int) -> None:
        if not self.lets_in(life):
            self.kernel.fault("zombie refused", self.name)
            self.kernel.after(1, self.enter_life, life, self._refused)
            return
        if life != self._owner:
            raise Violation(f"{self.name}: a batch is stored after one of a later process")
        facts = [fact for effects, _ in batch for fact in effects.facts]
        self.disk.store(facts, wall_ms, full=0.0, sync=0.0)
        self.world.auditor.site_is_at(self.name, batch[-1][1], self.disk.position)
        self._seen_ms = self.kernel.now_ms
        delay_ms = self.kernel.random.randrange(1, self.trouble.commit_ms_max)
        self.kernel.after(delay_ms, self.enter_life, life, self._acknowledged, batch, sent_ms)

    def _acknowledged(self, batch: Batch, sent_ms: int) -> None:
        self._beaten_ms = sent_ms
        self._stored(batch)

    def _refused(self) -> None:
        """A process that hears of its end drops all it knows, and closes its sessions."""
        if not self._is_zombie:
            return
        del self._zombies[self.life]
        for session in self.sessions.values():
            self.network.break_session(session)

    def _beat(self) -> None:
        if not self._storing:
            self._storing = True
            self.hand_in([(SiteEffects(), self.position)])
        self.later(BEAT_MS, self._beat)

    def is_ours(self) -> bool:
        return self.now().monotonic_ms - self._beaten_ms < LEASE_MS

    # What leaves

    def stepped(self, effects: SiteEffects) -> None:
        self._made_ms[id(effects)] = self.kernel.now_ms
        if not self._is_zombie:
            super().stepped(effects)

    def _let_go(self, effects: SiteEffects) -> None:
        made_ms = self._made_ms.pop(id(effects), self.kernel.now_ms)
        if self._is_zombie and made_ms >= self._began_ms:
            for _, message in effects.sends:
                if not isinstance(message, MAY_BE_STALE):
                    kind = type(message).__name__
                    raise Violation(f"{self.name}: {kind} leaves after it was taken over")
        super()._let_go(effects)

    def says(self, to: str, message: m.Message) -> None:
        """What was said in time is judged as it was then: as a message that comes late."""
        if not self._is_zombie:
            super().says(to, message)

    def command(self, provision: Provision) -> None:
        """Errands wait for their turn."""
        delay_ms = self.kernel.random.randrange(1, WAITS_MS_MAX)
        self.later(delay_ms, self._command, provision)

    def _command(self, provision: Provision) -> None:
        if not self.is_ours():
            self.kernel.fault("late command", self.name)
            self.later(LOOK_MS, self._command, provision)
            return
        if self._is_zombie:
            raise Violation(f"{self.name}: a command is given after it was taken over")
        super().command(provision)


class PostgresSitesWorld(World):
    site_node = PostgresSite
