"""Servers on PostgreSQL are replaced by a later version one by one, while customers notice nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.core.errors import KalendsError
from tests.postgres.struck_servers import BROKERS, CUSTOMERS, TWINS, Struck, struck_servers
from tests.support.patience import PATIENCE_S

from .auditing import audit
from .customers import DAY_S, base_now_s
from .facility import GRAIN_S
from .newer_kalends import REGISTER, SITE, WORDS

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

WORKING = 4
WAIT_S = 100.0
"""Nearly as long as a call may wait."""
TERMS = "site0/cluster + site1/cluster"


class Bookings:
    """How many were made, and what was refused: there is room for all, so nothing may be."""

    def __init__(self) -> None:
        self.made = 0
        self.refused: list[str] = []
        self._changed = asyncio.Condition()
        self._is_over = False

    async def work(self, user: str, addresses: list[str]) -> None:
        """Book and cancel, one slot after the other, until all `end`, or something is refused."""
        base_s = base_now_s()
        async with kalends.connect(addresses, user=user, zone="UTC") as client:
            for number in itertools.count():
                at = base_s + number % 48 * GRAIN_S
                try:
                    view = await client.book(
                        TERMS, at=at, duration=GRAIN_S, key=f"{user}-books-{number}", wait_s=WAIT_S
                    )
                    await client.cancel(view.id, wait_s=WAIT_S)
                except KalendsError as error:
                    self.refused.append(f"{user}: {error}")
                self.made += not self.refused
                async with self._changed:
                    self._changed.notify_all()
                if self.refused or self._is_over:
                    return

    def end(self) -> None:
        self._is_over = True

    async def more(self, count: int) -> None:
        """Return when `count` more were made, or something was refused."""
        enough = self.made + count
        async with self._changed, asyncio.timeout(PATIENCE_S):
            await self._changed.wait_for(lambda: self.refused or self.made >= enough)


@contextlib.asynccontextmanager
async def customers(struck: Struck) -> AsyncIterator[Bookings]:
    """Half of them begin at the first replica, half at the second."""
    bookings = Bookings()
    urls = [struck.lines[CUSTOMERS, name].url for name in BROKERS]
    working = [
        asyncio.create_task(bookings.work(f"user{number}", urls[:: 1 if number % 2 else -1]))
        for number in range(WORKING)
    ]
    try:
        yield bookings
        bookings.end()
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def test_replicas_and_a_site_are_upgraded_one_by_one_and_no_booking_is_refused(
    tmp_path: Path,
) -> None:
    async with struck_servers(tmp_path) as struck:
        async with customers(struck) as bookings:
            serving = await struck.serving()
            twins = sorted((struck.servers[n] for n in TWINS), key=lambda twin: twin is serving)
            # The standby first: then the site moves once.
            for server in (*twins, *struck.brokers):
                await bookings.more(WORKING)
                assert bookings.refused == []
                assert await server.stop() == 0
                server.inside = WORDS
                await server.spawn()
                await server.listening()
                await struck.whole()
            await bookings.more(WORKING)
            assert bookings.refused == []
        assert versions(struck) == {
            "broker": [*range(REGISTER.version + 1)],
            "site0": [*range(SITE.version + 1)],
            "site1": [*range(SITE.version)],
        }
        start_s = base_now_s() - GRAIN_S
        facility = await struck.facility()
        assert await audit(facility, [], start_s=start_s, end_s=start_s + DAY_S) == []


def versions(struck: Struck) -> dict[str, list[int]]:
    with struck.databases.primary.cluster.connect() as session:
        return {
            schema: [
                version
                for (version,) in session.execute(
                    f"select version from {schema}.schema_version order by version".encode()
                )
            ]
            for schema in ("broker", "site0", "site1")
        }
