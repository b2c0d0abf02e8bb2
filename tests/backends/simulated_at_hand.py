"""A simulated batch system in the hands of a test: the suite itself is tested with it, and the site's part.

It is written after what is known of real ones. A `careless` one differs from Slurm wherever systems differ: a
name may be given twice, touching slots need a gap, what it was asked for while it was frozen is lost, nothing
with jobs in it is changed, jobs can only be killed, and nothing can be reserved over what is there.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.backends.records import (
    FinishedJob,
    ListFinishedJobs,
    SystemJob,
    SystemReservation,
    SystemState,
    Traits,
    UnwellNode,
)

NODES = ("n1", "n2", "n3", "n4")
USERS = frozenset({"daemon", "nobody"})
TIMEOUT_S = 0.1


@dataclass
class _Controller:
    """What the system knows, and how it is."""

    nodes: tuple[str, ...] = NODES
    has: dict[str, SystemReservation] = field(default_factory=dict)
    written: dict[str, SystemReservation] = field(default_factory=dict)
    jobs: dict[str, SystemJob] = field(default_factory=dict)
    over: list[FinishedJob] = field(default_factory=list)
    numbers: dict[str, str] = field(default_factory=dict)
    """By name: those of all reservations that there ever were."""
    stubborn: set[str] = field(default_factory=set)
    unwell: dict[str, UnwellNode] = field(default_factory=dict)
    boot_s: int = field(default_factory=lambda: int(time.time()) - 600)
    away: bool = False
    frozen: bool = False
    accounts: bool = True

    def end(self, job: str, *, by_number: bool) -> None:
        """End a job, and write it into the accounts."""
        one = self.jobs.pop(job)
        inside = one.reservation and self.numbers[one.reservation] if by_number else one.reservation
        end = max(int(time.time()), one.start)
        node_seconds = (end - one.start) * len(one.nodes)
        self.over.append(FinishedJob(one.id, one.start, end, node_seconds, one.user, "", inside))


class SimulatedAdapter:
    """The adapter: each call reaches the controller, or is silent."""

    def __init__(self, controller: _Controller, traits: Traits) -> None:
        self._controller = controller
        self.traits = traits
        self.late: list[SystemReservation] = []
        self.by_number = not traits.unique_names
        """Whether its accounts call reservations by number."""

    async def state(self) -> SystemState:
        await self._reach()
        one = self._controller
        return SystemState(
            clock_s=int(time.time()),
            boot_s=one.boot_s,
            nodes=one.nodes,
            reservations=tuple(one.has.values()),
            jobs=tuple(one.jobs.values()),
            unwell=tuple(one.unwell.values()),
            numbers=tuple((one.numbers[name], name) for name in one.has if self.by_number),
        )

    async def find(self, name: str) -> SystemReservation | None:
        await self._reach()
        return self._controller.has.get(name)

    async def create(self, reservation: SystemReservation) -> None:
        if self._controller.frozen and self.traits.late_write_s:
            self.late.append(reservation)
        await self._reach()
        self.put(reservation, known=False)

    async def change(self, reservation: SystemReservation) -> None:
        await self._reach()
        one = self._controller
        if reservation.name not in one.has:
            raise SystemRefused("there is no such reservation")
        in_use = any(each.reservation == reservation.name for each in one.jobs.values())
        if in_use and not self.traits.changes_in_place:
            raise SystemRefused("it cannot be changed while jobs are in it")
        self.put(reservation, known=True)

    async def delete(self, name: str) -> None:
        await self._reach()
        one = self._controller
        inside = [each for each in one.jobs.values() if each.reservation == name]
        for each in inside:
            one.end(each.id, by_number=self.by_number)
        if inside and not self.traits.deletes_in_use:
            raise SystemRefused("the reservation is in use")
        one.has.pop(name, None)
        self.write_later()

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        await self._reach()
        jobs = self._controller.jobs
        if not at_once and not self.traits.asks_jobs:
            return
        for each in [job for job in jobs.values() if job.reservation == name]:
            if at_once or each.id not in self._controller.stubborn:
                self._controller.end(each.id, by_number=self.by_number)

    async def finished_jobs(self, asked: ListFinishedJobs) -> tuple[FinishedJob, ...]:
        await self._reach()
        if not self._controller.accounts:
            raise SystemRefused("it keeps no accounts")
        over = self._controller.over
        return tuple(each for each in over if asked.since <= each.end < asked.until)

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self._controller.frozen:
            await asyncio.sleep(TIMEOUT_S)  # As long as a command waits that gets no answer.
            raise SystemSilent("it does not answer")
        if self._controller.away:
            raise SystemSilent("nobody listens")

    def put(self, wish: SystemReservation, *, known: bool, force: bool = False) -> None:
        now_s, one = int(time.time()), self._controller
        if not known and self.traits.unique_names and wish.name in one.has:
            raise SystemRefused("it overlaps with another reservation")
        if wish.end <= now_s:
            raise SystemRefused("that time has passed")
        if "nobody-here" in wish.users:
            raise SystemRefused("Invalid user")
        if not known and wish.start <= now_s:
            wish = structs.replace(wish, start=now_s)
        if not USERS.issuperset(wish.users):
            raise SystemRefused("no such user")
        for node in wish.nodes:
            if node not in one.nodes or node in one.unwell:
                raise SystemRefused(f"{node} is not available")
        if not force:
            self._refuse_overlap(wish)
        one.has[wish.name] = wish
        one.numbers.setdefault(wish.name, str(len(one.numbers) + 1))
        self.write_later()

    def _refuse_overlap(self, wish: SystemReservation) -> None:
        gap_s, one = self.traits.gap_s, self._controller
        for other in one.has.values():
            meets = other.start < wish.end + gap_s and wish.start < other.end + gap_s
            if other.name != wish.name and meets and set(other.nodes) & set(wish.nodes):
                raise SystemRefused("it overlaps with another reservation")
        for job in one.jobs.values():
            runs = job.end is None or wish.start < job.end + self.traits.job_offset_s
            if runs and job.reservation != wish.name and set(job.nodes) & set(wish.nodes):
                raise SystemRefused("required nodes are busy")

    def write_later(self) -> None:
        image, boot_s = dict(self._controller.has), self._controller.boot_s

        def write() -> None:
            if boot_s == self._controller.boot_s:
                self._controller.written = image

        if self.traits.weak_s:
            asyncio.get_running_loop().call_later(self.traits.weak_s, write)
        else:
            write()


class SimulatedAtHand:
    user = "daemon"
    other_user = "nobody"
    nodes = NODES
    job_s_min = 1
    job_begins_s_max = 20
    many = 40
    answer_s_max = 20.0

    def __init__(self, *, careless: bool) -> None:
        self.reserves_over = not careless
        self.lengthens_over = True
        self.name = "careless" if careless else "simulated"
        traits = Traits(weak_s=1, late_write_s=5, deletes_in_use=False, tells_use=True)
        if careless:
            traits = Traits(
                unique_names=False,
                gap_s=61,
                job_offset_s=60,
                changes_in_place=False,
                asks_jobs=False,
                tells_use=True,
            )
        self._controller = _Controller()
        self.adapter = SimulatedAdapter(self._controller, traits)
        self._numbers = itertools.count(1)

    async def freeze(self) -> None:
        self._controller.frozen = True

    async def thaw(self) -> None:
        self._controller.frozen = False
        late, self.adapter.late = self.adapter.late, []
        for each in late:
            self.adapter.put(each, known=False)

    async def crash(self) -> None:
        self._controller.away = True
        self._controller.has = dict(self._controller.written)
        self._controller.boot_s = 0

    async def stop(self) -> None:
        self._controller.away = True
        self._controller.written = dict(self._controller.has)
        self._controller.boot_s = 0

    async def start(self, nodes: Sequence[str] = ()) -> None:
        one = self._controller
        one.nodes = tuple(nodes) or NODES
        gone = set(NODES).difference(one.nodes)
        one.has = {
            each.name: structs.replace(each, nodes=tuple(n for n in each.nodes if n not in gone))
            for each in one.has.values()
        }
        if one.away:
            one.away, one.boot_s = False, int(time.time())

    async def delete(self, name: str) -> None:
        self._controller.has.pop(name, None)
        self.adapter.write_later()

    async def change(self, name: str, **fields: object) -> None:
        one = self._controller.has[name]
        if fields.pop("open", False):
            one = structs.replace(one, broken="MAINT")
        for each in ("nodes", "users"):
            if each in fields:
                fields[each] = tuple(str(fields[each]).split(","))
        self._controller.has[name] = structs.replace(one, **fields)
        self.adapter.write_later()

    async def reserve(
        self, name: str, nodes: Sequence[str], start: int, end: int, *, force: bool = False
    ) -> None:
        wish = SystemReservation(name, start, end, tuple(nodes), (self.other_user,))
        self.adapter.put(wish, known=False, force=force)

    async def take_down(self, node: str) -> None:
        self._controller.unwell[node] = UnwellNode(node, "down", "test")

    async def drain(self, node: str) -> None:
        self._controller.unwell[node] = UnwellNode(node, "drained", "test")

    async def mend(self, node: str) -> None:
        self._controller.unwell.pop(node, None)

    async def run(
        self,
        nodes: Sequence[str],
        limit_s: int | None,
        *,
        reservation: str = "",
        stubborn: bool = False,
    ) -> str:
        now_s, job = int(time.time()), str(next(self._numbers))
        end = None if limit_s is None else now_s + limit_s
        user = self.user if reservation else self.other_user
        if stubborn:
            self._controller.stubborn.add(job)
        self._controller.jobs[job] = SystemJob(job, user, tuple(nodes), now_s, end, reservation)
        return job

    async def lengthen(self, job: str, limit_s: int) -> None:
        one = self._controller.jobs[job]
        self._controller.jobs[job] = structs.replace(one, end=one.start + limit_s)

    async def cancel_all(self) -> None:
        for job in list(self._controller.jobs):
            self._controller.end(job, by_number=self.adapter.by_number)

    async def accounts(self, *, kept: bool) -> None:
        """Have its accounting answer, or be there no more."""
        self._controller.accounts = kept
