"""The operating system beneath a machine: records, shepherds and programs, and what befalls them.

It lives on when the site's process dies, and loses everything that runs when its host has no power; the
records are on a disk that keeps what was synced, and every line of a record is. What really ran, when, and on
which nodes is remembered: the site's word about it is judged by that.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kalends.batch.shepherds.conclusion import Conclusion, State
from kalends.batch.shepherds.facts import Begun, Ended, Fact, Void
from kalends.batch.shepherds.order import JobOrder
from tests.shells.stage import NOBODY
from tests.shells.substitutes import WALL_AT_BEGIN_S

if TYPE_CHECKING:
    from tests.shells.world import World

FORK_S_MAX: Final = 0.1
STUBBORN: Final = 0.3
LATE_S_MAX: Final = 6.0
"""A request to begin that lies about may come so late: after the attempt was given up."""

Told = Callable[[str], None]


@dataclass
class Run:
    """A program, from its start until nothing of it is left."""

    name: str
    nodes: frozenset[int]
    since_s: float
    until_s: float = 0.0
    """0: something of it is there."""


@dataclass
class Attempt:
    """A record, and who is at it."""

    order: JobOrder | None = None
    facts: list[Fact] = field(default_factory=list)
    shepherd: bool = False
    """A shepherd holds the lock."""
    limit_s: float = 0.0
    run: Run | None = None
    asked_to_end: str = ""

    @property
    def state(self) -> State:
        if self.facts and isinstance(self.facts[0], Void):
            return State.VOID
        if self.facts and isinstance(self.facts[-1], Ended):
            return State.ENDED
        if self.shepherd:
            return State.RUNNING
        return State.LOST if self.facts else State.UNDECIDED

    @property
    def conclusion(self) -> Conclusion:
        return Conclusion(self.state, tuple(self.facts))


class JobHost:
    """One host. `hints` are told the name of every attempt of which there is something new, or not."""

    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.boots = 1
        self.attempts: dict[str, Attempt] = {}
        self.history: list[Run] = []
        self.broken: list[str] = []
        """What no site may let happen, and did."""
        self.deaths: set[str] = set()
        """Attempts whose shepherd was killed, or whose host lost its power."""
        self.dark_s: list[float] = []
        """When its power failed."""
        self.removed: set[str] = set()
        """Attempts whose record was removed. Who had not heard that one had begun cannot know it any more."""
        self.hollow = False
        """It can start no program, and says so of each."""
        self.swallowed: list[str] = []
        """Attempts that it could not start."""
        self.timed = False
        """Whether its shepherds report how long programs ran; else it is a second of each."""
        self.faulty = 0.0
        """How often what is asked of it goes wrong."""
        self.hints: list[Told] = []
        self._world = world
        self._chance = random.Random(f"jobs of {name} {world.seed}")

    # What a site asks for

    def goes_wrong(self) -> bool:
        return self._chance.random() < self.faulty

    def begin(self, order: JobOrder) -> None:
        """A shepherd is asked for: it comes soon, or late, or never."""
        delay_s = self._chance.uniform(0, FORK_S_MAX)
        if self.goes_wrong():
            if self._chance.random() < 0.5:
                return
            delay_s = self._chance.uniform(0, LATE_S_MAX)
        self._later(delay_s, self._begin, order, self.boots)

    def kill(self, name: str, reason: str, grace_s: float) -> None:
        """End what runs: at once, or only when its time to end properly is over."""
        attempt = self.attempts[name]
        if not attempt.asked_to_end:
            attempt.asked_to_end = reason
            self._later(self._tidying_s(grace_s), self._end, name, "killed", self.boots)

    def prolong(self, name: str, limit_s: float) -> None:
        attempt = self.attempts[name]
        if attempt.shepherd and attempt.run is not None:
            attempt.limit_s = limit_s
            left_s = attempt.run.since_s + limit_s - self._world.loop.now_s
            self._later(max(left_s, 0.0), self._limit, name, self.boots)

    def close_lost(self, name: str) -> None:
        """End what a dead shepherd has left, and write that the attempt is lost."""
        attempt = self.attempts[name]
        if attempt.state is State.LOST:
            self._is_over(attempt)
            self._write(
                name, Ended("lost", 0, "its shepherd was killed", self._wall_s(), 0.0, 0.0, 0, 0)
            )

    def void(self, name: str) -> Conclusion:
        """Make an attempt void unless it has begun."""
        attempt = self.attempts.setdefault(name, Attempt())
        if not attempt.facts and not attempt.shepherd:
            self._write(name, Void(self._wall_s()))
        return attempt.conclusion

    # What befalls it

    def shepherd_dies(self) -> bool:
        """Some shepherd is killed, and its program with it, perhaps; return whether there was any."""
        alive = sorted(name for name, each in self.attempts.items() if each.shepherd)
        if not alive:
            return False
        name = self._chance.choice(alive)
        attempt = self.attempts[name]
        attempt.shepherd = False
        self.deaths.add(name)
        if self._chance.random() < 0.5:
            self._is_over(attempt)
        self._world.note("shepherd dies", self.name, name)
        return True

    def power_fails(self) -> None:
        self.boots += 1
        self.dark_s.append(self._world.loop.now_s)
        for name, attempt in self.attempts.items():
            if attempt.shepherd or (attempt.run is not None and not attempt.run.until_s):
                self.deaths.add(name)
                attempt.shepherd = False
                self._is_over(attempt)

    def record_is_removed(self) -> str:
        """Somebody removes the record of an attempt whose shepherd is dead; "" if there is none."""
        gone = sorted(name for name, each in self.attempts.items() if each.state is State.LOST)
        if not gone:
            return ""
        name = self._chance.choice(gone)
        self._is_over(self.attempts.pop(name))
        self.removed.add(name)
        self._world.note("record removed", self.name, name)
        return name

    # Its life

    def _begin(self, order: JobOrder, boot: int) -> None:
        attempt = self.attempts.get(order.name)
        if boot != self.boots or attempt is None or attempt.facts or attempt.shepherd:
            return
        attempt.order, attempt.shepherd, attempt.limit_s = order, True, order.limit_s
        if self.hollow:
            self.swallowed.append(order.name)
            self._write(order.name, Begun(self._wall_s(), 1, 1, f"boot {self.boots}"))
            self._later(0.05, self._end, order.name, "not-started", boot)
            return
        nodes = frozenset(map(int, order.environment["KALENDS_NODES"].split(",")))
        attempt.run = Run(order.name, nodes, self._world.loop.now_s)
        self._check_start(attempt.run)
        self.history.append(attempt.run)
        self._write(order.name, Begun(self._wall_s(), 1, 1, f"boot {self.boots}"))
        self._later(float(order.argv[1]), self._end, order.name, "exit", boot)
        self._later(order.limit_s, self._limit, order.name, boot)

    def _check_start(self, new: Run) -> None:
        for run in self.history:
            if not run.until_s and run.nodes & new.nodes:
                self.broken.append(
                    f"{new.name} begins on {sorted(new.nodes)} of {self.name} beside {run.name}, "
                    f"which is on {sorted(run.nodes)} since {run.since_s:.3f}"
                )

    def _limit(self, name: str, boot: int) -> None:
        attempt = self.attempts.get(name)
        if boot != self.boots or attempt is None or attempt.run is None:
            return
        if attempt.run.since_s + attempt.limit_s <= self._world.loop.now_s + 1e-6:
            assert attempt.order is not None
            self._later(self._tidying_s(attempt.order.grace_s), self._end, name, "limit", boot)

    def _tidying_s(self, grace_s: float) -> float:
        """Draw how long a program that was asked to end is still there: some have to be killed."""
        return grace_s if self._chance.random() < STUBBORN else 0.05

    def _end(self, name: str, kind: str, boot: int) -> None:
        attempt = self.attempts.get(name)
        if boot != self.boots or attempt is None or not attempt.shepherd:
            return
        attempt.shepherd = False
        self._is_over(attempt)
        detail = attempt.asked_to_end if kind == "killed" else ""
        here = int(kind == "not-started")
        ran_s = 1.0
        if self.timed and attempt.run is not None:
            ran_s = attempt.run.until_s - attempt.run.since_s
        self._write(name, Ended(kind, 0, detail, self._wall_s(), ran_s, 1.0, 1, 0, here))

    def _is_over(self, attempt: Attempt) -> None:
        if attempt.run is not None and not attempt.run.until_s:
            attempt.run.until_s = self._world.loop.now_s

    def _write(self, name: str, fact: Fact) -> None:
        self.attempts[name].facts.append(fact)
        self._world.note("record", self.name, name, type(fact).__name__)
        if not self.goes_wrong():
            for told in self.hints:
                told(name)

    def _wall_s(self) -> float:
        return WALL_AT_BEGIN_S + self._world.loop.now_s

    def _later(self, in_s: float, call: Callable[..., None], *arguments: object) -> None:
        self._world.loop.call_later(in_s, call, *arguments, context=NOBODY)


HOSTS: dict[str, JobHost] = {}
"""Of the world that plays, by name."""


MOVED: Final[dict[str, str]] = {}
"""The hosts of jobs beneath servers that were taken to another one than their own, by that."""


def host_below(host: str) -> str:
    """Return the name of the host of jobs beneath the servers of `host` now."""
    return MOVED.get(host, host)


def host_called(world: World, name: str) -> JobHost:
    if name not in HOSTS:
        HOSTS[name] = JobHost(world, name)
    return HOSTS[name]
