"""Several institutions: brokers of two, owners who take time back, customers who change what they have."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import kalends
from tests.shells.customers import AGAIN_S, TRIES_MAX, Customers
from tests.shells.facility import Facility, Plan
from tests.shells.hunts.storms import END_S, STRIKES, Strikes
from tests.shells.judging import Reclaimed, calm, judge
from tests.shells.scenarios import Broken, scenario

SLOTS: Final = 30
RECLAIMS: Final = 3
RECLAIMED_SLOTS: Final = 3


@scenario(
    Plan(sites=3, brokers=2, replicas=2, capacity=2, keys=True),
    least={"told and kept": 5, "slots compared": 2, "reclaims": 9},
)
async def institutions(facility: Facility, chance: random.Random) -> None:
    """Two brokers sell what three owners have, and take back; all holds for each of them."""
    await facility.up()
    customers = Customers(
        facility, chance, count=8, bookings=6, pause_s=3.0, slots=SLOTS, pick=True,
        cancels=0.2, moves=0.4, holds=0.3, patience=("none", "held"),
    )  # fmt: skip
    owners = [
        facility.client(f"owner-{site}", _reclaim(facility, site, random.Random(chance.random())))
        for site in facility.sites
    ]
    strikes = Strikes(facility, chance)
    for _ in range(STRIKES // 2):
        await asyncio.sleep(chance.uniform(0.1, 4))
        strikes.strike()
    await asyncio.sleep(31)
    await calm(facility)
    await customers.end(END_S)
    reclaimed = [each for owner in owners for each in await owner]
    await asyncio.sleep(120)
    facility.counts["reclaims"] = len(reclaimed)
    judge(
        facility, customers.told, cancelled=customers.cancelled, reclaimed=reclaimed,
        slots=customers.slots,
    )  # fmt: skip


async def _reclaim(facility: Facility, site: str, chance: random.Random) -> list[Reclaimed]:
    """An owner takes some slots back while they are sold, and repeats until that is answered."""
    reclaimed = []
    async with facility.connect(site, "owner", timeout_s=10) as client:
        for number in range(RECLAIMS):
            await asyncio.sleep(chance.uniform(2, 15))
            start = facility.tomorrow + 600 * chance.randrange(SLOTS)
            units = number % 2  # All, or one of two.
            for _ in range(TRIES_MAX):
                try:
                    view = await client.reclaim(
                        f"{site}/cluster", at=start, duration=f"{10 * RECLAIMED_SLOTS}m",
                        units=units, key=f"reclaim-{site}-{number}",
                    )  # fmt: skip
                except (kalends.Unavailable, kalends.OutcomeUnknown):
                    await asyncio.sleep(AGAIN_S)
                else:
                    reclaimed.append(Reclaimed(site, view.start, view.end, view.units))
                    break
            else:
                raise Broken(f"a reclaim of {site} has no answer after {TRIES_MAX} tries")
    return reclaimed
