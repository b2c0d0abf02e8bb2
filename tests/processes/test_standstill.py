"""A replica that stands still at a random moment: the other one goes on, or says at once why it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import kalends
from kalends.client.transports.retry import Backoff

from .customers import base_now_s
from .facility import GRAIN_S, connected, make_facility
from .servers import Server, running

STOPS = 8
CUSTOMERS = 6
WAIT_S = 60.0
"""Nobody waits so long: whoever stands still goes on only when the other has answered."""

ONCE = Backoff(tries_max=1)


@asynccontextmanager
async def busy(server: Server, base_s: int) -> AsyncIterator[None]:
    """Customers book at `server` as fast as they can."""

    async def books(number: int) -> None:
        async with kalends.connect(
            server.url, user=f"u{number}", zone="UTC", backoff=ONCE
        ) as client:
            for slot in range(100_000):
                with contextlib.suppress(kalends.KalendsError):
                    at = base_s + GRAIN_S * (10 + (slot * CUSTOMERS + number) % 10_000)
                    view = await client.book("site0/cluster", duration=GRAIN_S, at=at, wait_s=2)
                    await client.cancel(view.id, wait_s=2)

    tasks = [asyncio.create_task(books(number)) for number in range(CUSTOMERS)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_replica_that_stands_still_at_any_moment_keeps_no_other_from_answering(
    tmp_path: Path,
) -> None:
    facility = make_facility(tmp_path, sites=1)
    still, other = facility.brokers
    base_s = base_now_s()
    async with running(*facility.servers):
        await connected(facility)
        async with (
            busy(still, base_s),
            kalends.connect(other.url, user="ada", zone="UTC", backoff=ONCE) as ada,
        ):
            for slot in range(STOPS):
                # The moment is left to chance: it shall hit anything that can be going on.
                await asyncio.sleep(random.uniform(0.2, 0.6))
                os.kill(still.pid, signal.SIGSTOP)
                try:
                    at = base_s + GRAIN_S * slot
                    with contextlib.suppress(kalends.Unavailable, kalends.OutcomeUnknown):
                        view = await ada.book(
                            "site0/cluster", duration=GRAIN_S, at=at, wait_s=WAIT_S
                        )
                        assert view.state == "reserved"
                finally:
                    os.kill(still.pid, signal.SIGCONT)
        assert "begins_anew" not in other.log()
        async with kalends.connect(other.url, user="bob", zone="UTC") as bob:
            view = await bob.book("site0/cluster", duration=GRAIN_S, at=base_s + GRAIN_S * STOPS)
            assert view.state == "reserved"
