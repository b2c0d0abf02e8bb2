"""Batch systems as they are looked at: what each has, whether it answers, and whether its clock is right."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from kalends.backends.records import ListSystem, SystemAnswer, SystemState
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.provision.errands import Errands
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend

LOOK_AGAIN_MS: Final = 1_000
LOOK_AGAIN_MS_MAX: Final = 30_000
"""A system that does not answer is looked at again after 1, 2, 4 seconds, and at last every half minute."""

SKEW_TOLD_S: Final = 2
"""A clock that is wrong by more is told to the operator."""

YOUNG_S: Final = 60
"""A controller that has just begun has not heard from its nodes yet."""

STALE_MS: Final = 60_000
"""With an older look nothing is promised."""

Heard = Callable[[str, SystemState, int, Moment], None]


@dataclass(eq=False, slots=True)
class _System:
    backend: ResourceBackend
    due_ms: int
    looking: bool = False
    failures: int = 0
    seen_ms: int | None = None
    """When the last look was asked for that has been answered (monotonic)."""
    seen_s: int = 0
    """The same, by the site's clock."""
    ahead_ms: int = 0
    """What its clock is ahead of our monotonic one."""
    sure_ms: int = 0
    """Since when it has surely heard from its nodes (monotonic)."""
    skew_s: int = 0


@dataclass(eq=False)
class Systems:
    """Looks at every batch system again and again; `heard` is told what it has.

    `heard` gets the system, what it has, how many errands had ended when it was asked, and the time.
    """

    errands: Errands
    outbox: ParticipantOutbox
    heard: Heard = field(init=False)
    lost: Callable[[str], None] = field(init=False)
    """Told of a system that has not answered."""
    _systems: dict[str, _System] = field(default_factory=dict)

    def begin(self, backends: Iterable[ResourceBackend], now: Moment) -> None:
        """Look at the systems of `backends` from now on."""
        for backend in backends:
            self._systems.setdefault(backend.system, _System(backend, now.monotonic_ms))

    def look_soon(self, system: str) -> None:
        """Look at `system` at once: something has had no answer, or has changed much."""
        self._systems[system].due_ms = 0

    def why_not(self, system: str, now: Moment) -> str:
        """Return why nothing can be promised on `system`, or ""."""
        known = self._systems[system]
        if known.seen_ms is None:
            return "the site has just started, and has not read the state of the batch system yet"
        if now.monotonic_ms - known.seen_ms > STALE_MS:
            return "the batch system does not answer"
        if abs(known.skew_s) > known.backend.skew_s_max:
            return f"the batch system's clock differs by {known.skew_s:+d} s"
        return ""

    def seen_s(self, system: str) -> int:
        """Return when `system` was last seen (seconds UTC by the site's clock); 0 if never."""
        return self._systems[system].seen_s

    def sure_ms(self, system: str) -> int:
        """Return since when what it says of its nodes is sure (monotonic)."""
        return self._systems[system].sure_ms

    def clock_s(self, system: str, now: Moment) -> int:
        """Return the time that has come by the system's clock and by ours (seconds UTC)."""
        known = self._systems[system]
        if known.seen_ms is None:
            return 0
        return min(now.wall_s, (now.monotonic_ms + known.ahead_ms) // 1000)

    def advance(self, now: Moment) -> None:
        for name, system in self._systems.items():
            if not system.looking and system.due_ms <= now.monotonic_ms:
                self._look(name, system, now)

    def next_deadline_ms(self) -> int | None:
        return min(
            (each.due_ms for each in self._systems.values() if not each.looking), default=None
        )

    def _look(self, name: str, system: _System, now: Moment) -> None:
        system.looking = True
        asked_ms, asked_s, ended = now.monotonic_ms, now.wall_s, self.errands.ended

        def then(answer: SystemAnswer, now: Moment) -> None:
            system.looking = False
            if answer.outcome != "done" or answer.state is None:
                self._lose(name, system, answer, now)
                return
            system.failures = 0
            system.seen_ms, system.seen_s = asked_ms, asked_s
            system.due_ms = now.monotonic_ms + system.backend.look_ms
            young_ms = (answer.state.boot_s + YOUNG_S - answer.state.clock_s) * 1000
            system.sure_ms = now.monotonic_ms + min(young_ms, YOUNG_S * 1000)
            self.outbox.report(f"batch system {name}", "")
            self._compare_clocks(name, system, answer.state, now)
            self.heard(name, answer.state, ended, now)

        self.errands.send(name, ListSystem(), now.monotonic_ms + system.backend.answer_ms_max, then)

    def _lose(self, name: str, system: _System, answer: SystemAnswer, now: Moment) -> None:
        wait_ms = min(LOOK_AGAIN_MS << min(system.failures, 8), LOOK_AGAIN_MS_MAX)
        system.failures += 1
        system.due_ms = now.monotonic_ms + wait_ms
        self.outbox.report(f"batch system {name}", f"its state cannot be read: {answer.detail}")
        self.lost(name)

    def _compare_clocks(self, name: str, system: _System, state: SystemState, now: Moment) -> None:
        system.ahead_ms = state.clock_s * 1000 - now.monotonic_ms
        system.skew_s = state.clock_s - now.wall_s
        wrong = abs(system.skew_s) > SKEW_TOLD_S
        told = f"it differs from the site's clock by {system.skew_s:+d} s" if wrong else ""
        self.outbox.report(f"clock of batch system {name}", told)

    def answer_ms_max(self, system: str) -> int:
        """Return for how long an errand to `system` may have no answer."""
        return self._systems[system].backend.answer_ms_max
