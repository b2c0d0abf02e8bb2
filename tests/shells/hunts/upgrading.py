"""Owners upgrade when it suits them: servers of one world know different things, and bookings go on."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import msgspec

import kalends
from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core.errors import InvalidInput, RefusalCode
from kalends.core.features import Feature, Since
from tests.shells.customers import Customers
from tests.shells.facility import Facility, Plan
from tests.shells.judging import calm, judge
from tests.shells.scenarios import Broken, scenario
from tests.shells.stage import NODE
from tests.support.pretended_features import pretend
from tests.support.wire_shapes import strange_in

NEEDS: Final = Feature("needs", "what is to be booked, in questions")
HOLDS: Final = Feature("holds", "holds that a person considers")
MOVES: Final = Feature("moves", "reservations that replace others")
ALL: Final = frozenset({"needs", "holds", "moves"})

FIELDS: Final = {
    (m.Query, "needs"): Since(NEEDS, hint=True),
    (m.FreeSteps, "barred"): Since(NEEDS, hint=True),
    (m.Visit, "considered"): Since(HOLDS),
    (m.Renew, "considered"): Since(HOLDS, hint=True),
    (m.Query, "replaces"): Since(MOVES),
    (m.Visit, "replaces"): Since(MOVES),
}
"""As if these had come with features, and some servers were older than those."""

SETTLE_S: Final = 8.0
END_S: Final = 900.0
FIRST_SLOT: Final = 5_000


@scenario(
    Plan(sites=3, brokers=2, virtual={"region": ("site2",)}),
    least={"told and kept": 30, "known": 3, "not known": 1},
)
async def upgrades(facility: Facility, chance: random.Random) -> None:
    """Each server is upgraded by its own owner, some half-way first: nothing that is not known is said.

    Plain bookings go on all the time. What a site does not know yet is refused there, by name.
    """
    pretend(FIELDS, {})
    _read_strictly(facility)
    facility.features = {
        name: chance.choice((frozenset(), frozenset(), ALL - {chance.choice(sorted(ALL))}))
        for name in facility.servers
    }
    await facility.up()
    customers = Customers(facility, chance, bookings=20, pause_s=8.0, moves=0.2, holds=0.2)
    await _probe(facility, 0)
    order = chance.sample(facility.servers, len(facility.servers))
    for number, name in enumerate(order, 1):
        await asyncio.sleep(chance.uniform(0, 4))
        facility.features[name] = ALL
        facility.restart(name)
        await asyncio.sleep(SETTLE_S)
        await _probe(facility, number)
    await customers.end(END_S)
    await calm(facility)
    judge(facility, customers.told, slots=customers.slots)
    if complaints := [*facility.logged("not_a_frame"), *facility.logged("session_refused")]:
        raise Broken(f"something was said that is not known there: {complaints[0]}")


async def _probe(facility: Facility, number: int) -> None:
    """Book and hold at each site by each broker: what both know works, and the rest is refused by name."""
    for broker in facility.replicas:
        async with facility.connect(broker, "ann", timeout_s=10) as client:
            for place, site in enumerate(facility.sites):
                slot = FIRST_SLOT + 20 * number + 2 * place + facility.replicas.index(broker)
                what = {"duration": "10m", "at": facility.tomorrow + 600 * slot}
                booked = await client.book(f"{site}/cluster:1", **what)
                if booked.state != "reserved":
                    raise Broken(f"a booking at {site} by {broker} is {booked.state}")
                knows = HOLDS.name in facility.features[broker] & facility.features[site]
                await _hold(client, site, knows, what)
                facility.counts["known" if knows else "not known"] += 1


async def _hold(client: kalends.Client, site: str, knows: bool, what: dict[str, Any]) -> None:
    try:
        held = await client.hold(f"{site}/cluster:1", **what)
    except kalends.KalendsError as error:
        codes = {(each.where, each.code) for each in error.refusals}
        if knows or codes != {(site, RefusalCode.OLDER_VERSION)}:
            raise Broken(f"a hold at {site} is refused: {error} {error.refusals}") from error
        if HOLDS.words not in error.refusals[0].detail:
            raise Broken(f"nobody is told what {site} does not know") from error
    else:
        if not knows or held.state != "held":
            raise Broken(f"a hold at {site}, which does not know it, is {held.state}")
        await client.release(held.id)


def _read_strictly(facility: Facility) -> None:
    """Have each server read what its version knows, and refuse the rest, as older ones do."""
    decode = codec.decode_frame

    def strict(body: bytes, decoder: Any) -> Any:
        frame = decode(body, decoder)
        node = NODE.get()
        known = facility.features.get(node.name, ALL) if node is not None else ALL
        if strange := strange_in(msgspec.msgpack.decode(body), type(frame), known):
            raise InvalidInput("this version knows no such field", where=strange[0])
        return frame

    codec.decode_frame = strict
