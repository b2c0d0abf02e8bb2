"""All kinds of faults at once, then none; and loss of power alone, at any write or sync."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from tests.shells import disk
from tests.shells.customers import Customers
from tests.shells.disk import CRASH, OK, Kind
from tests.shells.facility import Facility, Plan
from tests.shells.judging import calm, judge
from tests.shells.nodes import Node
from tests.shells.scenarios import scenario
from tests.shells.stage import NOBODY

STRIKES: Final = 14
WRITES_MAX: Final = 200
END_S: Final = 900.0


class Strikes:
    """One fault after the other, drawn by `chance`; each ends by itself."""

    def __init__(self, facility: Facility, chance: random.Random) -> None:
        self._facility = facility
        self._world = facility.world
        self._chance = chance
        self._kinds = (
            self._reset, self._cut, self._kill, self._pause, self._break_disk, self._jump, self._no_power,
        )  # fmt: skip

    def strike(self) -> None:
        self._chance.choice(self._kinds)()

    def _server(self) -> str:
        return self._chance.choice(self._facility.servers)

    def _later(self, within_s: float, call: object, *arguments: object) -> None:
        self._world.loop.call_later(
            self._chance.uniform(0.1, within_s), call, *arguments, context=NOBODY
        )

    def _reset(self) -> None:
        self._world.network.reset(self._server(), self._server())

    def _cut(self) -> None:
        one, other = self._chance.sample(self._facility.servers, 2)
        self._world.network.cut(one, other, both=self._chance.random() < 0.5)
        self._later(30, self._world.network.heal)

    def _kill(self) -> None:
        name = self._server()
        self._world.kill(name, dark=self._chance.random() < 0.5)
        self._later(3, self._start, name)

    def _start(self, name: str) -> None:
        if self._world.nodes[name].dead:
            self._facility.start(name)

    def _pause(self) -> None:
        name = self._server()
        self._world.pause(name)
        self._later(20, self._world.resume, name)

    def _break_disk(self) -> None:
        name = self._server()
        code = self._chance.choice((disk.FULL, disk.IO_ERROR, disk.SYNC_FAILED))
        until_s = self._world.loop.now_s + self._chance.uniform(0.1, 3)

        def fault(node: Node, kind: Kind, path: str) -> int:
            return code if node.name == name and self._world.loop.now_s < until_s else OK

        self._world.disk.fault = fault

    def _jump(self) -> None:
        self._world.set_clock(self._server(), self._chance.uniform(-50, 50))

    def _no_power(self) -> None:
        host = self._facility.host_of(self._server())
        without = self._world.on_host(host)
        power_fails_at(self._facility, host, self._chance.randrange(WRITES_MAX))
        self._later(10, self._power_is_back, host, without)

    def _power_is_back(self, host: str, without: list[str]) -> None:
        self._world.disk.fault = None
        for name in without:
            self._start(name)


async def weather(
    facility: Facility, chance: random.Random, *, strikes: int, pause_s_max: float, slow: float
) -> None:
    """So many faults, at most so long after one another, on a network that is sometimes slow; all end."""
    facility.world.network.slow = slow
    drawn = Strikes(facility, chance)
    for _ in range(strikes):
        await asyncio.sleep(chance.uniform(0.1, pause_s_max))
        drawn.strike()
    await asyncio.sleep(31)


def power_fails_at(facility: Facility, host: str, operations: int) -> None:
    """The power of `host` goes at its next write or sync after so many."""
    left = operations

    def fault(node: Node, kind: Kind, path: str) -> int:
        nonlocal left
        if node.host != host:
            return OK
        left -= 1
        return CRASH if left == 0 else OK

    facility.world.disk.fault = fault


@scenario(Plan(replicas=2, keys=True), least={"told and kept": 20})
async def storm(facility: Facility, chance: random.Random) -> None:
    """Whatever strikes: once it is over, everybody is answered, and what was told is true."""
    await facility.up()
    customers = Customers(facility, chance, bookings=20, pause_s=2.0, cancels=0.2)
    await weather(facility, chance, strikes=STRIKES, pause_s_max=3, slow=0.01)
    await calm(facility)
    await customers.end(END_S)
    await asyncio.sleep(60)
    judge(facility, customers.told, cancelled=customers.cancelled, slots=customers.slots)


@scenario(Plan(), least={"told and kept": 50})
async def power(facility: Facility, chance: random.Random) -> None:
    """What was told as reserved is there after losses of power between any two writes of any host."""
    await facility.up()
    customers = Customers(facility, chance, bookings=25, pause_s=0.4)
    world = facility.world
    for _ in range(chance.randrange(1, 4)):
        await asyncio.sleep(chance.uniform(0.3, 3))
        name = chance.choice(facility.servers)
        host = facility.host_of(name)
        power_fails_at(facility, host, chance.randrange(1, WRITES_MAX))
        for _ in range(1_000):
            await asyncio.sleep(0.01)
            if world.nodes[name].dead:
                break
        world.disk.fault = None
        await asyncio.sleep(chance.uniform(0.1, 2))
        if world.nodes[name].dead:
            facility.start(name)
    await customers.end(END_S)
    await calm(facility)
    judge(facility, customers.told, slots=customers.slots)


@scenario(Plan(sites=3, replicas=2, capacity=1), least={"told and kept": 5})
async def crowd(facility: Facility, chance: random.Random) -> None:
    """Many want the same few slots while faults strike; who waits is served in order, or told."""
    await facility.up()
    customers = Customers(
        facility, chance, count=8, bookings=6, pause_s=4.0, cancels=0.5, slots=8, pick=True,
        patience=("none", "held", "held"),
    )  # fmt: skip
    strikes = Strikes(facility, chance)
    for _ in range(STRIKES // 2):
        await asyncio.sleep(chance.uniform(0.1, 4))
        strikes.strike()
    await asyncio.sleep(31)
    await calm(facility)
    await customers.end(END_S)
    await asyncio.sleep(60)
    judge(facility, customers.told, cancelled=customers.cancelled, slots=customers.slots)
