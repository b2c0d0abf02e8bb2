"""Replicas share a register: what one of them meets must not stop the other."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

import kalends
from kalends.client.transports.retry import Backoff
from tests.shells import books
from tests.shells.connections import real_connect
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, scenario

PAUSE_S: Final = 15.0
ANSWER_S_MAX: Final = 2.0


@scenario(
    Plan(replicas=2, capacity=8, audited=False), least={"booked": 10, "answered meanwhile": 45}
)
async def pause(facility: Facility, chance: random.Random) -> None:
    """One replica stands still at any moment; the other answers within two seconds, and forgets nothing."""
    await facility.up()
    slowest = dict.fromkeys(facility.replicas, 0.0)
    tasks = [
        facility.client(f"client{n}", _load(facility, facility.replicas[n % 2], n, slowest))
        for n in range(4)
    ]
    for _ in range(3):
        await asyncio.sleep(chance.uniform(0.1, 0.5))
        facility.world.pause("broker0-0")
        await asyncio.sleep(PAUSE_S)
        facility.world.resume("broker0-0")
        if anew := facility.logged("begins_anew", "broker0-1"):
            raise Broken(f"broker0-0 stood still, and the other one began anew: {anew[0][:200]}")
        if slowest["broker0-1"] > ANSWER_S_MAX:
            raise Broken(
                f"broker0-0 stood still, and the other one took {slowest['broker0-1']:.1f} s"
            )
    for task in tasks:
        task.cancel()


async def _load(facility: Facility, replica: str, number: int, slowest: dict[str, float]) -> None:
    loop, world = facility.world.loop, facility.world
    # What the replica says counts here, and not how often a client asks it again.
    async with facility.connect(replica, f"user{number}", backoff=Backoff(tries_max=1)) as client:
        start = facility.tomorrow + 600 * 500 * number
        while True:
            start += 600
            began_s = loop.now_s
            with contextlib.suppress(kalends.KalendsError):
                await client.book(facility.everything, duration="10m", at=start, wait_s=5)
                facility.counts["booked"] += 1
            facility.counts["answered meanwhile"] += world.nodes["broker0-0"].paused
            slowest[replica] = max(slowest[replica], loop.now_s - began_s)
            # Full load until somebody stands still: that is when it may hold a lock.
            await asyncio.sleep(1.0 if world.nodes["broker0-0"].paused else 0.002)


@scenario(Plan(replicas=2, audited=False), least={"booked": 4})
async def row(facility: Facility, chance: random.Random) -> None:
    """A row that cannot be read, left behind by the dead, stops no heartbeat and no booking of others."""
    await facility.up()
    world = facility.world
    async with facility.connect("broker0-0", "ann") as client:
        for number in range(3):
            start = facility.tomorrow + 600 * number
            await client.book(facility.everything, duration="10m", at=start)
            facility.counts["booked"] += 1
        world.kill("site0")
        left = [
            asyncio.create_task(
                client.book(facility.everything, duration="10m", at=start, wait_s=1)
            )
            for start in (facility.tomorrow, facility.tomorrow + 6_000)
        ]
        await asyncio.sleep(chance.uniform(0.2, 1.0))
    world.kill("broker0-0")
    for task in left:
        task.cancel()
    _spoil_one(facility)
    facility.start("site0")
    await asyncio.sleep(30)
    if failed := facility.logged("heart_stopped") + facility.logged("beat_failed"):
        raise Broken(failed[0][:300])
    async with facility.connect("broker0-1", "bob") as client:
        try:
            start = facility.tomorrow + 60_000
            await client.book(facility.everything, duration="10m", at=start, wait_s=5)
        except kalends.KalendsError as error:
            raise Broken(f"broker0-1 does not book: {error}") from error
        facility.counts["booked"] += 1


def _spoil_one(facility: Facility) -> None:
    """The newest row that is least finished has a body that no kalends wrote."""
    connection = real_connect(books.store_of(facility, "broker0"), isolation_level=None)
    connection.execute(
        "update request set body = x'c1' where rid ="
        " (select rid from request order by done, rid desc limit 1)"
    )
    connection.close()
