"""Customers, who ask by key until they are answered, and remember every word that they were told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import kalends
from kalends.contract.calls import Patience, RequestView
from tests.shells.facility import Facility
from tests.shells.scenarios import Broken

TRIES_MAX: Final = 400
AGAIN_S: Final = 0.5
SLOTS: Final = 4_000


Slots = frozenset[tuple[str, int, int, int]]
"""Resource, start, end and units of each slot of a reservation."""


def slots_of(view: RequestView) -> Slots:
    return frozenset((each.resource, each.start, each.end, each.units) for each in view.claims)


class Customers:
    """`count` customers, who make `bookings` each, of all sites, at replicas in turn.

    `told` has the ids that somebody was told are reserved, and not told otherwise since. `pause_s`
    bounds the rests between; of the reserved ones, the part `moves` is moved, and then the part `cancels`
    given back; the part `holds` is held first, then locked, and the part `resizes` is extended, and half of
    that shrunk again. They want one of `slots` starts; `name` begins their names and keys; with `pick` each
    request wants some of the sites only. So many of them are one user as there are more of them than `users`.
    """

    def __init__(
        self,
        facility: Facility,
        chance: random.Random,
        *,
        count: int = 4,
        bookings: int = 40,
        pause_s: float = 0.2,
        cancels: float = 0.0,
        moves: float = 0.0,
        holds: float = 0.0,
        resizes: float = 0.0,
        users: int = 0,
        slots: int = SLOTS,
        pick: bool = False,
        patience: Sequence[Patience] = ("held",),
        name: str = "customer",
    ) -> None:
        self.told: dict[str, str] = {}
        self.cancelled: set[str] = set()
        self.slots: dict[str, list[Slots]] = {}
        """What they were told that each reservation has: several where the answer to a move was lost."""
        self._facility = facility
        self._bookings = bookings
        self._pause_s = pause_s
        self._cancels = cancels
        self._moves = moves
        self._holds = holds
        self._resizes = resizes
        self._users = users or count
        self._slots = slots
        self._pick = pick
        self._patience = patience
        self._name = name
        self._broken = ""
        self._tasks = [
            facility.client(f"{name}{number}", self._live(number, random.Random(chance.random())))
            for number in range(count)
        ]

    async def end(self, within_s: float) -> None:
        """Wait until all customers have been answered; `Broken` when some never are."""
        done, late = await asyncio.wait(self._tasks, timeout=within_s)
        for task in done:
            task.result()
        if self._broken:
            raise Broken(self._broken)
        if late:
            raise Broken(
                f"{len(late)} customers are not answered within {within_s:.0f} calm seconds"
            )

    async def _live(self, number: int, chance: random.Random) -> None:
        replicas = self._facility.replicas
        replica = replicas[number % len(replicas)]
        user = f"user{number % self._users}"
        async with self._facility.connect(replica, user, timeout_s=10) as client:
            for count in range(self._bookings):
                await self._book(client, user, f"{self._name}-{number}-{count}", chance)
                await asyncio.sleep(chance.uniform(0, self._pause_s))

    async def _book(
        self, client: kalends.Client, user: str, key: str, chance: random.Random
    ) -> None:
        start = self._start(chance)
        cancels = chance.random() < self._cancels
        moves = chance.random() < self._moves
        ask = client.hold if chance.random() < self._holds else client.book
        patience = chance.choice(self._patience)
        sites = self._facility.sites
        if self._pick:
            sites = chance.sample(sites, chance.randrange(1, len(sites) + 1))
        request = " + ".join(f"{site}/cluster:1" for site in sites)
        for _ in range(TRIES_MAX):
            try:
                view = await ask(
                    request, duration="10m", at=start, key=key, wait_s=10, patience=patience
                )
            except kalends.OutcomeUnknown:
                await asyncio.sleep(AGAIN_S)
            except kalends.Unavailable as error:
                if error.request_id:
                    return  # That is the answer, and will be it for ever.
                await asyncio.sleep(AGAIN_S)
            except kalends.InvalidInput:
                if not self._facility.world.clocks_were_astray:
                    raise
                return  # It may have passed, by the clock of a site.
            except kalends.LimitExceeded:
                self._facility.counts["refused by limits"] += 1
                return
            except kalends.KalendsError:
                return
            else:
                if self._facility.witness is not None:
                    self._facility.witness.told(user, user, key, view)
                if view.state == "held" and not await self._lock(client, view.id):
                    return
                if view.state in ("held", "reserved"):
                    self._is_told(view.id, key)
                    self.slots[view.id] = [slots_of(view)]
                    if moves:
                        await self._move(client, view.id, self._start(chance))
                    if self._resizes and chance.random() < self._resizes:
                        await self._resize(client, view.id, 1_200)
                        if chance.random() < 0.5:
                            await self._resize(client, view.id, 600)
                    if cancels:
                        await self._cancel(client, view.id)
                if view.state != "open":
                    return
        self._broken = self._broken or f"{key} has no answer after {TRIES_MAX} tries"

    def _start(self, chance: random.Random) -> int:
        return self._facility.tomorrow + 600 * chance.randrange(self._slots)

    async def _lock(self, client: kalends.Client, rid: str) -> bool:
        """Whether what was held is reserved now: it may have run out, or been given up, meanwhile."""
        for _ in range(TRIES_MAX):
            try:
                return (await client.lock(rid)).state == "reserved"
            except kalends.Unavailable as error:
                if error.request_id:
                    return False
                await asyncio.sleep(AGAIN_S)
            except kalends.OutcomeUnknown:
                await asyncio.sleep(AGAIN_S)
            except kalends.KalendsError:
                return False
        self._broken = self._broken or f"locking {rid} has no answer after {TRIES_MAX} tries"
        return False

    async def _move(self, client: kalends.Client, rid: str, start: int) -> None:
        before = self.slots[rid][0]
        shift_s = start - min(slot[1] for slot in before)
        after = frozenset((name, at + shift_s, end + shift_s, n) for name, at, end, n in before)
        await self._change(rid, after, lambda: client.move(rid, start, key=f"{rid}-moved"))

    async def _resize(self, client: kalends.Client, rid: str, length_s: int) -> None:
        before, *unsure = self.slots[rid]
        if unsure:
            return
        after = frozenset((name, at, at + length_s, n) for name, at, _, n in before)
        resize = client.extend if length_s > 600 else client.shrink
        key = f"{rid}-{length_s}"
        await self._change(rid, after, lambda: resize(rid, duration=f"{length_s}s", key=key))
        self._facility.counts["resized"] += self.slots[rid] == [after]

    async def _change(
        self, rid: str, after: Slots, ask: Callable[[], Awaitable[RequestView]]
    ) -> None:
        """Whatever comes of it, it is reserved: as it was, or as it is `after` the change."""
        before = self.slots[rid]
        self.slots[rid] = [*before, after]
        for _ in range(TRIES_MAX):
            try:
                view = await ask()
            except kalends.Unavailable as error:
                if error.request_id:
                    return
                await asyncio.sleep(AGAIN_S)
            except kalends.OutcomeUnknown:
                await asyncio.sleep(AGAIN_S)
            except kalends.KalendsError:
                return
            else:
                if view.state == "reserved":
                    self.slots[rid] = [slots_of(view)]
                return
        self._broken = self._broken or f"changing {rid} has no answer after {TRIES_MAX} tries"

    async def _cancel(self, client: kalends.Client, rid: str) -> None:
        """From the first try until it is answered nobody knows whether it is still there."""
        del self.told[rid]
        for _ in range(TRIES_MAX):
            try:
                await client.cancel(rid)
            except (kalends.Unavailable, kalends.OutcomeUnknown):
                await asyncio.sleep(AGAIN_S)
            else:
                self.cancelled.add(rid)
                return
        self._broken = self._broken or f"cancelling {rid} has no answer after {TRIES_MAX} tries"

    def _is_told(self, rid: str, key: str) -> None:
        if self.told.setdefault(rid, key) != key:
            self._broken = f"{key} is answered with {rid}, which is of {self.told[rid]}"
