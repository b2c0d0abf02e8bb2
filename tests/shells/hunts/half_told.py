"""A site's disk is put back while changes and cancels are told to it: it opens again, all agree."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any, Final

import kalends
from kalends.client.client import Client
from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario

BOOKINGS: Final = 4
FAR_S: Final = 86_400
OPEN_S_MAX: Final = 120.0
SETTLE_S: Final = 60.0


@scenario(Plan(capacity=2, audited=False), least={"locked": 1, "changed": 1})
async def half_told(facility: Facility, chance: random.Random) -> None:
    """What was changed, and cancelled before the site had heard of the change, keeps no site closed."""
    await facility.up()
    world = facility.world
    folder, image = world.disk_of("site0"), world.folder / "image"
    async with facility.connect("broker0-0", "ann") as client:
        starts = {}
        for number in range(BOOKINGS):
            start = facility.tomorrow + 3_600 * number
            starts[(await client.book(facility.everything, duration="10m", at=start)).id] = start
        await asyncio.sleep(chance.uniform(0, 3))
        world.disk.image(folder, image)
        working = [
            asyncio.create_task(_change_and_cancel(client, chance, rid, start))
            for rid, start in starts.items()
        ]
        await asyncio.sleep(chance.uniform(0, 0.3))
        world.kill("site0", dark=chance.random() < 0.5)
        await asyncio.sleep(chance.uniform(0, 20))
        world.disk.put_back(folder, image)
        facility.start("site0")
        await _opens(facility, client)
        await asyncio.gather(*working)
        await asyncio.sleep(SETTLE_S)
    locked = [
        {start for stake in books.stakes(facility, site).values() for start in _locked(stake)}
        for site in facility.sites
    ]
    if locked[0] != locked[1]:
        raise Broken(f"half reserved: {locked[0] ^ locked[1]}")
    facility.counts["locked"] += len(locked[0])
    rows = books.rows(facility, "broker0")
    if open_rows := {rid: row.state for rid, row in rows.items() if not row.done}:
        raise Broken(f"told for ever: {open_rows}")
    facility.counts["changed"] += sum(
        row.state in ("replaced", "cancelled") for row in rows.values()
    )


async def _change_and_cancel(client: Client, chance: random.Random, rid: str, start: int) -> None:
    """Whatever comes of it: what is decided is told in any case."""
    with contextlib.suppress(kalends.KalendsError):
        if chance.random() < 0.5:
            await client.move(rid, start + FAR_S, wait_s=1)
        else:
            await client.extend(rid, by="10m", wait_s=1)
    with contextlib.suppress(kalends.KalendsError):
        if chance.random() < 0.7:
            await client.cancel(rid, wait_s=1)


async def _opens(facility: Facility, client: Client) -> None:
    loop = facility.world.loop
    until_s = loop.time() + OPEN_S_MAX
    while loop.time() < until_s:
        try:
            await client.book(facility.everything, duration="10m", at=facility.tomorrow - 3_600)
        except kalends.KalendsError:
            await asyncio.sleep(2)
        else:
            return
    raise Broken("the site takes nothing new any more")


def _locked(stake: dict[str, Any]) -> set[int]:
    return {claim["start"] for claim in stake["claims"] if claim["state"] == "locked"}
