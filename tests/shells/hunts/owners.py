"""Owners approve, decline and forget, while their servers and the brokers die."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import Final

import kalends
from kalends.contract.owner_calls import ApprovalView
from tests.shells import books
from tests.shells.customers import slots_of
from tests.shells.facility import Facility, Plan
from tests.shells.judging import calm, judge
from tests.shells.scenarios import Broken, all_over, scenario

WITHIN_S: Final = 90
GUARDED: Final = f"""
[site.limits]
approval_within = "{WITHIN_S}s"
[[site.defaults.limits]]
name = "word"
who = "everyone"
approval = true
"""
CUSTOMERS: Final = 3
BOOKINGS: Final = 6
DEATHS: Final = 12
CALM_S: Final = 900.0


class Owner:
    """The owner of `site`: asks for the queue again and again, and repeats a word until it is answered."""

    def __init__(self, facility: Facility, site: str, chance: random.Random) -> None:
        self.site = site
        self.words: defaultdict[str, set[str]] = defaultdict(set)
        """What was said, or at least asked for, about each request."""
        self._facility = facility
        self._chance = chance

    async def live(self) -> None:
        async with self._facility.connect(self.site, "owner", timeout_s=5) as client:
            while True:
                await asyncio.sleep(self._chance.uniform(0.5, 5))
                try:
                    for asked in await client.approvals():
                        await self._decide(client, asked)
                except kalends.KalendsError:
                    continue

    async def _decide(self, client: kalends.Client, asked: ApprovalView) -> None:
        said = self.words[asked.id]
        word = (
            next(iter(said), "")
            or self._chance.choices(("approved", "declined", ""), (70, 10, 20))[0]
        )
        if not word:
            return
        said.add(word)
        decide = client.approve if word == "approved" else client.decline
        done = await decide(asked.id, word=word, revision=asked.revision)
        if done.state != word:
            raise Broken(f"{self.site} says that {asked.id} is {done.state}, its owner said {word}")
        self._facility.counts[word] += 1


class Customer:
    """Books one slot of all sites after the other, and waits for what becomes of each."""

    def __init__(self, facility: Facility, number: int, chance: random.Random) -> None:
        self.told: dict[str, kalends.RequestView] = {}
        self._facility = facility
        self._number = number
        self._chance = chance

    async def live(self) -> None:
        facility = self._facility
        replica = facility.replicas[self._number % len(facility.replicas)]
        async with facility.connect(replica, f"user{self._number}", timeout_s=10) as client:
            for count in range(BOOKINGS):
                key = f"customer-{self._number}-{count}"
                start = facility.tomorrow + 3_600 * self._chance.randrange(4 * CUSTOMERS)
                view = await self._until_told(client, key, start)
                if view is not None:
                    self.told[view.id] = view

    async def _until_told(
        self, client: kalends.Client, key: str, start: int
    ) -> kalends.RequestView | None:
        """Ask with the same key until it is reserved, or is not."""
        while True:
            try:
                view = await client.book(
                    self._facility.everything, duration="1h", at=start, key=key, wait_s=10
                )
                if view.state == "open":
                    self._facility.counts["waits"] += 1
            except (kalends.Unavailable, kalends.OutcomeUnknown):
                view = await self._as_it_is(client, key)
            except kalends.KalendsError:
                return None
            if view is not None and view.state != "open":
                return view
            await asyncio.sleep(2)

    async def _as_it_is(self, client: kalends.Client, key: str) -> kalends.RequestView | None:
        """Whether a site was away, or the broker is: what failed for a site stays so."""
        try:
            return await client.resolve(key)
        except kalends.KalendsError:
            return None


@scenario(
    Plan(sites=2, replicas=2, capacity=1, site_options=GUARDED, audited=False),
    least={"approved": 5, "slots compared": 2},
)
async def owners(facility: Facility, chance: random.Random) -> None:
    """Nothing is locked without the word of each owner, and everybody is told what has become of it."""
    await facility.up()
    lives = [Owner(facility, site, random.Random(chance.random())) for site in facility.sites]
    for owner in lives:
        facility.client(f"owner-of-{owner.site}", owner.live())
    customers = [
        Customer(facility, number, random.Random(chance.random())) for number in range(CUSTOMERS)
    ]
    tasks = [
        facility.client(f"customer{number}", customer.live())
        for number, customer in enumerate(customers)
    ]
    for _ in range(DEATHS):
        await asyncio.sleep(chance.uniform(1, 15))
        facility.restart(chance.choice(facility.servers), dark=chance.random() < 0.5)
    await all_over(tasks, CALM_S, "customers are not told what has become of their requests")
    await calm(facility)
    await asyncio.sleep(60)
    told = {rid: view for customer in customers for rid, view in customer.told.items()}
    slots = {rid: [slots_of(view)] for rid, view in told.items() if view.state == "reserved"}
    judge(facility, slots.keys(), slots=slots)
    _nothing_without_a_word(facility, lives)


def _nothing_without_a_word(facility: Facility, lives: list[Owner]) -> None:
    for owner in lives:
        for rid, stake in books.stakes(facility, owner.site).items():
            states = {claim["state"] for claim in stake["claims"]}
            said = owner.words.get(rid, set())
            if states & {"prepared", "locked"} and said != {"approved"}:
                raise Broken(f"{owner.site} has {states} of {rid}, and its owner said {said}")
