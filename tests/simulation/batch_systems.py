"""Batch systems that simulated sites stand before: they freeze, crash, forget, and others use them, too.

What they differ in is drawn (`Traits`). A system carries out what it was asked for in the order in which it
hears of it, now or, while it is frozen, once it goes on, whoever still waits. A crash undoes what it had not
written yet. Nothing here knows of grants or claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import structs

from kalends.backends.names import is_ours
from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    EndJobs,
    Errand,
    SystemAnswer,
    SystemReservation,
    SystemState,
    Traits,
    UnwellNode,
)
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from tests.simulation.clocks import EPOCH_S
from tests.simulation.kernel import Kernel

if TYPE_CHECKING:
    from tests.simulation.nodes import SiteNode

ANSWER_MS: Final = (5, 50, 500, 3_000, 14_000)
LATE_MS: Final = 20_000
"""For so long a frozen system may carry out what it was asked for before."""

STRIKE_EVERY_MS: Final = 12_000


@dataclass(eq=False)
class BatchSystem:
    """The batch system of one site, with `nodes`."""

    kernel: Kernel
    site: str
    nodes: tuple[str, ...]
    users: dict[str, str]
    has: dict[str, SystemReservation] = field(default_factory=dict)
    written: dict[str, SystemReservation] = field(default_factory=dict)
    """What a crash leaves."""
    unwell: set[str] = field(default_factory=set)
    touched: list[SystemReservation] = field(default_factory=list)
    """Those of the site's that a crash or an operator has changed: for them no vote can vouch."""
    cut: float = 0.0
    """How likely it grants a node less than it was asked for."""
    loss: float = 0.0
    """How likely an answer is lost."""
    frozen_until_ms: int = 0
    boot_ms: int = 0
    nodes_fail: bool = False

    def __post_init__(self) -> None:
        random = self.kernel.random
        self.traits = Traits(
            late_write_s=LATE_MS // 1000 + 5,
            weak_s=random.choice((0, 5)),
            unique_names=random.random() < 0.7,
        )
        self.loss = random.choice((0.0, 0.1, 0.3))
        self.cut = random.choice((0.0, 0.2))
        self.delay_ms = random.choice(ANSWER_MS)

    def backend(self) -> ResourceBackend:
        """Return what the owner says of it."""
        return ResourceBackend(
            f"batch-{self.site}", self.nodes, self.users, self.traits,
            answer_ms_max=self.delay_ms + 1_000,
        )  # fmt: skip

    # What a site asks for

    def ask(self, node: SiteNode, errand: Errand, answered: Callable[[SystemAnswer], None]) -> None:
        """Carry out `errand` in a while; `answered` may never hear of it."""
        reached_ms = self.kernel.random.randrange(1, self.delay_ms + 1)
        self.kernel.after(reached_ms, self._reach, errand, answered, node, node.life)

    def _reach(
        self, errand: Errand, answered: Callable[[SystemAnswer], None], node: SiteNode, life: int
    ) -> None:
        if self.kernel.now_ms < self.frozen_until_ms:
            wait_ms = self.frozen_until_ms - self.kernel.now_ms
            if wait_ms <= LATE_MS:
                self.kernel.after(wait_ms + 1, self._reach, errand, answered, node, life)
            return
        answer = self._carry_out(errand)
        self.kernel.note(
            f"{self.site}'s system: {_shown(errand)}: {answer.outcome} {answer.detail}"
        )
        if self.kernel.chance(self.loss):
            self.kernel.fault("answer of a batch system lost", self.site)
            return
        self.kernel.after(self.kernel.random.randrange(1, self.delay_ms + 1), answered, answer)

    def _carry_out(self, errand: Errand) -> SystemAnswer:
        if isinstance(errand, CreateReservation):
            return self._put(errand.reservation, None)
        if isinstance(errand, ChangeReservation):
            known = self.has.get(errand.reservation.name)
            if known is None:
                return SystemAnswer("refused", "there is no such reservation")
            return self._put(errand.reservation, known)
        if isinstance(errand, EndJobs):
            return SystemAnswer("done")
        if isinstance(errand, DeleteReservation):
            self.has.pop(errand.name, None)
            self._write_later()
            return SystemAnswer("done")
        return SystemAnswer("done", state=self.state())

    def _put(self, wanted: SystemReservation, known: SystemReservation | None) -> SystemAnswer:
        there = self.has.get(wanted.name)
        if known is None and there is not None:
            return SystemAnswer("refused", "it overlaps with another reservation", found=there)
        why = self._why_not(wanted)
        if why:
            return SystemAnswer("refused", why, found=there)
        if len(wanted.nodes) > 1 and self.kernel.chance(self.cut):
            self.kernel.fault("reservation cut", self.site)
            wanted = structs.replace(wanted, nodes=wanted.nodes[1:])
        self.has[wanted.name] = wanted
        self._write_later()
        return SystemAnswer("done", found=wanted)

    def _why_not(self, wanted: SystemReservation) -> str:
        if any(node in self.unwell or node not in self.nodes for node in wanted.nodes):
            return "required nodes are not available"
        for other in self.has.values():
            meets = other.start < wanted.end and wanted.start < other.end
            if other.name != wanted.name and meets and set(other.nodes) & set(wanted.nodes):
                return "it overlaps with another reservation"
        return ""

    def state(self) -> SystemState:
        """Return everything that it has."""
        return SystemState(
            clock_s=self.clock_s(),
            boot_s=EPOCH_S + self.boot_ms // 1000,
            nodes=self.nodes,
            reservations=tuple(self.has.values()),
            unwell=tuple(UnwellNode(node, "down") for node in sorted(self.unwell)),
        )

    def clock_s(self) -> int:
        """Return the time by its clock, which is right."""
        return EPOCH_S + self.kernel.now_ms // 1000

    def _write_later(self) -> None:
        image = dict(self.has)
        self.kernel.after(self.traits.weak_s * 1000, self._write, image, self.boot_ms)

    def _write(self, image: dict[str, SystemReservation], boot_ms: int) -> None:
        if boot_ms == self.boot_ms:
            self.written = image

    # What goes wrong

    def strike_until(self, until_ms: int) -> None:
        """Let something happen now and then, until all heals."""
        delay_ms = self.kernel.random.randrange(1, STRIKE_EVERY_MS)
        self.kernel.after(delay_ms, self._strike, until_ms)

    def _strike(self, until_ms: int) -> None:
        if self.kernel.now_ms >= until_ms:
            return
        strike = self.kernel.random.choice(
            (
                self._freeze,
                self._crash,
                self._delete_one,
                self._change_one,
                self._take_some,
                self._fail,
            )
        )
        strike()
        self.strike_until(until_ms)

    def heal(self) -> None:
        """All nodes are well, and what others have is over."""
        self.loss, self.cut, self.frozen_until_ms = 0.0, 0.0, 0
        self.unwell.clear()
        self.has = {each.name: each for each in self._mine()}

    # What must be true

    def keeps(self, start: int, end: int, units: int, user: str) -> bool:
        """Whether it keeps nodes for this claim, or would, had nobody touched them."""
        return any(
            each.start <= start and end <= each.end and len(each.nodes) >= units
            and each.users == (self.users[user],) and not each.broken
            for each in (*self._mine(), *self.touched)
        )  # fmt: skip

    def uncounted(self, free: Callable[[int, int], int]) -> list[str]:
        """Return what it keeps for the site, and the site's calendar (`free`) takes for free."""
        now_s = self.clock_s()
        return [
            f"{self.site}'s calendar offers nodes of {each}"
            for each in self._mine()
            if each not in self.touched and each.end > now_s
            and free(each.start, each.end) > len(self.nodes) - len(each.nodes)
        ]  # fmt: skip

    def differences(self, claims: Sequence[tuple[int, int, int, str]]) -> list[str]:
        """Return how it differs from `claims` (start, end, units, user), as far as these are not over."""
        now_s = self.clock_s()
        wanted = Counter(
            (start, end, units, self.users[user])
            for start, end, units, user in claims
            if end > now_s
        )
        has = Counter((each.start, each.end, len(each.nodes), *each.users) for each in self._mine())
        kept = f"{self.site}'s system keeps"
        return [f"{kept} not {each}" for each in wanted - has] + [
            f"{kept} {each} for nobody" for each in has - wanted
        ]

    def _freeze(self) -> None:
        self.kernel.fault("batch system frozen", self.site)
        self.frozen_until_ms = self.kernel.now_ms + self.kernel.random.randrange(LATE_MS)

    def _crash(self) -> None:
        self.kernel.fault("batch system crashes", self.site)
        self.touched += [each for each in self._mine() if self.written.get(each.name) != each]
        before, self.has = self.has, dict(self.written)
        self.touched += [each for each in self._mine() if before.get(each.name) != each]
        self.boot_ms = self.kernel.now_ms

    def _mine(self) -> list[SystemReservation]:
        return [each for each in self.has.values() if is_ours(self.site, each.name)]

    def _delete_one(self) -> None:
        if mine := self._mine():
            self.kernel.fault("operator deletes a reservation", self.site)
            gone = self.kernel.random.choice(mine)
            self.touched.append(gone)
            del self.has[gone.name]
            self._write_later()

    def _change_one(self) -> None:
        if mine := self._mine():
            self.kernel.fault("operator changes a reservation", self.site)
            one = self.kernel.random.choice(mine)
            self.touched.append(one)
            changed = self.kernel.random.choice(
                (
                    structs.replace(one, users=("operator",)),
                    structs.replace(one, broken="MAINT"),
                    structs.replace(one, end=one.end - (one.end - one.start) // 2),
                )
            )
            self.touched.append(changed)
            self.has[one.name] = changed
            self._write_later()

    def _take_some(self) -> None:
        """Somebody else reserves nodes that are free."""
        random = self.kernel.random
        start = (self.clock_s() // 3600 + random.randrange(1, 6)) * 3600
        nodes = tuple(sorted(random.sample(self.nodes, random.randrange(1, len(self.nodes)))))
        name = f"theirs-{self.kernel.now_ms}"
        wanted = SystemReservation(
            name, start, start + random.choice((1800, 3600)), nodes, ("bob",)
        )
        if not self._why_not(wanted):
            self.kernel.fault("others reserve nodes", self.site)
            self.has[name] = wanted
            self._write_later()

    def _fail(self) -> None:
        if not self.unwell:
            self.kernel.fault("node down", self.site)
            self.unwell.add(self.kernel.random.choice(self.nodes))
        else:
            self.unwell.clear()


def _shown(errand: Errand) -> str:
    name = getattr(errand, "name", "") or getattr(getattr(errand, "reservation", None), "name", "")
    return f"{type(errand).__name__} {name}"
