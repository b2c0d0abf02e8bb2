"""Users who book all the time; a call without an answer is repeated with the same key."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final

import kalends
from kalends.client.client import Client
from kalends.core.errors import KalendsError, OutcomeUnknown, Unavailable
from kalends.core.intervals import align_up
from kalends.demo.facility import USER
from kalends.demo.failover.hosts import BROKERS, Hosts
from kalends.demo.failover.tally import BookingSeen
from kalends.demo.together import until

UNITS: Final = {"sdsc/sp2": 64, "caltech/beamline": 1}
TEXT: Final = " + ".join(f"{name}:{count}" for name, count in UNITS.items())
GRAIN_S: Final = 60

USERS: Final = 4
PAUSE_S: Final = 0.1
"""Between two bookings of a user: the computer shall not be busy."""

LEAD_S: Final = 2 * 3_600
"""No slot begins while the demo runs."""

WAIT_S: Final = 10
GIVE_UP_S: Final = 120.0
"""A booking that is not decided by then counts as undecided."""

clock = time.monotonic


class Load:
    """The bookings of all users, in the order in which they ended."""

    def __init__(self) -> None:
        self.began_s = clock()
        self.bookings: list[BookingSeen] = []
        self.booked = [0] * USERS

    async def each_booked(self, count: int) -> None:
        """Return when each user has booked `count` times more; raises `Unavailable` if one cannot."""
        wanted = [booked + count for booked in self.booked]

        async def look() -> bool:
            return all(have >= want for have, want in zip(self.booked, wanted, strict=True))

        try:
            await until(look, bool, "the users cannot book", GIVE_UP_S)
        except Unavailable as error:
            why = next((each.problem for each in reversed(self.bookings) if each.problem), "")
            raise Unavailable(f"{error.detail}: {why}", remedy=error.remedy) from None


@contextlib.asynccontextmanager
async def at_work(hosts: Hosts, now_s: int) -> AsyncIterator[Load]:
    """Have `USERS` book all the time until this context ends; each then waits for its last answer."""
    load, stopping = Load(), asyncio.Event()
    first = align_up(now_s + LEAD_S, GRAIN_S)
    try:
        async with asyncio.TaskGroup() as group:
            for user in range(USERS):
                group.create_task(_work(hosts, load, user, first, stopping))
            try:
                yield load
            finally:
                stopping.set()
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _work(hosts: Hosts, load: Load, user: int, first: int, stopping: asyncio.Event) -> None:
    # Half of the users begin with one process of the broker, half with the other.
    names = BROKERS if user % 2 else BROKERS[::-1]
    urls = [hosts.servers[name].url for name in names]
    async with kalends.connect(urls, token=hosts.token(USER), timeout_s=WAIT_S) as client:
        number = user
        while not stopping.is_set():
            booking = await _book(client, first + number * GRAIN_S)
            load.bookings.append(booking)
            load.booked[user] += booking.outcome == "booked"
            number += USERS
            await asyncio.sleep(PAUSE_S)


async def _book(client: Client, start: int) -> BookingSeen:
    """Book one slot, with the same call again and again until there is an answer."""
    began_s, calls, problem = clock(), 0, ""
    while clock() - began_s < GIVE_UP_S:
        calls += 1
        try:
            view = await client.book(
                TEXT, duration=GRAIN_S, at=start, key=f"slot-{start}", wait_s=WAIT_S
            )
        except KalendsError as error:
            problem = str(error)
            if not _may_be_repeated(error):
                return BookingSeen(start, began_s, clock(), "refused", calls, problem=problem)
        else:
            if view.state == "reserved":
                return BookingSeen(start, began_s, clock(), "booked", calls, view.id)
        await asyncio.sleep(PAUSE_S)
    return BookingSeen(start, began_s, clock(), "undecided", calls, problem=problem)


def _may_be_repeated(error: KalendsError) -> bool:
    """Return whether the answer was lost, or no server could be asked; a request that ended is named."""
    if isinstance(error, Unavailable):
        return not error.request_id
    return isinstance(error, OutcomeUnknown)
