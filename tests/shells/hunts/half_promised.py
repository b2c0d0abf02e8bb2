"""A site's disk is put back when it has promised, and another site has not answered yet."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any, Final

import kalends
from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario

ROUNDS: Final = 3
SETTLE_S: Final = 60.0


@scenario(Plan(capacity=1, replicas=2, audited=False), least={"reserved": 1})
async def half_promised(facility: Facility, chance: random.Random) -> None:
    """No promise that is forgotten counts: what is booked is locked everywhere, nobody else has its room."""
    await facility.up()
    world = facility.world
    folder = world.disk_of("site0")
    async with (
        facility.connect("broker0-0", "ann") as first,
        facility.connect("broker0-1", "ann") as second,
    ):
        await first.book(facility.everything, duration="10m", at=facility.tomorrow - 3_600)
        for number in range(ROUNDS):
            await asyncio.sleep(chance.uniform(0, 3))
            image = world.folder / f"image {number}"
            world.disk.image(folder, image)
            world.network.cut("broker0-0", "site1", both=chance.random() < 0.5)
            start = facility.tomorrow + 3_600 * number
            booking = asyncio.create_task(_book(first, facility.everything, start))
            await asyncio.sleep(chance.uniform(0, 0.1))
            world.kill("site0", dark=chance.random() < 0.5)
            world.disk.put_back(folder, image)
            facility.start("site0")
            await asyncio.sleep(chance.uniform(0, 9))
            rival = asyncio.create_task(_book(second, "site0/cluster:1", start))
            await asyncio.sleep(chance.uniform(0, 3))
            world.network.heal()
            await asyncio.gather(booking, rival)
            await asyncio.sleep(SETTLE_S)
        if lost := [each.lost for each in (await first.reconcile(wait_s=20)).sites if each.lost]:
            raise Broken(f"named as lost: {lost}")
    rows = books.rows(facility, "broker0")
    if untold := {rid: row.state for rid, row in rows.items() if not row.done}:
        raise Broken(f"told for ever: {untold}")
    for rid, row in rows.items():
        missing = [
            site
            for site in facility.sites
            if row.state == "commit"
            and row.chosen(site)
            and not _locked(books.stakes(facility, site).get(rid))
        ]
        if missing:
            raise Broken(f"{rid} is reserved, but not locked at {missing}")
        facility.counts["reserved"] += row.state == "commit"


async def _book(client: kalends.Client, terms: str, start: int) -> None:
    """Whatever comes of it."""
    with contextlib.suppress(kalends.KalendsError):
        await client.book(terms, duration="10m", at=start, patience="none", wait_s=20)


def _locked(stake: dict[str, Any] | None) -> bool:
    return stake is not None and any(claim["state"] == "locked" for claim in stake["claims"])
