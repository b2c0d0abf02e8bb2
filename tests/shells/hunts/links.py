"""Links between brokers and sites: idle ones, those of wrong clocks, and what is said while they break."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import kalends
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario

SOON_S: Final = 15.0
CALM_S: Final = 300.0
CONNECT_MS_MAX: Final = 60_000


@scenario(Plan(keys=True), least={"booked": 3})
async def idle(facility: Facility, chance: random.Random) -> None:
    """A link that was idle for longer than any token lives takes the next booking at once."""
    await facility.up()
    loop = facility.world.loop
    async with facility.connect("broker0-0", "ann") as client:
        for number in range(3):
            lost, began_s = len(facility.logged("site_lost")), loop.now_s
            start = facility.tomorrow + 600 * number
            await client.book(facility.everything, duration="10m", at=start)
            facility.counts["booked"] += 1
            if loop.now_s - began_s > 1:
                raise Broken(f"a booking after idle minutes took {loop.now_s - began_s:.1f} s")
            await asyncio.sleep(chance.uniform(200, 1_000))
            if facility.logged("site_lost")[lost:]:
                raise Broken(f"a link broke by itself: {facility.logged('site_lost')[-1]}")


@scenario(Plan(keys=True), least={"booked": 1})
async def skew(facility: Facility, chance: random.Random) -> None:
    """A site whose clock jumps by less than five minutes is booked at, over new links as over old ones."""
    await facility.up()
    error_s = chance.uniform(-290, 290)
    facility.world.set_clock("site1", error_s)
    facility.world.network.reset("broker0-0", "site1")
    await asyncio.sleep(10)
    async with facility.connect("broker0-0", "ann") as client:
        try:
            await client.book(facility.everything, duration="10m", at=facility.tomorrow, wait_s=5)
        except kalends.KalendsError as error:
            raise Broken(f"the clock of site1 is wrong by {error_s:.0f} s: {error}") from error
        facility.counts["booked"] += 1


@scenario(Plan(replicas=2), least={"got what came free": 1})
async def wake(facility: Facility, chance: random.Random) -> None:
    """Who waits on a list gets what came free, however often links and sites broke meanwhile."""
    await facility.up()
    network, start = facility.world.network, facility.tomorrow
    async with (
        facility.connect("broker0-1", "ann") as ann,
        facility.connect("broker0-0", "bob") as bob,
    ):
        everything = f"site0/cluster:{facility.plan.capacity}"
        hers = await ann.book(everything, duration="10m", at=start)
        waits = asyncio.create_task(
            bob.book("site0/cluster:1", duration="10m", at=start, patience="taken", wait_s=None)
        )
        await asyncio.sleep(1)
        network.cut("broker0-0", "site0")
        facility.restart("site0")
        await asyncio.sleep(chance.uniform(1, 3))
        await _cancel(ann, hers.id)
        await asyncio.sleep(1)
        network.heal()
        for _ in range(chance.randrange(1, 4)):
            await _break_when_new(facility, chance)
        well_since_s = facility.world.loop.now_s
        done, _ = await asyncio.wait([waits], timeout=CALM_S)
        waits.cancel()
        took_s = facility.world.loop.now_s - well_since_s
        if not done or took_s > SOON_S:
            raise Broken(f"all is well, and bob waits beside free room for {took_s:.0f} s")
        facility.counts["got what came free"] += waits.result().state == "reserved"


async def _break_when_new(facility: Facility, chance: random.Random) -> None:
    """Break the link of the first replica with the first site soon after it was made."""
    network = facility.world.network
    for _ in range(CONNECT_MS_MAX):
        if network.between("broker0-0", "site0"):
            break
        await asyncio.sleep(0.001)
    await asyncio.sleep(chance.uniform(0, chance.choice((0.02, 1))))
    network.reset("broker0-0", "site0")


async def _cancel(client: kalends.Client, rid: str) -> None:
    while True:
        try:
            await client.cancel(rid)
        except (kalends.Unavailable, kalends.OutcomeUnknown):
            await asyncio.sleep(0.5)
        else:
            return
