"""A simulated batch system in the hands of a test: the suite itself is tested with it, and the site's part.

It is written after what is known of real ones. A `careless` one differs from Slurm wherever systems differ: a
name may be given twice, touching slots need a gap, and what it was asked for while it was frozen is lost.
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
    stubborn: set[str] = field(default_factory=set)
    unwell: dict[str, UnwellNode] = field(default_factory=dict)
    boot_s: int = field(default_factory=lambda: int(time.time()) - 600)
    away: bool = False
    frozen: bool = False


class SimulatedAdapter:
    """The adapter: each call reaches the controller, or is silent."""

    def __init__(self, controller: _Controller, traits: Traits) -> None:
        self._controller = controller
        self.traits = traits
        self.late: list[SystemReservation] = []

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
        if reservation.name not in self._controller.has:
            raise SystemRefused("there is no such reservation")
        self.put(reservation, known=True)

    async def delete(self, name: str) -> None:
        await self._reach()
        one = self._controller
        inside = [each for each in one.jobs.values() if each.reservation == name]
        for each in inside:
            del one.jobs[each.id]
        if inside and not self.traits.deletes_in_use:
            raise SystemRefused("the reservation is in use")
        one.has.pop(name, None)
        self.write_later()

    async def end_jobs(self, name: str, *, at_once: bool) -> None:
        await self._reach()
        jobs = self._controller.jobs
        for each in [job for job in jobs.values() if job.reservation == name]:
            if at_once or each.id not in self._controller.stubborn:
                del jobs[each.id]

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self._controller.frozen:
            await asyncio.sleep(TIMEOUT_S)
            raise SystemSilent("it does not answer")
        if self._controller.away:
            raise SystemSilent("nobody listens")

    def put(self, wish: SystemReservation, *, known: bool, force: bool = False) -> None:
        now_s, one = int(time.time()), self._controller
        if not known and self.traits.unique_names and wish.name in one.has:
            raise SystemRefused("it overlaps with another reservation")
        if wish.end <= now_s:
            raise SystemRefused("that time has passed")
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

    def __init__(self, *, careless: bool) -> None:
        self.name = "careless" if careless else "simulated"
        traits = Traits(weak_s=1, late_write_s=5, deletes_in_use=False)
        if careless:
            traits = Traits(unique_names=False, gap_s=61, job_offset_s=60)
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
        self._controller.jobs.clear()
