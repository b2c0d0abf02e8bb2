"""The plainest day: who books gets it, and every server knows of it."""

from __future__ import annotations

import asyncio
import random

from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario

BOOKINGS = 10


@scenario(Plan(replicas=2, keys=True), least={"booked": BOOKINGS})
async def plain_day(facility: Facility, chance: random.Random) -> None:
    """Bookings one after the other, at each replica in turn."""
    await facility.up()
    for number in range(BOOKINGS):
        async with facility.connect(chance.choice(facility.replicas), "ann") as client:
            start = facility.tomorrow + 600 * number
            view = await client.book(facility.everything, duration="10m", at=start)
            if view.state != "reserved":
                raise Broken(f"nothing is wrong, and a booking is {view.state}")
            facility.counts["booked"] += 1
            await asyncio.sleep(chance.uniform(0, 2))
