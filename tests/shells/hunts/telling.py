"""Users are told what owners make of their requests: all of it, under one id each, and nothing of others'.

Nothing is told twice, unless a replica died or began as it was taken.
"""

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
ROUNDS: Final = 2
"""How often each reservation is moved, at most."""
TOLD_S: Final = 600.0
"""Within it all is told once nothing fails any more: some pauses, and some minutes of full letters."""


BETWEEN_REPLICAS_S: Final = 4.0
"""So long after a replica has died or begun, two may each believe that it is theirs to tell."""


class Delivery(NamedTuple):
    """A call that was genuine: what it told, to whom it was sent, and when; whether it was taken."""

    to: str
    id: str
    told: list[dict[str, Any]]
    at_s: float
    taken: bool


class Receiver:
    """The users' webhooks, one path each: it refuses for a while whenever it is told to be `away`."""

    def __init__(self, facility: Facility) -> None:
        self.facility = facility
        self.secrets: dict[str, str] = {}
        self.calls: list[Delivery] = []
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
        try:
            id = verify_webhook(self.secrets[user], request.headers, body)
        except kalends.KalendsError:
            return web.Response(status=401)
        told = json.loads(body)
        notices, now_s = told.get("notices", [told]), self.facility.world.loop.now_s
        self.calls.append(Delivery(user, id, notices, now_s, not self.away))
        return web.Response(status=503 if self.away else 204)

    @property
    def taken(self) -> list[Delivery]:
        return [each for each in self.calls if each.taken]


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
    changes_of_replicas = await _outages(facility, receiver, chance)
    await owner
    receiver.away = False
    await calm(facility)
    await asyncio.sleep(TOLD_S)
    served.cancel()
    _judge(facility, receiver)
    _none_is_told_twice(receiver, changes_of_replicas)


async def _reclaim(facility: Facility, starts: list[int], chance: random.Random) -> None:
    """The owner takes every slot back that was booked at first; then those that were given instead."""
    async with facility.connect("site0", "owner") as client:
        for round in range(ROUNDS):
            if round:
                rows = books.rows(facility, "broker0").values()
                starts = sorted(
                    row.body["wants"][0]["start"] for row in rows if row.state == "commit"
                )
            for start in chance.sample(starts, len(starts)):
                await _take_back(client, start)
                await asyncio.sleep(chance.uniform(0.1, 15))


async def _take_back(client: Any, start: int) -> None:
    while True:
        try:
            await client.reclaim("site0/cluster", at=start, duration="10m", reason="a pump")
            return
        except kalends.KalendsError:
            await asyncio.sleep(1)


async def _outages(facility: Facility, receiver: Receiver, chance: random.Random) -> list[float]:
    """Kills of replicas, with and without their host's network, and a receiver that is away at times.

    Returns when replicas died and began.
    """
    changes: list[float] = []
    for _ in range(OUTAGES):
        await asyncio.sleep(chance.uniform(0.05, 12))
        receiver.away = chance.random() < 0.4
        name = chance.choice(facility.replicas)
        if not facility.world.nodes[name].dead:
            changes.append(facility.world.loop.now_s)
            facility.world.kill(name, dark=chance.random() < 0.3)
            await asyncio.sleep(chance.uniform(0.05, 4))
            changes.append(facility.world.loop.now_s)
            facility.start(name)
    return changes


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


def _none_is_told_twice(receiver: Receiver, changes_s: list[float]) -> None:
    """What was taken comes again only if the replica that sent it may not have written that down."""
    first: dict[str, Delivery] = {}
    for delivery in receiver.taken:
        before = first.setdefault(delivery.id, delivery)
        if before is delivery:
            continue
        if before.told != delivery.told:
            raise Broken(f"{delivery.id} tells something else the second time")
        if not any(abs(at_s - before.at_s) < BETWEEN_REPLICAS_S for at_s in changes_s):
            raise Broken(f"{delivery.id} was taken at {before.at_s:.1f} s, and comes again")
