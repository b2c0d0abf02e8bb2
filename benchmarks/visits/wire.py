"""Bytes, messages and milliseconds until reserved, with and without an agent, over slow lines.

Two sites, a broker and a client, each a process of its own; the lines between them take 25 ms one way
and count what passes. Both ways book the same wish from the same calendars (`preference`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import kalends
from benchmarks.booking import wait_until_up
from benchmarks.facility import Facility, Line, facility, start_line
from benchmarks.slow_line import Passed
from benchmarks.visits.figures import spread
from benchmarks.visits.preference import AGENT, Wish, ranked, together, working_hours
from kalends.client.client import Client
from kalends.contract.calls import RequestView
from kalends.core.errors import LostRace, NoCommonTime

ONE_WAY_MS: Final = 25
SITES: Final = 2
CAPACITY: Final = 128
UNITS: Final = 65
"""More than half, so that no two can have the same hour."""

HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
GRAIN_S: Final = 1_800
ZONE: Final = "America/Los_Angeles"
TERMS: Final = " + ".join(f"site{number}/cluster:{UNITS}" for number in range(SITES))
AGENT_NAME: Final = "most-left"

LOADERS: Final = 32
TRIES_MAX: Final = 64
QUIET_S: Final = 1.2
"""Longer than anything that a broker puts off; nothing of a booking follows so late."""


class Booked(NamedTuple):
    """`refused` counts the bookings that were refused before the one that was made, if any was."""

    view: RequestView | None
    refused: int
    ms: float


Way = Callable[[Client, Wish], Awaitable[tuple[RequestView | None, int]]]


async def with_agent(client: Client, wish: Wish) -> tuple[RequestView | None, int]:
    """Name the agent, and let it choose at the sites."""
    for refused in range(TRIES_MAX):
        with contextlib.suppress(LostRace, NoCommonTime):
            return await client.book(
                TERMS,
                duration=wish.length_s,
                window=(wish.first, wish.last + wish.length_s),
                agent=AGENT_NAME,
            ), refused
    return None, TRIES_MAX


async def without_agent(client: Client, wish: Wish) -> tuple[RequestView | None, int]:
    """Fetch the calendars of the whole time, choose by the same rule, and book."""
    return await _book_best(client, wish, [(wish.first, wish.last + wish.length_s)])


async def without_agent_by_day(client: Client, wish: Wish) -> tuple[RequestView | None, int]:
    """Fetch only the hours that can suit: fewer bytes, more calls, which leave together."""
    return await _book_best(client, wish, working_hours(wish, ZoneInfo(ZONE)))


async def _book_best(
    client: Client, wish: Wish, times: Sequence[tuple[int, int]]
) -> tuple[RequestView | None, int]:
    """After a refusal the next best start is tried."""
    views = await asyncio.gather(
        *(
            client.calendar(f"site{number}/cluster", start=start, end=end)
            for number in range(SITES)
            for start, end in times
        )
    )
    of_site = [views[at : at + len(times)] for at in range(0, len(views), len(times))]
    refused = 0
    for start in together([ranked(pieces, wish) for pieces in of_site]):
        with contextlib.suppress(LostRace, NoCommonTime):
            return await client.book(TERMS, duration=wish.length_s, at=start), refused
        refused += 1
    return None, refused


WAYS: Final[dict[str, Way]] = {
    "agent": with_agent,
    "no agent": without_agent,
    "no agent, by day": without_agent_by_day,
}


@dataclass
class Tally:
    """What some bookings of one way took, on the line of the clients and on those of the sites."""

    bookings: int
    users: int
    way: str
    booked: list[Booked] = field(default_factory=list)
    client: Passed = field(default_factory=Passed)
    sites: Passed = field(default_factory=Passed)

    def starts(self) -> list[int]:
        return [each.view.start if each.view else 0 for each in self.booked]

    def figures(self) -> dict[str, Any]:
        views = [each.view for each in self.booked if each.view is not None]
        count = max(len(views), 1)
        sides = {"client": self.client, "sites": self.sites}
        return {
            "bookings_in_each_calendar": self.bookings,
            "users": self.users,
            "way": self.way,
            "asked": len(self.booked),
            "reserved": sum(view.state == "reserved" for view in views),
            "attempts": sum(view.attempts for view in views) / count,
            "refused": sum(each.refused for each in self.booked) / count,
            "until_reserved": spread(each.ms for each in self.booked)._asdict(),
            **{
                name: {
                    "bytes_there": passed.there.bytes / count,
                    "bytes_back": passed.back.bytes / count,
                    "messages": (passed.there.messages + passed.back.messages) / count,
                    "kinds": (passed.there + passed.back).kinds,
                }
                for name, passed in sides.items()
            },
        }


class Lines:
    """All slow lines of a facility: the clients' and the sites'."""

    def __init__(self, client: Line, sites: Sequence[Line]) -> None:
        self._client, self._sites = client, sites

    def passed(self) -> tuple[Passed, Passed]:
        return self._client.passed(), sum((line.passed() for line in self._sites), Passed())

    async def quiet(self) -> tuple[Passed, Passed]:
        """What has passed, once nothing more does."""
        seen, quiet_since_s = self.passed(), time.perf_counter()
        while time.perf_counter() - quiet_since_s < QUIET_S:
            await asyncio.sleep(0.1)
            if (now := self.passed()) != seen:
                seen, quiet_since_s = now, time.perf_counter()
        return seen


def measure(loads: Sequence[int], bookings: int, users: int, rounds: int) -> list[dict[str, Any]]:
    """`bookings` one after another, and `rounds` of `users` at once, for each number in `loads`.

    `loads` are bookings that each site's calendar holds already, ascending.
    """
    with _running() as (running, line):
        return asyncio.run(_measure(running, line, loads, bookings, users, rounds))


@contextlib.contextmanager
def _running() -> Iterator[tuple[Facility, Line]]:
    with (
        tempfile.TemporaryDirectory() as directory,
        facility(
            Path(directory),
            SITES,
            capacity=CAPACITY,
            one_way_ms=ONE_WAY_MS,
            grain=f"{GRAIN_S}s",
            zone=ZONE,
        ) as running,
    ):
        line = start_line(running.broker.url, ONE_WAY_MS)
        try:
            yield running, line
        finally:
            line.close()


async def _measure(
    running: Facility, line: Line, loads: Sequence[int], bookings: int, users: int, rounds: int
) -> list[dict[str, Any]]:
    await wait_until_up(running.broker.url)
    lines = Lines(line, running.lines)
    first = (int(time.time()) // DAY_S + 2) * DAY_S
    wish = Wish(UNITS, HOUR_S, first, first + 14 * DAY_S - HOUR_S)
    rows: list[dict[str, Any]] = []
    loaded = 0
    async with _clients(line.url, users) as clients:
        rows.append(await _first_use(clients, lines, wish))
        for load in loads:
            await _load(running.broker.url, load - loaded, first, seed=loaded)
            loaded = load
            alone = [await _in_turn(clients[0], lines, wish, load, way, bookings) for way in WAYS]
            for tally in alone:
                pairs = zip(tally.starts(), alone[0].starts(), strict=True)
                rows.append(tally.figures() | {"same_start": sum(a == b for a, b in pairs)})
            for way in WAYS:
                tally = await _at_once(clients, lines, wish, load, way, rounds)
                rows.append(tally.figures())
    return rows


@contextlib.asynccontextmanager
async def _clients(url: str, users: int) -> AsyncIterator[list[Client]]:
    """Connected clients of so many users; their scripts are not uploaded yet."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                kalends.connect(url, user=f"user{number}", timeout_s=60)
            )
            for number in range(users)
        ]
        await asyncio.gather(*(client.health() for client in clients))
        yield clients


async def _first_use(clients: Sequence[Client], lines: Lines, wish: Wish) -> dict[str, Any]:
    """The first booking with a script that neither broker nor sites have seen, upload and all."""
    tally = Tally(0, 1, "agent, first use")
    before = await lines.quiet()
    began_s = time.perf_counter()
    await clients[0].upload_agent(AGENT_NAME, AGENT)
    view, refused = await with_agent(clients[0], wish)
    tally.booked.append(Booked(view, refused, (time.perf_counter() - began_s) * 1e3))
    await _count(tally, lines, before)
    await asyncio.gather(*(each.upload_agent(AGENT_NAME, AGENT) for each in clients[1:]))
    await _give_back(clients, tally.booked)
    return tally.figures()


async def _in_turn(
    client: Client, lines: Lines, wish: Wish, load: int, way: str, bookings: int
) -> Tally:
    """One booking after another: each leaves the next a little less to choose from."""
    tally = Tally(load, 1, way)
    before = await lines.quiet()
    for _ in range(bookings):
        tally.booked.append(await _timed(client, wish, WAYS[way]))
    await _count(tally, lines, before)
    await _give_back([client], tally.booked)
    return tally


async def _at_once(
    clients: Sequence[Client], lines: Lines, wish: Wish, load: int, way: str, rounds: int
) -> Tally:
    """All clients want the same at the same time."""
    tally = Tally(load, len(clients), way)
    for _ in range(rounds):
        before = await lines.quiet()
        booked = await asyncio.gather(*(_timed(client, wish, WAYS[way]) for client in clients))
        tally.booked += booked
        await _count(tally, lines, before)
        await _give_back(clients, booked)
    return tally


async def _timed(client: Client, wish: Wish, way: Way) -> Booked:
    began_s = time.perf_counter()
    view, refused = await way(client, wish)
    return Booked(view, refused, (time.perf_counter() - began_s) * 1e3)


async def _count(tally: Tally, lines: Lines, before: tuple[Passed, Passed]) -> None:
    client, sites = await lines.quiet()
    tally.client += client - before[0]
    tally.sites += sites - before[1]


async def _give_back(clients: Sequence[Client], booked: Sequence[Booked]) -> None:
    """Cancel what was booked, so that whatever comes next finds the calendars as this one did."""
    by_user = {f"user{number}": client for number, client in enumerate(clients)}
    made = [each.view for each in booked if each.view is not None]
    await asyncio.gather(*(by_user[view.user].cancel(view.id) for view in made))


async def _load(url: str, count: int, first: int, seed: int) -> None:
    """Book `count` times at each site, 1 to 4 hours and 1 to 7 units somewhere within the fortnight."""
    chosen = random.Random(seed)
    wanted = [
        (number, chosen.randint(1, 7), chosen.randrange(14 * 48 - 8), chosen.randint(1, 4))
        for number in range(SITES)
        for _ in range(count)
    ]
    async with kalends.connect(url, user="others", timeout_s=60) as client:

        async def loader() -> None:
            while wanted:
                site, units, start, hours = wanted.pop()
                await client.book(
                    f"site{site}/cluster:{units}",
                    duration=hours * HOUR_S,
                    at=first + start * GRAIN_S,
                )

        await asyncio.gather(*(loader() for _ in range(LOADERS)))
