"""A register whose disk is put back, and nobody says so: its sites remind it of every word it gave."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import kalends
from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario

BOOKINGS: Final = 6
CHANGES: Final = 3
CANCELS: Final = 2
FAR_S: Final = 86_400
QUIET_S: Final = 10.0
SETTLE_S: Final = 60.0
AGAIN_S_MAX: Final = 120.0
"""When all sites are back the broker takes new requests after so long at most."""


@scenario(Plan(capacity=1, audited=False), least={"told and kept": BOOKINGS - CANCELS + 1})
async def amnesia(facility: Facility, chance: random.Random) -> None:
    """An older image of the register comes back: nothing told is lost, undone, sold again, or half."""
    await facility.up()
    world = facility.world
    folder, image = world.disk_of("broker0"), world.folder / "image"
    told: dict[str, int] = {}
    undone: dict[str, int] = {}
    left: set[int] = set()
    async with facility.connect("broker0-0", "ann") as client:
        after = chance.randrange(1, BOOKINGS)
        for number in range(BOOKINGS):
            if number == after:
                await asyncio.sleep(QUIET_S)  # What only the register was told is lost with it.
                world.disk.image(folder, image)
                world.disk.image(world.disk_of("site0"), world.folder / "image of a site")
            start = facility.tomorrow + 600 * number
            view = await client.book(facility.everything, duration="10m", at=start, key=_key(start))
            told[view.id] = start
            await asyncio.sleep(chance.uniform(0, 1))
        for rid in chance.sample(sorted(told), CHANGES):
            for _ in range(chance.randrange(1, 3)):
                left.add(told[rid])
                told[rid] += FAR_S
                await client.move(rid, told[rid], key=_key(told[rid]))
        for rid in chance.sample(sorted(told), CANCELS):
            await client.cancel(rid)
            undone[rid] = told.pop(rid)
        if chance.random() < 0.5:
            await _site_put_back(facility, chance)
        await _decided_in_silence(facility, chance, client, told)
        sleeper = chance.choice((*facility.sites, ""))
        if sleeper:
            world.kill(sleeper)
        world.kill("broker0-0", dark=chance.random() < 0.5)
        world.disk.put_back(folder, image)
        world.network.heal()
        facility.start("broker0-0")
        await _asked_at_once(client, chance.choice(sorted(told)))
        await asyncio.sleep(chance.uniform(0, 30))
        if sleeper:
            facility.start(sleeper)
        rid = await _booked_again(facility, client)
        told[rid] = facility.tomorrow + 6_000
        await asyncio.sleep(SETTLE_S)
        for rid, start in told.items():
            view = await client.show(rid)
            if view.state != "reserved" or view.start != start:
                raise Broken(f"{rid} was told as reserved at {start}, and the broker says {view}")
        for rid, start in told.items():
            await _asked_again(facility, client, rid, start)
        for rid in undone.keys() & await _listed(client):
            if (view := await client.show(rid)).state != "cancelled":
                raise Broken(f"{rid} was told as cancelled, and the broker says {view}")
        _agree(facility, set(told.values()), left | set(undone.values()))
        if lost := [each.lost for each in (await client.reconcile(wait_s=20)).sites if each.lost]:
            raise Broken(f"named as lost: {lost}")
        facility.counts["told and kept"] += len(told)


@scenario(Plan(capacity=1, audited=False), least={"told": BOOKINGS, "kept by all": 1})
async def disaster(facility: Facility, chance: random.Random) -> None:
    """Old images of a site and of the register come back together: what nobody remembers is named."""
    await facility.up()
    world = facility.world
    hosts = ("site0", "broker0")
    images = {host: world.folder / f"backup of {host}" for host in hosts}
    at = {host: chance.randrange(1, BOOKINGS) for host in hosts}
    told: set[str] = set()
    async with facility.connect("broker0-0", "ann") as client:
        for number in range(BOOKINGS):
            for host in hosts:
                if at[host] == number:
                    await asyncio.sleep(QUIET_S)
                    world.disk.image(world.disk_of(host), images[host])
            start = facility.tomorrow + 600 * number
            told.add((await client.book(facility.everything, duration="10m", at=start)).id)
        await asyncio.sleep(QUIET_S)
        for server, host in (("site0", "site0"), ("broker0-0", "broker0")):
            world.kill(server, dark=chance.random() < 0.5)
            world.disk.put_back(world.disk_of(host), images[host])
        for server in chance.sample(["site0", "broker0-0"], 2):
            facility.start(server)
            await asyncio.sleep(chance.uniform(0, 10))
        await _booked_again(facility, client)
        await asyncio.sleep(SETTLE_S)
        reconciled = await client.reconcile(wait_s=60)
        shown = {rid for rid in told if (await client.show(rid)).state == "reserved"}
    named = {lost.id for site in reconciled.sites for lost in site.lost}
    locked = {
        site: {rid for rid, stake in books.stakes(facility, site).items() if _locked(stake)}
        for site in facility.sites
    }
    if shown != told:
        raise Broken(f"site1 knew all, and the broker has forgotten {len(told - shown)}")
    if gone := told - set.intersection(*locked.values()) - named:
        raise Broken(f"forgotten by both, and not named: {gone}")
    if len(named) > BOOKINGS - max(at.values()):
        raise Broken(f"named, though one of the two remembered it: {named}")
    facility.counts["told"] += len(told)
    facility.counts["kept by all"] += len(told & set.intersection(*locked.values()))


async def _site_put_back(facility: Facility, chance: random.Random) -> None:
    """A site, too, and it is made good by the register, which forgets that later."""
    world = facility.world
    world.kill("site0", dark=chance.random() < 0.5)
    world.disk.put_back(world.disk_of("site0"), world.folder / "image of a site")
    facility.start("site0")
    await asyncio.sleep(SETTLE_S)


async def _decided_in_silence(
    facility: Facility, chance: random.Random, client: kalends.Client, told: dict[str, int]
) -> None:
    """Book once more, while a site can no longer hear what becomes of what it may have promised."""
    deaf = chance.choice(facility.sites)
    start = facility.tomorrow + 600 * BOOKINGS
    booking = asyncio.create_task(
        client.book(facility.everything, duration="10m", at=start, key=_key(start))
    )
    await asyncio.sleep(chance.uniform(0, 0.1))
    facility.world.network.cut("broker0-0", deaf)
    await asyncio.sleep(2)
    if booking.done():
        told[booking.result().id] = start
    else:
        booking.cancel()


def _key(start: int) -> str:
    """The key of the call by which something has come to this start."""
    return f"the-call-for-{start}"


async def _asked_again(facility: Facility, client: kalends.Client, rid: str, start: int) -> None:
    """Whoever repeats a call with its key gets what it has made, and no second reservation."""
    try:
        if start < facility.tomorrow + FAR_S:
            view = await client.book(facility.everything, duration="10m", at=start, key=_key(start))
        else:
            view = await client.move(rid, start, key=_key(start))
    except kalends.KalendsError as error:
        raise Broken(f"the call that made {rid} was repeated with its key: {error}") from error
    if view.id != rid:
        raise Broken(f"the call that made {rid} was repeated with its key, and made {view.id}")


async def _asked_at_once(client: kalends.Client, rid: str) -> None:
    """No answer is better than a wrong one."""
    try:
        await client.show(rid)
    except kalends.NotFound as error:
        raise Broken(f"{rid} was told as reserved, and the broker says: {error}") from error
    except kalends.KalendsError:
        return


async def _listed(client: kalends.Client) -> set[str]:
    return {view.id for view in await client.list(count=100)}


async def _booked_again(facility: Facility, client: kalends.Client) -> str:
    """The id of the first booking that is taken again; what it wants is free in any case."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + AGAIN_S_MAX
    while loop.time() < until_s:
        start = facility.tomorrow + 6_000
        try:
            again = client.book(facility.everything, duration="10m", at=start, key=_key(start))
            return (await again).id
        except kalends.KalendsError:
            await asyncio.sleep(2)
    raise Broken("nothing new is taken any more")


def _agree(facility: Facility, told: set[int], undone: set[int]) -> None:
    """By starts: sites know what was changed by another id than users do."""
    locked = {
        site: {start for stake in books.stakes(facility, site).values() for start in _locked(stake)}
        for site in facility.sites
    }
    everywhere = set.intersection(*locked.values())
    somewhere = set.union(*locked.values())
    if half := somewhere - everywhere:
        raise Broken(f"half reserved: {half}, of {locked}")
    if told - everywhere:
        raise Broken(f"told, and locked nowhere: {told - everywhere}")
    if undone & somewhere:
        raise Broken(f"cancelled or left, and locked again: {undone & somewhere}")


def _locked(stake: dict[str, Any]) -> set[int]:
    return {claim["start"] for claim in stake["claims"] if claim["state"] == "locked"}
