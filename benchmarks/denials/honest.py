"""An honest user, who looks, searches and books while others do what they please."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import kalends
from benchmarks.visits.figures import Spread, spread
from kalends.core.errors import KalendsError

USER: Final = "honest"
PAUSE_S: Final = 0.02
CALL_S_MAX: Final = 40.0

Call = Callable[[kalends.Client], Awaitable[Any]]


class Measured:
    """How long the calls of one phase took, by their names, and how those ended that failed."""

    def __init__(self) -> None:
        self.times_ms: dict[str, list[float]] = {}
        self.failed: Counter[str] = Counter()

    def spreads(self) -> dict[str, Spread]:
        return {name: spread(times) for name, times in self.times_ms.items()}

    async def time(self, name: str, url: str, call: Call) -> None:
        """Make one call as a client that has just come; what fails has taken its time, too."""
        began_s = time.perf_counter()
        try:
            async with asyncio.timeout(CALL_S_MAX):
                async with kalends.connect(url, user=USER, zone="UTC", timeout_s=20) as client:
                    await call(client)
        except (KalendsError, OSError, TimeoutError) as error:
            self.failed[f"{name}: {type(error).__name__}"] += 1
        self.times_ms.setdefault(name, []).append((time.perf_counter() - began_s) * 1e3)


async def probe(url: str, resource: str, seconds: float) -> Measured:
    """Call `resources`, `find` and `book` in turn for `seconds`."""
    measured = Measured()
    until_s = time.perf_counter() + seconds

    async def find(client: kalends.Client) -> None:
        await client.find(f"{resource}:1", duration="1h", window=("now+1h", "now+3d"))

    async def book(client: kalends.Client) -> None:
        view = await client.book(f"{resource}:1", duration="1m", window=("now+1h", "now+3d"))
        await client.cancel(view.id)

    calls: dict[str, Call] = {
        "resources": lambda client: client.resources(), "find": find, "book": book,
    }  # fmt: skip
    while time.perf_counter() < until_s:
        for name, call in calls.items():
            await measured.time(name, url, call)
            await asyncio.sleep(PAUSE_S)
    return measured
