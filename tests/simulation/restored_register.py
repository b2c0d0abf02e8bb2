"""A register whose database was brought back to an earlier time: nothing that was promised is denied.

All replicas stop, and begin again on the register of a moment before. Some sites have no session for a while,
but they ask by calls what has become of their promises. A schedule ends when a site has told the register
that it was put back, or when all have come: what follows then is played by `tests.shells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kalends.broker.register.contract import Outlook
from kalends.contract import messages as m
from tests.simulation.climates import calm
from tests.simulation.kernel import Violation
from tests.simulation.network import Session
from tests.simulation.nodes import BrokerNode, SiteNode
from tests.simulation.workload import Size
from tests.simulation.world import World
from tests.support.register_rows import COMMITTED

BOOKINGS: Final = Size(sites=3, clients=5, sagas=40, pause_ms=2_000, uses=(100, 0, 0))
"""Nobody changes or cancels what the register may not know any more."""

BEGIN_MS_MAX: Final = 20_000
TOLD_MS_MAX: Final = 30_000
END_MS: Final = 120_000


class Restored(NamedTuple):
    """The end of a schedule: how many commits the register has forgotten, and whether it knows that."""

    violation: str
    forgotten: int
    recognised: bool


class _Blind:
    """What the auditor would see of a register that goes back is not what it knows."""

    def __init__(self, world: World) -> None:
        self.rows, self.stored = world.auditor.rows, world.auditor.stored

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


class RestoredBroker(BrokerNode):
    world: RestoredWorld

    def _connect(self, site: SiteNode) -> None:
        if self.world.away_until_ms.get(site.name, 0) <= self.kernel.now_ms:
            super()._connect(site)
        else:
            self.later(1_000, self._connect, site)

    def _known(
        self, session: Session, frame: m.FrameToBroker, number: int, outlook: Outlook
    ) -> None:
        message = frame.messages[number - 1]
        assert isinstance(message, m.Known)
        if self.recognition.hear(frame.source, message.marks, outlook.lives):
            super()._known(session, frame, number, outlook)
        else:
            self.world.recognised = True


class RestoredWorld(World):
    broker_node = RestoredBroker
    notices_timelines = True
    """False only where a register that was brought back is believed as any other."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, size=BOOKINGS)
        self.away_until_ms: dict[str, int] = {}
        self.forgotten: frozenset[str] = frozenset()
        self.recognised = False
        calm(self)
        self.network.stream = True

    def play(self) -> None:
        random, kernel = self.kernel.random, self.kernel
        self.start()
        kernel.run(random.randrange(5_000, BEGIN_MS_MAX))
        image, before = self.register.connection.serialize(), self._committed()
        kernel.run(kernel.now_ms + TOLD_MS_MAX, lambda: bool(self._told() - before))
        # Some sites have heard of the last commit, and some have not.
        kernel.run(kernel.now_ms + random.randrange(1, 200))
        self.forgotten = frozenset(self._told() - before)
        self._bring_back(image)
        kernel.run(END_MS, self._is_over)

    def _bring_back(self, image: bytes) -> None:
        random, kernel = self.kernel.random, self.kernel
        for broker in self.brokers:
            broker.end_life()
        kernel.fault("register brought back")
        self.auditor = _Blind(self)  # type: ignore[assignment]  # It judges nothing from now on.
        for site in self.sites:
            site.disk._watcher = self.auditor
        self.register._watcher = self
        self.register.put_back(image)
        self.register.promoted = self.notices_timelines
        for name in self.site_names:
            self.away_until_ms[name] = kernel.now_ms + random.choice((15_000, 40_000))
        for broker in self.brokers:
            kernel.after(random.randrange(100, 2_000), broker.start)

    def register_changed(self, rids: Sequence[str]) -> None:
        """Whoever asks for what was promised is not told that it never was."""
        for rid in self.forgotten.intersection(rids):
            row = self.register.connection.execute(
                "select client, state from request where rid = ?", (rid,)
            ).fetchone()
            if row == ("", "closed"):
                raise Violation(f"{rid} was committed, and has a tombstone now")

    def _committed(self) -> set[str]:
        rows = self.register.connection.execute("select rid, state from request")
        return {rid for rid, state in rows if state in COMMITTED}

    def _told(self) -> set[str]:
        """What is committed, and locked at a site: it knows how far the register was."""
        return self._committed() & {
            rid
            for site in self.site_names
            for rid, stake in self.auditor.stored[site].items()
            if any(claim["state"] == "locked" for claim in stake["claims"])
        }

    def _is_over(self) -> bool:
        return self.recognised or all(
            broker.up and not broker.recognition.unheard() for broker in self.brokers
        )


def run(seed: int, world_type: type[RestoredWorld] = RestoredWorld) -> Restored:
    """Play the schedule of `seed`."""
    world, violation = world_type(seed), ""
    try:
        world.play()
    except Violation as found:
        violation = str(found)
    finally:
        world.close()
    return Restored(violation, len(world.forgotten), world.recognised)
