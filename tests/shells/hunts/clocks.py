"""Clocks that jump by days and years: nothing that is locked ends, nothing is refused for ever."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import kalends
from tests.shells.customers import Customers
from tests.shells.facility import Facility, Plan
from tests.shells.judging import calm, judge
from tests.shells.scenarios import Broken, scenario

DAY_S: Final = 86_400
JUMPS_S: Final = (DAY_S, 40 * DAY_S, 400 * DAY_S, 5_000 * DAY_S)
WRONG_S: Final = 90.0
END_S: Final = 900.0


@scenario(Plan(replicas=2), least={"told and kept": 12})
async def years(facility: Facility, chance: random.Random) -> None:
    """Some clocks are wrong by days to years for a while: what was told stands, and bookings go on."""
    await facility.up()
    customers = Customers(facility, chance, bookings=6, pause_s=0.5, slots=100)
    await customers.end(END_S)
    for _ in range(chance.randrange(1, 4)):
        name = chance.choice(facility.servers)
        error_s = chance.choice(JUMPS_S) * chance.choice((1, 1, -1)) * chance.uniform(0.5, 1.5)
        facility.world.set_clock(name, error_s)
        await asyncio.sleep(chance.uniform(0, 20))
        if chance.random() < 0.3:
            facility.restart(name)
            facility.world.set_clock(name, error_s)
    meanwhile = Customers(facility, chance, count=2, bookings=3, pause_s=10.0, name="late")
    await asyncio.sleep(WRONG_S)
    await calm(facility)
    await meanwhile.end(END_S)
    async with facility.connect(chance.choice(facility.replicas), "ann") as client:
        try:
            start = facility.tomorrow + 600 * 5_000
            await client.book(facility.everything, duration="10m", at=start, wait_s=10)
        except kalends.KalendsError as error:
            raise Broken(f"all clocks are right again, and a booking fails: {error}") from error
    await asyncio.sleep(60)
    slots = customers.slots | meanwhile.slots
    judge(facility, {**customers.told, **meanwhile.told}, slots=slots)
