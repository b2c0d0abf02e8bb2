"""Batch systems that simulated sites stand before: they freeze, crash, forget, and others use them, too.

What they differ in is drawn (`Traits`). A system carries out what it was asked for in the order in which it
hears of it, now or, while it is frozen, once it goes on, whoever still waits. A crash undoes what it had not
written yet. Nothing here knows of grants or claims.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import structs

from kalends.backends.names import life_in
from kalends.backends.records import (
    ChangeReservation,
    CreateReservation,
    DeleteReservation,
    EndJobs,
    Errand,
    FinishedJob,
    ListFinishedJobs,
    SystemAnswer,
    SystemReservation,
    SystemState,
    Traits,
    UnwellNode,
)
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from tests.simulation.clocks import EPOCH_S
from tests.simulation.kernel import Kernel
from tests.simulation.system_rooms import SystemRoom

if TYPE_CHECKING:
    from tests.simulation.nodes import SiteNode

ANSWER_MS: Final = (5, 50, 500, 3_000, 14_000)
GIVE_UP_MS: Final = (3_000, 20_000, 60_000)
REPAIR_S: Final = 86_400
SLOW_MS: Final = 60_000
"""Within this time a site has seen what is there, and has done what follows from it."""

LATE_MS: Final = 20_000
"""For so long a frozen system may carry out what it was asked for before."""

JOB_S: Final = 60

STRIKE_EVERY_MS: Final = 12_000


@dataclass(eq=False)
class BatchSystem:
    """The batch system of one site."""

    kernel: Kernel
    site: str
    room: SystemRoom
    users: dict[str, str]
    has: dict[str, SystemReservation] = field(default_factory=dict)
    written: dict[str, SystemReservation] = field(default_factory=dict)
    """What a crash leaves."""
    unwell: set[str] = field(default_factory=set)
    touched: list[SystemReservation] = field(default_factory=list)
    """Those of the site's that a crash or an operator has changed: for them no vote can vouch."""
    granted: list[SystemReservation] = field(default_factory=list)
    """All that it has ever kept for the site."""
    barred: list[tuple[int, int, frozenset[str]]] = field(default_factory=list)
    """When (seconds UTC) and which nodes nobody could count on, were it for a moment only."""
    lasting: bool = False
    """What others have, and nodes that are down, stay so to the end."""
    moved_ms: int = 0
    """When anything was last otherwise here."""
    cut: float = 0.0
    """How likely it grants a unit less than it was asked for."""
    loss: float = 0.0
    """How likely an answer is lost."""
    slips: float = 0.0
    """How likely a change that makes anew finds its nodes taken."""
    lingering: float = 0.0
    """How likely what it is told to delete is still there when it says that it has."""
    frozen_until_ms: int = 0
    boot_ms: int = 0
    answer_ms: int = field(init=False)
    """For so long the owner expects its answers to take, at most."""
    delay_ms: int = field(init=False)
    """For so long an errand takes to reach it, and its answer to come back, at most."""
    repair_s: int = REPAIR_S
    """For so long a node that is down counts as taken."""
    tells_sums: bool = False
    """Of the cores of several nodes only the sum is told."""

    def __post_init__(self) -> None:
        random = self.kernel.random
        self.traits = Traits(
            late_write_s=LATE_MS // 1000 + 5,
            weak_s=random.choice((0, 5)),
            unique_names=random.random() < 0.7,
            gap_s=random.choice((0, 0, 61)),
            changes_in_place=random.random() < 0.7,
            asks_jobs=random.random() < 0.7,
            tells_use=True,
        )
        self.slips = random.choice((0.0, 0.3))
        self.lingering = random.choice((0.0, 0.0, 0.3))
        self.loss = random.choice((0.0, 0.1, 0.3))
        self.cut = random.choice((0.0, 0.2))
        self.tells_sums = random.random() < 0.5
        self.answer_ms = self.delay_ms = random.choice(ANSWER_MS)
        self.give_up_ms = random.choice(GIVE_UP_MS)

    def backend(self) -> ResourceBackend:
        """Return what the owner says of it."""
        return ResourceBackend(
            f"batch-{self.site}", self.room.names, self.users, self.traits, self.room.unit, self.room.each,
            answer_ms_max=self.answer_ms + 1_000, repair_s=self.repair_s, give_up_ms=self.give_up_ms,
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
            return self._change(errand.reservation, known)
        if isinstance(errand, EndJobs):
            assert errand.at_once or self.traits.asks_jobs, "jobs cannot be asked to end here"
            return SystemAnswer("done")
        if isinstance(errand, DeleteReservation):
            return self._delete(errand.name)
        if isinstance(errand, ListFinishedJobs):
            return SystemAnswer("done", jobs=self._finished(errand))
        return SystemAnswer("done", state=self.state())

    def _change(self, wanted: SystemReservation, known: SystemReservation) -> SystemAnswer:
        if self.traits.changes_in_place or not self.kernel.chance(self.slips):
            return self._put(wanted, known)
        # It has been deleted, and somebody was faster than the one that was to take its place.
        self.kernel.fault("reservation lost by a change", self.site)
        self.touched.append(self.has.pop(wanted.name))
        self.moved_ms = self.kernel.now_ms
        self._write_later()
        return SystemAnswer("refused", "no suitable queues")

    def _delete(self, name: str) -> SystemAnswer:
        found = self.has.get(name)
        if found is not None and self.kernel.chance(self.lingering):
            self.kernel.fault("reservation lingers", self.site)
            return SystemAnswer("done", "it is registered for deletion", self._told(found))
        self.has.pop(name, None)
        self.moved_ms = self.kernel.now_ms
        self._write_later()
        return SystemAnswer("done")

    def _put(self, wanted: SystemReservation, known: SystemReservation | None) -> SystemAnswer:
        there = self.has.get(wanted.name)
        if known is None and there is not None:
            return SystemAnswer(
                "refused", "it overlaps with another reservation", found=self._told(there)
            )
        why = self._why_not(wanted)
        if why:
            return SystemAnswer("refused", why, found=self._told(there) if there else None)
        if self._with_less(wanted) != wanted and self.kernel.chance(self.cut):
            self.kernel.fault("reservation cut", self.site)
            wanted = self._with_less(wanted)
            if known is not None:  # A vote that is repeated now was for that.
                self.touched.append(known)
        self.has[wanted.name] = wanted
        self.granted.append(wanted)
        self.moved_ms = self.kernel.now_ms
        self._write_later()
        return SystemAnswer("done", found=self._told(wanted))

    def _with_less(self, one: SystemReservation) -> SystemReservation:
        """Return it with a unit less, if that leaves any."""
        units = self.room.units(one)
        if units.total() < 2:
            return one
        return self.room.with_units(one, units - Counter([min(units)]))

    def _told(self, one: SystemReservation) -> SystemReservation:
        """Return one as it is listed: of ours perhaps with the sum of its cores alone."""
        if not self.tells_sums or len(one.cores) < 2 or life_in(self.site, one.name) is None:
            return one
        return structs.replace(one, cores=(sum(one.cores),))

    def _why_not(self, wanted: SystemReservation) -> str:
        if self._down_for(wanted):
            return "required nodes are not available"
        others = [other for other in self.has.values() if other.name != wanted.name]
        if any(
            self._free(name, wanted, others, self.traits.gap_s) < units
            for name, units in self.room.units(wanted).items()
        ):
            return "it overlaps with another reservation"
        return ""

    def state(self) -> SystemState:
        """Return everything that it has."""
        return SystemState(
            clock_s=self.clock_s(),
            boot_s=EPOCH_S + self.boot_ms // 1000,
            nodes=() if self.room.unit == "licences" else self.room.names,
            reservations=tuple(map(self._told, self.has.values())),
            unwell=tuple(UnwellNode(node, "down") for node in sorted(self.unwell)),
            cores=self._there("cores"),
            licences=self._there("licences"),
        )

    def _there(self, unit: str) -> tuple[tuple[str, int], ...]:
        names = self.room.names if unit == self.room.unit else ()
        return tuple((name, self.room.has(name)) for name in names)

    def _finished(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        """Return a job for each reservation that has begun: it took the first minute."""
        begun = {each.name: each for each in self.granted if each.start < asked.until - JOB_S}
        return tuple(
            FinishedJob(name, each.start, each.start + JOB_S, JOB_S, each.users[0], "", name)
            for name, each in begun.items()
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
                self._overlay,
            )
        )
        strike()
        self.moved_ms = self.kernel.now_ms
        self.strike_until(until_ms)

    def heal(self) -> None:
        """All nodes are well, what others have is over, and no answer comes later than it may."""
        self.delay_ms = (self.answer_ms + 1) // 2  # There and back.
        self.loss, self.cut, self.lingering, self.slips = 0.0, 0.0, 0.0, 0.0
        self.frozen_until_ms = 0
        self.moved_ms = self.kernel.now_ms
        if not self.lasting:
            self.unwell.clear()
            self.room.shortage.clear()
            self.has = {each.name: each for each in self._mine()}

    # What must be true

    def keeps(self, start: int, end: int, units: int, user: str) -> bool:
        """Whether it keeps nodes for this claim, or would, had nobody touched them."""
        return any(
            each.start <= start and end <= each.end and self.room.units(each).total() >= units
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
            and free(each.start, each.end) > self.room.capacity - self.room.units(each).total()
        ]  # fmt: skip

    def differences(self, claims: Sequence[tuple[int, int, int, str]]) -> list[str]:
        """Return how it differs from `claims` (start, end, units, user), as far as these are not over."""
        now_s = self.clock_s()
        wanted = Counter(
            (start, end, units, self.users[user])
            for start, end, units, user in claims
            if end > now_s
        )
        has = Counter(
            (each.start, each.end, self.room.units(each).total(), *each.users)
            for each in self._mine()
        )
        kept = f"{self.site}'s system keeps"
        return [
            *(f"{kept} not {each}" for each in wanted - has),
            *(f"{kept} {each} for nobody" for each in has - wanted),
            *(f"{kept} {each}, of no use" for each in self._mine() if self._is_spoilt(each)),
        ]

    def _is_spoilt(self, mine: SystemReservation) -> bool:
        """Whether it has not begun, and its nodes are down, or another's."""
        if mine.start <= self.clock_s():
            return False
        return bool(self._down_for(mine)) or any(
            self._free(name, mine, self.has.values()) < 0 for name in self.room.units(mine)
        )

    def why_not_given_up(self, start: int, end: int, user: str) -> str:
        """Return what is wrong with the claim that the site cannot keep this slot, or ""."""
        had = [
            each
            for each in self.granted
            if each.start <= start and end <= each.end and each.users == (self.users[user],)
        ]
        names = {each.name for each in self.touched}
        if not any(
            each.name in names
            or any(
                a < end and start < b and names_barred & set(self.room.units(each))
                for a, b, names_barred in self.barred
            )
            for each in had
        ):
            return "nothing has happened to it"
        calm = not self.loss and not self.cut and self.frozen_until_ms < self.moved_ms
        if not calm or self.kernel.now_ms < self.moved_ms + SLOW_MS + self.give_up_ms:
            return ""
        one = max(had, key=lambda each: self.room.units(each).total())
        others = [each for each in self.has.values() if each.name not in {h.name for h in had}]
        free = {
            name: max(0, self._free(name, one, others, self.traits.gap_s))
            for name in set(self.room.names) - self.unwell
        }
        needed = self.room.units(one).total()
        return f"{sorted(free.items())} are free" if sum(free.values()) >= needed else ""

    def _free(
        self,
        name: str,
        wanted: SystemReservation,
        others: Iterable[SystemReservation],
        gap_s: int = 0,
    ) -> int:
        """Return how many units of this name `others` leave; licences that are short come back, too."""
        mended = wanted.start >= self.clock_s() + self.repair_s
        back = self.room.shortage[name] if mended else 0
        return back + self.room.free(name, wanted.start, wanted.end, others, gap_s)

    def _down_for(self, wanted: SystemReservation) -> set[str]:
        """Return what `wanted` has and will not be well, as far as the owner believes."""
        names = set(self.room.units(wanted))
        mended_s = self.clock_s() + self.repair_s
        gone = names.difference(self.room.names)
        return gone | (self.unwell & names if wanted.start < mended_s else set())

    def _bar(self, start: int, end: int, names: Iterable[str]) -> None:
        self.barred.append((start, end, frozenset(names)))

    def _freeze(self) -> None:
        self.kernel.fault("batch system frozen", self.site)
        self.frozen_until_ms = self.kernel.now_ms + self.kernel.random.randrange(LATE_MS)

    def _crash(self) -> None:
        self.kernel.fault("batch system crashes", self.site)
        self.touched += [each for each in self._mine() if self.written.get(each.name) != each]
        before, self.has = self.has, dict(self.written)
        self.touched += [each for each in self._mine() if before.get(each.name) != each]
        self.boot_ms = self.kernel.now_ms

    def _theirs(self) -> list[SystemReservation]:
        return [each for each in self.has.values() if life_in(self.site, each.name) is None]

    def _mine(self) -> list[SystemReservation]:
        return [each for each in self.has.values() if life_in(self.site, each.name) is not None]

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
                    structs.replace(one, broken="there are 2 of its name"),
                    structs.replace(one, end=one.end - (one.end - one.start) // 2),
                    self._with_less(one),
                )
            )
            self.touched.append(changed)
            self.has[one.name] = changed
            self._write_later()

    def _take_some(self) -> None:
        """Somebody else reserves what is free."""
        random = self.kernel.random
        start = (self.clock_s() // 3600 + random.randrange(1, 6)) * 3600
        units = self.room.drawn(random, self.room.capacity - 1)
        name, length_s = f"theirs-{self.kernel.now_ms}", random.choice((1800, 3600))
        wanted = self.room.with_units(
            SystemReservation(name, start, start + length_s, (), ("bob",)), units
        )
        if not self._why_not(wanted):
            self.kernel.fault("others reserve nodes", self.site)
            self.has[name] = wanted
            self._bar(wanted.start, wanted.end, units)
            self._write_later()

    def _overlay(self) -> None:
        """An operator reserves over what the site has: units of one of its nodes."""
        if mine := self._mine():
            self.kernel.fault("operator overrides a reservation", self.site)
            one = self.kernel.random.choice(mine)
            name = f"theirs-over-{self.kernel.now_ms}"
            node = min(self.room.units(one), default="")
            units = Counter({node: self.kernel.random.randrange(1, self.room.each + 1)})
            over = structs.replace(one, name=name, users=("operator",), broken="")
            self.has[name] = self.room.with_units(over, units)
            self._bar(one.start, one.end, units)
            self._write_later()

    def _fail(self) -> None:
        """A node goes down, or the maker of the programs takes licences back; or all is well again."""
        if self.unwell or self.room.shortage:
            self.unwell.clear()
            self.room.shortage.clear()
            return
        name = self.kernel.random.choice(self.room.names)
        if self.room.unit == "licences":
            self.kernel.fault("licences gone", self.site)
            self.room.shortage[name] = self.kernel.random.randrange(1, self.room.each + 1)
        else:
            self.kernel.fault("node down", self.site)
            self.unwell.add(name)
        self._bar(0, self.clock_s() + 2 * self.repair_s, [name])


def _shown(errand: Errand) -> str:
    name = getattr(errand, "name", "") or getattr(getattr(errand, "reservation", None), "name", "")
    return f"{type(errand).__name__} {name}"
