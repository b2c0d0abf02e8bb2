"""Months of links that are idle for hours and then busy, without any fault: nothing is refused.

Played by its name: a month takes a quarter of an hour of one core.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Final

import kalends
from kalends.client.client import Client
from kalends.client.transports.retry import Backoff
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario
from tests.shells.substitutes import WALL_AT_BEGIN_S

DAYS: Final = 30
DAY_S: Final = 86_400
IDLE_S_MAX: Final = 6 * 3_600.0
USERS: Final = 4
BOOKINGS_MAX: Final = 10
"""Of one user in one burst."""

GRAIN_S: Final = 600
SOON_S: Final = 1.0
ONCE: Final = Backoff(tries_max=1)
"""What is refused once is refused: a client that tries again would hide it."""


@scenario(
    Plan(keys=True, capacity=64, audited=False), least={"bookings in bursts": 1_000}, long=True
)
async def month(facility: Facility, chance: random.Random) -> None:
    """Thirty days of idle hours and bursts: all that is booked, moved and cancelled is done at once."""
    await facility.up()
    before = len(facility.logged("site_lost"))
    bursts_s, at_s = [], facility.world.loop.now_s
    while at_s < DAYS * DAY_S:
        at_s += chance.uniform(0, 1) ** 2 * IDLE_S_MAX  # Short rests are as many as long ones.
        bursts_s.append(at_s)
    users = [
        facility.client(f"user{n}", _lives(facility, random.Random(chance.random()), n, bursts_s))
        for n in range(USERS)
    ]
    await asyncio.gather(*users)
    if lost := facility.logged("site_lost")[before:]:
        raise Broken(f"{len(lost)} links broke by themselves: {lost[-1]}")


async def _lives(
    facility: Facility, chance: random.Random, number: int, bursts_s: Sequence[float]
) -> None:
    """One user: with the same client all the month, or with a new one for each burst."""
    one = _client(facility, number)
    async with one if number % 2 else contextlib.nullcontext():
        for at_s in bursts_s:
            await asyncio.sleep(max(at_s - facility.world.loop.now_s, 0))
            if number % 2:
                await _burst(facility, chance, one, number)
            else:
                async with _client(facility, number) as fresh:
                    await _burst(facility, chance, fresh, number)


def _client(facility: Facility, number: int) -> Client:
    return facility.connect("broker0-0", f"user{number}", backoff=ONCE)


async def _burst(facility: Facility, chance: random.Random, client: Client, number: int) -> None:
    loop = facility.world.loop
    now_s = int(WALL_AT_BEGIN_S + loop.now_s)
    first = now_s - now_s % GRAIN_S + DAY_S * (number + 1)
    for slot in range(chance.randrange(1, BOOKINGS_MAX)):
        start = first + 4 * GRAIN_S * slot
        began_s = loop.now_s
        try:
            calls = await _book_and_change(client, facility.everything, start, chance)
        except kalends.KalendsError as error:
            raise Broken(f"refused at {loop.now_s:.0f} s: {error}") from error
        if loop.now_s - began_s > SOON_S * calls:
            raise Broken(f"{calls} calls for what is free took {loop.now_s - began_s:.1f} s")
        facility.counts["bookings in bursts"] += 1
        await asyncio.sleep(chance.uniform(0, 2))


async def _book_and_change(
    client: Client, everything: str, start: int, chance: random.Random
) -> int:
    """How many calls were made."""
    reserved = await client.book(everything, duration="10m", at=start)
    moves, cancels = chance.random() < 0.3, chance.random() < 0.5
    if moves:
        await client.move(reserved.id, start + GRAIN_S)
    if cancels:
        await client.cancel(reserved.id)
    return 1 + moves + cancels
