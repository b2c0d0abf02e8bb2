"""One key, asked of every replica again and again while links and processes break: one answer."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

import kalends
from kalends.contract.calls import RequestView
from tests.shells.facility import Facility, Plan
from tests.shells.scenarios import Broken, all_over, scenario
from tests.shells.substitutes import WALL_AT_BEGIN_S

CLIENTS: Final = 4
KEYS: Final = 8
TIMES: Final = 4
STRIKES: Final = 30
SLOTS: Final = 4
END_S: Final = 300.0
WAIT_S: Final = 4.0


@scenario(Plan(replicas=2, capacity=6), least={"keys with a reservation": SLOTS})
async def repeat(facility: Facility, chance: random.Random) -> None:
    """Whoever answers, and however often, a key has one request and one outcome."""
    await facility.up()
    answers: defaultdict[str, set[str]] = defaultdict(set)
    tasks = [
        facility.client(
            f"client{n}", _ask(facility, f"key-{n}", random.Random(chance.random()), answers)
        )
        for n in range(CLIENTS)
    ]
    await _break_links(facility, chance)
    await all_over(tasks, END_S, "clients are never answered")
    facility.counts["keys with a reservation"] += sum(
        any(each.endswith(" reserved") for each in said) for said in answers.values()
    )
    for key, said in sorted(answers.items()):
        if len(said) > 1:
            raise Broken(f"{key} was answered with {sorted(said)}")


async def _break_links(facility: Facility, chance: random.Random) -> None:
    clients = [f"client{number}" for number in range(CLIENTS)]
    for _ in range(STRIKES):
        await asyncio.sleep(chance.uniform(0.005, 0.1))
        one, other = chance.choice(clients + facility.replicas), chance.choice(facility.servers)
        facility.world.network.reset(one, other)
        if chance.random() < 0.07:
            facility.restart(chance.choice(facility.servers))


async def _ask(
    facility: Facility,
    name: str,
    chance: random.Random,
    answers: defaultdict[str, set[str]],
) -> None:
    one, other = (facility.connect(replica, "ann", timeout_s=8) for replica in facility.replicas)
    async with one, other:
        for number in range(KEYS):
            key = f"repeated-{name}-{number}"
            at = facility.tomorrow + 600 * chance.randrange(SLOTS)
            wait_s = chance.choice((0.0, 0.003, 0.01, 5.0))
            asked = (
                _answer(facility, chance.choice((one, other)), key, at, wait_s, chance)
                for _ in range(TIMES)
            )
            answers[key] |= {said for said in await asyncio.gather(*asked) if said}


async def _answer(
    facility: Facility,
    client: kalends.Client,
    key: str,
    at: int,
    wait_s: float,
    chance: random.Random,
) -> str:
    """The request and its outcome; "" when nobody knows."""
    await asyncio.sleep(chance.uniform(0, 0.03))
    try:
        view = await client.book(
            facility.everything, duration="10m", at=at, key=key, wait_s=wait_s, patience="none"
        )
        if view.state == "open":
            view = await client.wait(view.id, wait_s=20)
    except kalends.OutcomeUnknown:
        return ""
    except kalends.Unavailable as error:
        return f"{error.request_id} {error.code}" if error.request_id else ""
    except kalends.InvalidInput:
        raise
    except kalends.KalendsError as error:
        return f"{error.request_id} {error.code}"
    return f"{view.id} {view.state}"


@scenario(Plan(replicas=2), least={"answered alike": 6, "answered in time": 2})
async def again(facility: Facility, chance: random.Random) -> None:
    """A call that was answered has the same answer again, though a site has not confirmed it yet.

    While a site is cut off a call waits as long as it says in all, and not so long for each of its steps.
    """
    await facility.up()
    start, give_up_at = facility.tomorrow, WALL_AT_BEGIN_S + int(facility.world.loop.now_s) + 5
    one, other = (facility.connect(replica, "ann") for replica in facility.replicas)

    async def book(client: kalends.Client) -> RequestView:
        return await client.book(
            facility.everything, duration="10m", at=start, key="the-booking",
            patience="taken", give_up_at=give_up_at,
        )  # fmt: skip

    async with one, other:
        booked = await _answered_alike(facility, chance, book, (one, other))

        async def move(client: kalends.Client) -> RequestView:
            return await client.move(booked.id, start + 1_200, key="the-move")

        await _answered_alike(facility, chance, move, (one, other))
        facility.world.network.cut("broker0-0", "site1")
        for ask in (
            one.move(booked.id, start, wait_s=WAIT_S),
            one.cancel(booked.id, wait_s=WAIT_S),
        ):
            began_s = facility.world.loop.now_s
            with contextlib.suppress(kalends.KalendsError):
                await ask
            if (took_s := facility.world.loop.now_s - began_s) > WAIT_S + 1:
                raise Broken(f"answered after {took_s} s, and not within {WAIT_S} s")
            facility.counts["answered in time"] += 1


async def _answered_alike(
    facility: Facility,
    chance: random.Random,
    call: Callable[[kalends.Client], Awaitable[RequestView]],
    clients: tuple[kalends.Client, kalends.Client],
) -> RequestView:
    """What `call` is answered first, and by whomever it is repeated while a site is cut off."""
    first = await call(clients[0])
    for replica in facility.replicas:
        facility.world.network.cut(replica, "site1")
    await asyncio.sleep(chance.uniform(0, 10))
    for client in (*clients, clients[0]):
        try:
            said = await call(client)
        except kalends.KalendsError as error:
            raise Broken(f"{first.state} at first, and then {error}") from error
        if (said.id, said.state, said.start) != (first.id, first.state, first.start):
            raise Broken(f"first {first.state} at {first.start}, then {said}")
        facility.counts["answered alike"] += said.state == "reserved"
    facility.world.network.heal()
    await asyncio.sleep(20)
    return first
