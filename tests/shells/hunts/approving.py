"""Owners' words among moves, cancels, holds, deaths, wrong clocks and a restored disk: each counts once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, Final

import kalends
from kalends.contract.calls import Patience
from kalends.contract.owner_calls import ApprovalView
from tests.shells import books
from tests.shells.facility import Facility, Plan
from tests.shells.hunts.owners import GUARDED
from tests.shells.judging import calm
from tests.shells.scenarios import Broken, all_over, scenario
from tests.support.register_rows import COMMITTED

CUSTOMERS: Final = 4
BOOKINGS: Final = 5
SLOTS: Final = 6
TRIES_MAX: Final = 600
STRIKES: Final = 10
WRONG_S: Final = (-10_800.0, -60.0, 60.0, 3_600.0, 86_400.0)
END_S: Final = 1_800.0
QUIET_S: Final = 90.0

Slot = tuple[str, int, int, int]


class Owner:
    """The owner of `site`, who may think otherwise when the same request is asked about again."""

    def __init__(self, facility: Facility, site: str, chance: random.Random) -> None:
        self.site = site
        self.said: defaultdict[str, set[str]] = defaultdict(set)
        """The words that were at least asked for, about each request."""
        self.answered: dict[str, str] = {}
        """The last word about each request that the site has taken."""
        self._facility = facility
        self._chance = chance

    async def live(self) -> None:
        async with self._facility.connect(self.site, "owner", timeout_s=5) as client:
            while True:
                await asyncio.sleep(self._chance.uniform(0.2, 4))
                with contextlib.suppress(kalends.KalendsError):
                    for asked in await client.approvals():
                        word = self._chance.choices(("approved", "declined", ""), (75, 8, 17))[0]
                        if word:
                            await self.say(client, asked, word)

    async def say(self, client: kalends.Client, asked: ApprovalView, word: str) -> None:
        """Say it once; whether it counts is for the site to answer."""
        self.said[asked.id].add(word)
        decide = client.approve if word == "approved" else client.decline
        try:
            done = await decide(asked.id, word=word, revision=asked.revision)
        except kalends.KalendsError:
            self._facility.counts["words not taken"] += 1
            raise
        if done.state != word:
            raise Broken(f"{self.site} says that {asked.id} is {done.state}, its owner said {word}")
        self.answered[asked.id] = word
        self._facility.counts[word] += 1


class Customer:
    """Books, holds, moves and cancels, and waits until each is decided; `told` is what stands by that."""

    def __init__(self, facility: Facility, number: int, chance: random.Random) -> None:
        self.told: dict[str, str] = {}
        self._facility = facility
        self._number = number
        self._chance = chance

    async def live(self) -> None:
        replicas, number = self._facility.replicas, self._number
        replica = replicas[number % len(replicas)]
        async with self._facility.connect(replica, f"user{number}", timeout_s=10) as client:
            for count in range(BOOKINGS):
                await self._book(client, f"customer-{number}-{count}")
                await asyncio.sleep(self._chance.uniform(0, 5))

    async def _book(self, client: kalends.Client, key: str) -> None:
        chance, sites = self._chance, self._facility.sites
        request = " + ".join(
            f"{site}/cluster:1"
            for site in chance.sample(sites, chance.randrange(1, len(sites) + 1))
        )
        ask = client.hold if chance.random() < 0.3 else client.book
        patience: Patience = chance.choice(("none", "held", "held"))
        start = self._start()
        view = await self._decided(
            client, key,
            lambda: ask(
                request, duration="10m", at=start, key=key, wait_s=10, patience=patience
            ),
        )  # fmt: skip
        if view is not None and view.state == "held":
            id = view.id
            view = await self._decided(client, key, lambda: client.lock(id))
        if view is None or view.state != "reserved":
            return
        rid, later = view.id, self._start()
        self.told[rid] = "commit"
        if chance.random() < 0.5:
            moved = f"{key}-moved"
            await self._decided(client, "", lambda: client.move(rid, later, key=moved))
        if chance.random() < 0.4:
            del self.told[rid]
            view = await self._decided(client, "", lambda: client.cancel(rid))
            if view is not None and view.state == "cancelled":
                self.told[rid] = "cancelled"

    def _start(self) -> int:
        return self._facility.tomorrow + 600 * self._chance.randrange(SLOTS)

    async def _decided(
        self, client: kalends.Client, key: str, ask: Callable[[], Awaitable[kalends.RequestView]]
    ) -> kalends.RequestView | None:
        """Ask again and again until it is decided; None: it has failed, or nobody can say."""
        for _ in range(TRIES_MAX):
            view = None
            try:
                view = await ask()
            except (kalends.Unavailable, kalends.OutcomeUnknown) as error:
                if isinstance(error, kalends.Unavailable) and error.request_id:
                    return None  # That is the answer, and will be it for ever.
                with contextlib.suppress(kalends.KalendsError):
                    view = await client.resolve(key) if key else None
            except kalends.KalendsError:
                return None
            if view is not None and view.state != "open":
                return view
            await asyncio.sleep(2)
        raise Broken(f"user{self._number} is not told what has become of {key or 'a change'}")


@scenario(
    Plan(sites=2, replicas=2, capacity=2, site_options=GUARDED, audited=False),
    least={"reserved": 1, "approved": 5},
)
async def approving(facility: Facility, chance: random.Random) -> None:
    """Nothing is locked without a word, nothing that was declined, and all is told, whatever strikes."""
    await facility.up()
    owners = [Owner(facility, site, random.Random(chance.random())) for site in facility.sites]
    for owner in owners:
        facility.client(f"owner-of-{owner.site}", owner.live())
    customers = [
        Customer(facility, number, random.Random(chance.random())) for number in range(CUSTOMERS)
    ]
    tasks = [
        facility.client(f"customer{number}", customer.live())
        for number, customer in enumerate(customers)
    ]
    world, restored = facility.world, chance.choice(facility.sites)
    owner = next(each for each in owners if each.site == restored)
    at = chance.randrange(STRIKES // 2)
    for number in range(STRIKES):
        if number == at:
            await _until_somebody_waits(facility, restored)
            world.disk.image(world.disk_of(restored), world.folder / "image")
            await asyncio.sleep(chance.uniform(3, 20))
            await _put_back(facility, owner, chance)
        await asyncio.sleep(chance.uniform(1, 15))
        name = chance.choice(facility.servers)
        if chance.random() < 0.3:
            world.set_clock(name, chance.choice(WRONG_S))
        else:
            facility.restart(name, dark=chance.random() < 0.5)
    await calm(facility)
    await all_over(tasks, END_S, "customers are not told what has become of their requests")
    await asyncio.sleep(QUIET_S)
    rows = books.rows(facility, "broker0")
    _is_told_true(rows, {rid: told for each in customers for rid, told in each.told.items()})
    for each in owners:
        _keeps_to_its_words(facility, each, rows)
        _has_what_is_reserved(facility, each.site, rows)
    facility.counts["reserved"] += sum(row.state == "commit" for row in rows.values())


async def _until_somebody_waits(facility: Facility, site: str) -> None:
    """Return when its owner is asked for something, or after a while in any case."""
    async with facility.connect(site, "owner", timeout_s=5) as client:
        for _ in range(20):
            with contextlib.suppress(kalends.KalendsError):
                if await client.approvals():
                    return
            await asyncio.sleep(0.5)


async def _put_back(facility: Facility, owner: Owner, chance: random.Random) -> None:
    """The site's disk goes back; before any broker has come its owner looks at what waits, and decides."""
    world, site = facility.world, owner.site
    world.kill(site, dark=chance.random() < 0.5)
    for replica in facility.replicas:
        world.network.cut(replica, site)
    world.disk.put_back(world.disk_of(site), world.folder / "image")
    facility.start(site)
    await asyncio.sleep(chance.uniform(0.5, 15))
    async with facility.connect(site, "owner", timeout_s=5) as client:
        with contextlib.suppress(kalends.KalendsError):
            for asked in await client.approvals():
                with contextlib.suppress(kalends.KalendsError):
                    await owner.say(client, asked, chance.choice(("approved", "declined")))
    world.network.heal()


def _is_told_true(rows: dict[str, books.Row], all_told: dict[str, str]) -> None:
    states: defaultdict[str, list[str]] = defaultdict(list)
    for rid, row in rows.items():
        if not row.done:
            raise Broken(f"{rid} is {row.state}, and not finished although all is calm")
        if row.state in COMMITTED:
            states[row.reservation].append(row.state)
    for rid, told in all_told.items():
        if states[rid].count(told) != 1:
            raise Broken(f"{rid} was told as {told}, and the register has {states[rid]}")


def _keeps_to_its_words(facility: Facility, owner: Owner, rows: dict[str, books.Row]) -> None:
    for rid, word in owner.answered.items():
        row = rows.get(rid)
        if word == "declined" and row is not None and row.state in COMMITTED:
            raise Broken(
                f"{owner.site} took the word that {rid} is declined, and it is {row.state}"
            )
    stakes = books.stakes(facility, owner.site)
    for rid, stake in stakes.items():
        more = _locked(stake) - _slots_at(owner.site, rows.get(stake["replaces"]))
        if more and "approved" not in owner.said[rid]:
            raise Broken(f"{owner.site} has {more} of {rid}, and its owner said {owner.said[rid]}")


def _has_what_is_reserved(facility: Facility, site: str, rows: dict[str, books.Row]) -> None:
    """By slots: what was locked again has other numbers."""
    stakes = books.stakes(facility, site)
    for rid in rows.keys() | stakes.keys():
        row = rows.get(rid)
        expected = _slots_at(site, row if row is not None and row.state == "commit" else None)
        found = _locked(stakes[rid]) if rid in stakes else Counter()
        if found != expected:
            raise Broken(f"{site} has {found} of {rid} locked, not {expected}: {row and row.state}")
    taken: Counter[int] = Counter()
    for stake in stakes.values():
        for _, start, _, units in _locked(stake).elements():
            taken[start] += units
    if over := [start for start, units in taken.items() if units > facility.plan.capacity]:
        raise Broken(f"{site} has sold {over} twice")


def _locked(stake: dict[str, Any]) -> Counter[Slot]:
    return Counter(
        (each["resource"], each["start"], each["end"], each["units"])
        for each in stake["claims"]
        if each["state"] == "locked"
    )


def _slots_at(site: str, row: books.Row | None) -> Counter[Slot]:
    return Counter(
        (each["resource"], each["start"], each["end"], each["units"])
        for each in (row.body["wants"] if row is not None else ())
        if each["resource"].startswith(f"{site}/")
    )
