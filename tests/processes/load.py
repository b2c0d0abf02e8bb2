"""Customers at work at all brokers of a facility, while a test breaks something, and what they were told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from .auditing import audit
from .customers import STARTS, Customer, base_now_s
from .facility import GRAIN_S, Facility

CUSTOMERS: Final = 4


class Load:
    """Customers at work at all replicas."""

    def __init__(
        self, customers: list[Customer], working: list[asyncio.Task[None]], base_s: int
    ) -> None:
        self.customers = customers
        self._working = working
        self.base_s = base_s

    async def more(self, count: int) -> None:
        """Return when some customer has got `count` more bookings."""
        waiting = [asyncio.create_task(each.booked_again(count)) for each in self.customers]
        await asyncio.wait([*waiting, *self._working], return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        for task in self._working:
            if task.done():
                # A customer that has met what it does not know books no more.
                task.result()


@asynccontextmanager
async def load(facility: Facility) -> AsyncIterator[Load]:
    """Customers book, change and cancel until the block ends; what they were told is audited then."""
    chance, base_s = random.Random(7), base_now_s()
    urls = [broker.url for broker in facility.brokers]
    customers = [
        Customer(f"user{n}", urls, facility.resources, base_s, chance) for n in range(CUSTOMERS)
    ]
    stopping = asyncio.Event()

    async def work(customer: Customer) -> None:
        async with customer:
            while not stopping.is_set():
                await customer.step()
            await customer.settle_everything()

    working = [asyncio.create_task(work(each)) for each in customers]
    try:
        yield Load(customers, working, base_s)
        stopping.set()
        await asyncio.gather(*working)
    finally:
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


async def faults(facility: Facility, at_work: Load) -> list[str]:
    end_s = at_work.base_s + (STARTS + 8) * GRAIN_S
    return await audit(facility, at_work.customers, start_s=at_work.base_s, end_s=end_s)
