"""Customers of a broker that keep a log of everything they were told, and what follows from it.

A customer works on one thing at a time, through replicas chosen by chance, and settles every unknown
outcome as the documentation of the client says. So at any moment between two steps it knows exactly
what it has: `reserved`, by id. What it was told is what an auditor holds against the facility.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple

import kalends
from kalends.client.connection import in_surroundings
from kalends.client.transports.retry import Backoff
from kalends.contract.calls import RequestView
from kalends.core.errors import (
    Conflict,
    Expired,
    InvalidInput,
    KalendsError,
    LostRace,
    NoCommonTime,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from tests.support.patience import PATIENCE_S

from .facility import GRAIN_S
from .servers import until

DAY_S: Final = 86_400
STARTS: Final = 48
"""Customers meet in as many grains: few enough to get in one another's way."""


REFUSALS: Final = (NoCommonTime, LostRace, Conflict, Expired)
REFUSALS_WHERE_CLOCKS_ARE_WRONG: Final = (*REFUSALS, InvalidInput)
"""To a broker whose clock is wrong, the times that are asked for may lie in the past."""

Claim = tuple[str, int, int, int]
"""Resource, start, end, units."""


class Told(NamedTuple):
    """A line of the log, for people who look for a lost promise."""

    what: str
    id: str
    state: str
    claims: tuple[Claim, ...] = ()


class Customer:
    """One user. `urls` are the replicas; `base_s` is when the time begins that is booked.

    `refusals` are the ends of a booking or change that leave everything as it was.
    """

    def __init__(
        self,
        user: str,
        urls: Sequence[str],
        resources: Sequence[str],
        base_s: int,
        chance: random.Random,
        *,
        token: str = "",
        refusals: tuple[type[KalendsError], ...] = REFUSALS,
    ) -> None:
        self.user = user
        self.reserved: dict[str, tuple[Claim, ...]] = {}
        self.keys: set[str] = set()
        self.log: list[Told] = []
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._urls = urls
        self.resources = resources
        self.base_s = base_s
        self._chance = chance
        self._token = token
        self._refusals = refusals
        self._booked = asyncio.Event()
        self._open = contextlib.AsyncExitStack()
        self._clients: list[kalends.Client] = []

    async def __aenter__(self) -> Customer:
        for url in self._urls:
            client = kalends.connect(
                url, user=self.user, token=self._token, zone="UTC", timeout_s=10.0,
                backoff=Backoff(tries_max=4, base_s=0.05, wait_s_max=0.2),
            )  # fmt: skip
            client = in_surroundings(client, fraction=self._chance.random)
            self._clients.append(await self._open.enter_async_context(client))
        return self

    async def __aexit__(self, *of_exit: object) -> None:
        await self._open.aclose()

    async def booked_again(self, count: int) -> None:
        """Return when this customer, at work elsewhere, has got `count` more bookings."""
        for _ in range(count):
            self._booked.clear()
            await self._booked.wait()

    # What a customer does

    async def step(self) -> None:
        """Do one thing, chosen by chance, to its end."""
        options: list[Callable[[], Awaitable[None]]] = [
            self.book_fixed, self.book_earliest, self.book_any, self.hold,
        ]  # fmt: skip
        if self.reserved:
            options += [self.cancel_one, self.move_one, self.resize_one]
        if len(self.reserved) > 6:
            options = [self.cancel_one]
        await self._chance.choice(options)()

    async def book_fixed(self) -> None:
        """Known slots on some resources: promised in one round trip."""
        await self.book(self._terms(), at=self._start())

    async def book_earliest(self) -> None:
        """The earliest common time in the whole window: looked for first."""
        await self.book(self._terms(), window=(self.base_s, self.base_s + STARTS * GRAIN_S))

    async def book_any(self) -> None:
        """Any two resources of a kind."""
        await self.book("2 of {kind=cluster}", at=self._start())

    async def book(
        self,
        terms: str,
        *,
        at: int | None = None,
        window: tuple[int | None, int | None] = (None, None),
        duration_s: int = 0,
        wait_s: float = 20.0,
    ) -> str:
        """Book `terms`, for a length by chance unless given; the id of the reservation, or ""."""
        key = self._new_key()
        duration_s = duration_s or GRAIN_S * self._chance.randint(1, 4)

        def send(client: kalends.Client) -> Awaitable[RequestView]:
            return client.book(
                terms, duration=duration_s, at=at, window=window, note=key, key=key, wait_s=wait_s
            )

        view = await self._settled("book", key, send)
        return self._conclude("book", view)

    async def book_patiently(self, terms: str, number: int, *, within_s: float = PATIENCE_S) -> str:
        """Book the grain of this number, again and again until it is booked; the id.

        For the time after a start: a broker is well before it is connected to its sites.
        """
        at = self.base_s + number * GRAIN_S

        async def attempt() -> str:
            return await self.book(terms, at=at, duration_s=GRAIN_S)

        return await until(
            attempt, f"{terms} is booked", within_s=within_s, explain=lambda: self.counts
        )

    async def hold(self) -> None:
        """Hold, then lock, release, or forget about it."""
        key = self._new_key()
        terms, at = self._terms(), self._start()

        def send(client: kalends.Client) -> Awaitable[RequestView]:
            return client.hold(
                terms, duration=2 * GRAIN_S, at=at, note=key, key=key, keep="3s", wait_s=20
            )

        view = await self._settled("hold", key, send)
        if view is None or view.state != "held":
            self._conclude("hold", view)
            return
        self._note("hold", view)
        await self._finish_hold(view.id, self._chance.choice(("lock", "release", "forget")))

    async def cancel_one(self) -> None:
        await self.cancel(self._chance.choice(sorted(self.reserved)))

    async def cancel(self, id: str) -> None:
        view = await self._repeated("cancel", lambda client: client.cancel(id, wait_s=5))
        self._expect(view is not None and view.state == "cancelled", f"cancel of {id}: {view}")
        self._forget(id, "cancel")

    async def move_one(self) -> None:
        to = self._start()
        await self._change("move", lambda client, id, key: client.move(id, to, key=key, wait_s=20))

    async def resize_one(self) -> None:
        """To a length that may be longer or shorter, or the present one."""
        length_s = GRAIN_S * self._chance.randint(1, 5)

        async def send(client: kalends.Client, id: str, key: str) -> RequestView:
            try:
                return await client.extend(id, duration=length_s, key=key, wait_s=20)
            except InvalidInput:
                return await client.shrink(id, duration=length_s, key=key, wait_s=20)

        await self._change("resize", send)

    async def settle_everything(self) -> None:
        """Leave no hold behind."""
        for client in self._clients:
            for view in await _held_at(client):
                await self._release(view.id)

    async def _release(self, id: str) -> None:
        await self._repeated("release", lambda client: client.release(id, wait_s=5))
        self._forget(id, "release")

    # How outcomes are settled

    async def _settled(
        self, what: str, key: str, send: Callable[[kalends.Client], Awaitable[RequestView]]
    ) -> RequestView | None:
        """The decided view of the request of `key`; None when it was refused."""
        try:
            view = await send(self._client())
        except OutcomeUnknown as error:
            self.counts["unknown outcomes"] += 1
            self._expect(error.request_id == key, f"{what}: the error names {error.request_id!r}")
            resolved = await self._resolved(what, key, send)
            if resolved is None:
                return None
            view = resolved
        except Unavailable:
            # Nothing was done: the auditor looks for this key among what is reserved.
            self.counts["unavailable"] += 1
            return None
        except self._refusals as error:
            self.counts[f"refused: {error.code}"] += 1
            return None
        if view.state == "open":
            return await self._decided(view.id)
        return view

    async def _resolved(
        self, what: str, key: str, send: Callable[[kalends.Client], Awaitable[RequestView]]
    ) -> RequestView | None:
        """Ask by key until somebody knows; what never arrived is sent again with the same key."""
        errors: list[Exception] = []

        async def ask() -> RequestView | Literal["refused", ""]:
            try:
                return await self._client().resolve(key)
            except NotFound:
                self.counts["never arrived"] += 1
            except Unavailable as error:
                errors.append(error)
                return ""
            try:
                return await send(self._client())
            except self._refusals:
                return "refused"
            except (OutcomeUnknown, Unavailable) as error:
                errors.append(error)
                return "refused" if is_final(error) else ""

        answer = await until(ask, f"{what} {key} is settled", explain=lambda: errors[-4:])
        return answer if isinstance(answer, RequestView) else None

    async def _decided(self, id: str) -> RequestView:
        """Request `id` once it is open no more, and not being changed."""

        async def look() -> RequestView | None:
            try:
                view = await self._client().show(id)
            except Unavailable:
                return None
            return None if view.state == "open" or view.changing else view

        view = await until(look, f"{id} is decided")
        assert view is not None
        return view

    async def _repeated(
        self, what: str, send: Callable[[kalends.Client], Awaitable[RequestView]]
    ) -> RequestView | None:
        """Send until it is answered: lock, release and cancel say the same again."""
        errors: list[Exception] = []

        async def attempt() -> RequestView | Literal["refused"] | None:
            try:
                return await send(self._client())
            except (OutcomeUnknown, Unavailable) as error:
                errors.append(error)
                return "refused" if is_final(error) else None
            except self._refusals:
                return "refused"

        answer = await until(attempt, f"{what} is answered", explain=lambda: errors[-4:])
        return answer if isinstance(answer, RequestView) else None

    async def _finish_hold(self, id: str, how: str) -> None:
        if how == "lock":
            view = await self._repeated("lock", lambda client: client.lock(id, wait_s=20))
            view = view if view is not None and view.state != "open" else await self._decided(id)
            if view.state == "held":  # Its lock was refused; it ends by itself, as if forgotten.
                self._forget(id, "lock refused")
            else:
                self._conclude("lock", view)
        elif how == "release":
            await self._release(id)
        else:
            self._forget(id, "left to expire")

    async def _change(
        self,
        what: str,
        send: Callable[[kalends.Client, str, str], Awaitable[RequestView]],
    ) -> None:
        """Change one reservation: it ends up as the answer says, or as it was."""
        id = self._chance.choice(sorted(self.reserved))
        key = self._new_key()
        refused: list[str] = []
        errors: list[Exception] = []

        async def attempt() -> bool:
            try:
                await send(self._client(), id, key)
            except (OutcomeUnknown, Unavailable) as error:
                self.counts[f"{what} repeated"] += 1
                errors.append(error)
                if not is_final(error):
                    return False
                refused.append(error.code)
            except (*self._refusals, InvalidInput) as error:
                refused.append(error.code)
            return True

        await until(
            attempt, f"{what} of {id} is answered",
            explain=lambda: errors[-4:],
        )  # fmt: skip
        view = await self._decided(id)
        self._expect(view.state == "reserved", f"{what} of {id} left it {view.state}")
        before, after = self.reserved[id], claims_of(view)
        if refused:
            self.counts[f"{what} refused: {refused[-1]}"] += 1
            self._expect(before == after, f"{what} of {id} was refused, but it changed: {view}")
        else:
            self.counts[what] += 1
        self.reserved[id] = after
        self._note(what, view)

    # What follows from what was told

    def _conclude(self, what: str, view: RequestView | None) -> str:
        """Take `view`, decided, as the truth from now on; the id of what is reserved, or ""."""
        if view is None:
            return ""
        self._note(what, view)
        if view.state == "reserved":
            known = self.reserved.setdefault(view.id, claims_of(view))
            self._expect(known == claims_of(view), f"{what}: {view.id} is told in two ways")
            self.counts["booked"] += 1
            self._booked.set()
            return view.id
        self._expect(view.state in ("failed", "cancelled"), f"{what} ended as {view.state}")
        self._forget(view.id, f"{what}: {view.state}")
        return ""

    def _forget(self, id: str, why: str) -> None:
        self.reserved.pop(id, None)
        self.counts[why] += 1
        self.log.append(Told(why, id, "gone"))

    def _note(self, what: str, view: RequestView) -> None:
        self.log.append(Told(what, view.id, view.state, claims_of(view)))

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.violations.append(f"{self.user}: {otherwise}")

    # Chances

    def _client(self) -> kalends.Client:
        return self._chance.choice(self._clients)

    def _new_key(self) -> str:
        key = f"{self.user}-{self._chance.getrandbits(32):08x}-{len(self.keys)}"
        self.keys.add(key)
        return key

    def _terms(self) -> str:
        count = self._chance.randint(1, len(self.resources))
        chosen = self._chance.sample(list(self.resources), count)
        return " + ".join(f"{resource}:{self._chance.randint(1, 4)}" for resource in chosen)

    def _start(self) -> int:
        return self.base_s + GRAIN_S * self._chance.randrange(STARTS)


def base_now_s() -> int:
    """A start of a grain some hours from now, so that no slot begins while a test runs."""
    return (int(time.time()) // GRAIN_S + 12) * GRAIN_S


def is_final(error: OutcomeUnknown | Unavailable) -> bool:
    """Whether it says how a request ended, and not only that nobody could be asked now."""
    return isinstance(error, Unavailable) and bool(error.request_id)


def claims_of(view: RequestView) -> tuple[Claim, ...]:
    """Whether they are confirmed left out: that changes by itself."""
    return tuple(
        sorted((claim.resource, claim.start, claim.end, claim.units) for claim in view.claims)
    )


async def _held_at(client: kalends.Client) -> Sequence[RequestView]:
    """Return what is held, as soon as the broker answers: it may have just been started again."""

    async def listed() -> tuple[Sequence[RequestView]] | None:
        with contextlib.suppress(Unavailable):
            return (await client.list(state="held", count=1_000),)
        return None

    return (await until(listed, "what is held is listed"))[0]
