"""Users are told what owners make of their requests: all of it, under one id each, and nothing of others'."""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections import defaultdict
from typing import Any, Final, NamedTuple

from aiohttp import web

import kalends
from kalends.rim.webhook_signatures import verify_webhook
from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.judging import calm
from tests.shells.scenarios import Broken, scenario

RECEIVER: Final = "127.0.1.1"
"""Where the first client of a facility lives."""

OPTIONS: Final = f"""
[broker.notices]
webhook_hosts = ["{RECEIVER}:80"]
minute_max = 2
pause = "1s"
wait = "5s"
"""
USERS: Final = ("ann", "bob")
BOOKINGS: Final = 4
OUTAGES: Final = 10
TOLD_S: Final = 600.0
"""Within it all is told once nothing fails any more: some pauses, and some minutes of full letters."""


class Delivery(NamedTuple):
    """A call that was genuine: what it told, and to whom it was sent."""

    to: str
    id: str
    told: list[dict[str, Any]]


class Receiver:
    """The users' webhooks, one path each: it refuses for a while whenever it is told to be `away`."""

    def __init__(self, facility: Facility) -> None:
        self.facility = facility
        self.secrets: dict[str, str] = {}
        self.taken: list[Delivery] = []
        self.away = False

    async def serve(self) -> None:
        application = web.Application()
        application.router.add_post("/{user}", self._take)
        runner = web.AppRunner(application)
        await runner.setup()
        assert runner.server is not None
        door, loop = socket.create_server((RECEIVER, 80)), asyncio.get_running_loop()
        while True:
            caller, _ = await loop.sock_accept(door)
            await loop.connect_accepted_socket(runner.server, caller)

    async def _take(self, request: web.Request) -> web.Response:
        user, body = request.match_info["user"], await request.read()
        if self.away:
            return web.Response(status=503)
        try:
            id = verify_webhook(self.secrets[user], request.headers, body)
        except kalends.KalendsError:
            return web.Response(status=401)
        told = json.loads(body)
        self.taken.append(Delivery(user, id, told.get("notices", [told])))
        return web.Response(status=204)


@scenario(
    Plan(sites=1, replicas=2, capacity=1, broker_options=OPTIONS),
    least={"changes told": len(USERS) * BOOKINGS},
)
async def telling(facility: Facility, chance: random.Random) -> None:
    """Owners take slots back while replicas die and receivers are away; later all is told."""
    receiver = Receiver(facility)
    served = facility.client("receiver", receiver.serve())
    await facility.up()
    starts = []
    for number, user in enumerate(USERS):
        async with facility.connect(facility.replicas[number], user) as client:
            to = f"http://{RECEIVER}/{user}"
            receiver.secrets[user] = (await client.add_notice_address(to)).secret
            for booking in range(BOOKINGS):
                start = facility.tomorrow + 600 * (len(USERS) * booking + number)
                await client.book(facility.everything, duration="10m", at=start)
                starts.append(start)
    owner = asyncio.create_task(_reclaim(facility, starts, random.Random(chance.random())))
    await _outages(facility, receiver, chance)
    await owner
    receiver.away = False
    await calm(facility)
    await asyncio.sleep(TOLD_S)
    served.cancel()
    _judge(facility, receiver)


async def _reclaim(facility: Facility, starts: list[int], chance: random.Random) -> None:
    """The owner takes every slot back that was booked at first, one after the other."""
    async with facility.connect("site0", "owner") as client:
        for start in chance.sample(starts, len(starts)):
            while True:
                try:
                    await client.reclaim("site0/cluster", at=start, duration="10m", reason="a pump")
                    break
                except kalends.KalendsError:
                    await asyncio.sleep(1)
            await asyncio.sleep(chance.uniform(0.1, 15))


async def _outages(facility: Facility, receiver: Receiver, chance: random.Random) -> None:
    """Kills of replicas, with and without their host's network, and a receiver that is away at times."""
    for _ in range(OUTAGES):
        await asyncio.sleep(chance.uniform(0.05, 12))
        receiver.away = chance.random() < 0.4
        name = chance.choice(facility.replicas)
        if not facility.world.nodes[name].dead:
            facility.world.kill(name, dark=chance.random() < 0.3)
            await asyncio.sleep(chance.uniform(0.05, 4))
            facility.start(name)


def _judge(facility: Facility, receiver: Receiver) -> None:
    """Every change by the owner in the register was told its user, under one id, and nothing to others."""
    ids: defaultdict[tuple[str, str, int], set[str]] = defaultdict(set)
    for delivery in receiver.taken:
        for told in delivery.told:
            if told["user"] != delivery.to:
                raise Broken(f"{delivery.to} was told of a request of {told['user']}")
            ids[told["request"], told["event"], told["at"]].add(delivery.id)
    twice = [key for key, found in ids.items() if len(found) > 1]
    if twice:
        raise Broken(f"{twice[0]} was told under several ids")
    changes = _changes(facility)
    untold = changes - set(ids)
    if untold:
        raise Broken(f"nobody was told of {sorted(untold)[0]}, and of {len(untold) - 1} more")
    if made_up := set(ids) - changes:
        raise Broken(f"told of what never was: {sorted(made_up)[0]}")
    facility.counts["changes told"] += len(changes)


def _changes(facility: Facility) -> set[tuple[str, str, int]]:
    """What the register says that was made by others: the reservation, what, and when."""
    found = set()
    for row in books.rows(facility, "broker0").values():
        moved = row.body.get("spec", {}).get("by_others")
        if moved is not None and row.state in ("commit", "replaced", "cancelled"):
            found.add((row.body["reservation"], moved["made"], moved["at"]))
        ended = row.body.get("ended_by")
        if ended is not None and row.state == "cancelled":
            found.add((row.body["reservation"], ended["made"], ended["at"]))
    return found
