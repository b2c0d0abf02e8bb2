"""Hosts that go back to an image of their whole disk: what they forgot comes back, or is told."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import kalends
from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario
from tests.shells.stage import NOBODY

BOOKINGS: Final = 6
CANCELS: Final = 2
SETTLE_S: Final = 60.0


@scenario(Plan(capacity=1, audited=False), least={"told and kept": BOOKINGS})
async def restore(facility: Facility, chance: random.Random) -> None:
    """An older image of a site's disk is put back: nothing that was told is gone, or sold again."""
    await facility.up()
    world = facility.world
    folder, image = world.disk_of("site0"), world.folder / "image"
    told: dict[str, int] = {}
    after = chance.randrange(BOOKINGS)
    async with facility.connect("broker0-0", "ann") as client:
        for number in range(BOOKINGS):
            if number == after:
                world.disk.image(folder, image)
            start = facility.tomorrow + 600 * number
            told[(await client.book(facility.everything, duration="10m", at=start)).id] = start
            await asyncio.sleep(chance.uniform(0, 1))
        world.kill("site0", dark=chance.random() < 0.5)
        await asyncio.sleep(chance.uniform(0, 20))
        world.disk.put_back(folder, image)
        facility.start("site0")
        await asyncio.sleep(SETTLE_S)
        await _sold_again(client, facility, told)
    stakes = books.stakes(facility, "site0")
    locked = {
        rid for rid, stake in stakes.items() if any(c["state"] == "locked" for c in stake["claims"])
    }
    if forgotten := sorted(told.keys() - locked):
        raise Broken(f"site0 has forgotten {len(forgotten)} of {len(told)} told reservations")
    facility.counts["told and kept"] += len(told)


async def _sold_again(client: kalends.Client, facility: Facility, told: dict[str, int]) -> None:
    for rid, start in told.items():
        try:
            await client.book("site0/cluster:1", duration="10m", at=start, patience="none")
        except kalends.KalendsError:
            continue
        raise Broken(f"what {rid} has at site0 was sold once more")


@scenario(Plan(capacity=1, audited=False), least={"told and kept": BOOKINGS - CANCELS})
async def ghosts(facility: Facility, chance: random.Random) -> None:
    """Some was cancelled, some was booked since the image of a site or of the register: they agree again."""
    await facility.up()
    world = facility.world
    host = chance.choice(["site0", "site1", "broker0"])
    server = "broker0-0" if host == "broker0" else host
    folder, image = world.disk_of(host), world.folder / "image"
    told: set[str] = set()
    after = chance.randrange(1, BOOKINGS)
    async with facility.connect("broker0-0", "ann") as client:
        for number in range(BOOKINGS):
            if number == after:
                await asyncio.sleep(10)  # What is told to a register only is lost with it.
                world.disk.image(folder, image)
            start = facility.tomorrow + 600 * number
            told.add((await client.book(facility.everything, duration="10m", at=start)).id)
            await asyncio.sleep(chance.uniform(0, 1))
        for rid in chance.sample(sorted(told), CANCELS):
            await client.cancel(rid)
            told.discard(rid)
        await asyncio.sleep(10)
        world.kill(server, dark=chance.random() < 0.5)
        world.disk.put_back(folder, image)
        facility.start(server)
        await asyncio.sleep(chance.uniform(5, 20))
        for _ in range(2):
            reconciled = await client.reconcile(wait_s=60)
        if (
            reconciled.unreached
            or reconciled.comparing
            or any(site.lost for site in reconciled.sites)
        ):
            raise Broken(f"not reconciled: {reconciled}")
        await asyncio.sleep(SETTLE_S)
        shown = {rid for rid in told if (await client.show(rid)).state == "reserved"}
    if shown != told:
        raise Broken(f"the broker has forgotten {len(told - shown)} of {len(told)}")
    for site in facility.sites:
        locked = {rid for rid, stake in books.stakes(facility, site).items() if _locked(stake)}
        if locked != told:
            raise Broken(f"{site} has {len(locked - told)} ghosts, and lacks {len(told - locked)}")
    facility.counts["told and kept"] += len(told)


@scenario(Plan(capacity=1, brokers=2, audited=False), least={"told and kept": BOOKINGS})
async def neighbours(facility: Facility, chance: random.Random) -> None:
    """A site's disk is put back, and another broker is there first: it is not sold what the one was told."""
    await facility.up()
    world = facility.world
    folder, image = world.disk_of("site0"), world.folder / "image"
    told: dict[str, int] = {}
    async with (
        facility.connect("broker0-0", "ann") as ours,
        facility.connect("broker1-0", "bob") as theirs,
    ):
        for number in range(BOOKINGS):
            if number == BOOKINGS // 2:
                world.disk.image(folder, image)
            start = facility.tomorrow + 600 * number
            told[(await ours.book(facility.everything, duration="10m", at=start)).id] = start
        world.kill("site0", dark=chance.random() < 0.5)
        world.network.cut("broker0-0", "site0")
        world.disk.put_back(folder, image)
        facility.start("site0")
        world.loop.call_later(chance.uniform(0, 4), world.network.heal, context=NOBODY)
        for _ in range(10):
            await asyncio.sleep(chance.uniform(0.5, 2))
            await _sold_again(theirs, facility, told)
        await asyncio.sleep(SETTLE_S)
        await _sold_again(theirs, facility, told)
    stakes = books.stakes(facility, "site0")
    if forgotten := sorted(rid for rid in told if rid not in stakes or not _locked(stakes[rid])):
        raise Broken(f"site0 has forgotten {len(forgotten)} of {len(told)} told reservations")
    facility.counts["told and kept"] += len(told)


def _locked(stake: dict[str, Any]) -> bool:
    return any(claim["state"] == "locked" for claim in stake["claims"])
