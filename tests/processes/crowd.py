"""Customers who work beside one another, and who all rest for a while when that is asked for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable

from .auditing import unconfirmed
from .customers import Customer
from .facility import Facility
from .servers import until


async def while_working(customers: list[Customer], striking: Awaitable[None]) -> None:
    """Let `customers` work until `striking` ends, and then end what they are doing."""
    over = asyncio.Event()

    async def work(customer: Customer) -> None:
        while not over.is_set():
            await customer.step()

    async with asyncio.TaskGroup() as tasks:
        for customer in customers:
            tasks.create_task(work(customer))
        await striking
        over.set()


class Crowd:
    """All customers of `facility`; those who are `at_work` begin nothing while it is `quiet`."""

    def __init__(self, facility: Facility, customers: list[Customer]) -> None:
        self.customers = list(customers)
        self._facility = facility
        self._busy = 0
        self._changed = asyncio.Condition()
        self._quiet = False

    async def work_while(self, striking: Awaitable[None]) -> None:
        """Let all work until `striking` ends, and then end what they are doing."""
        over = asyncio.Event()

        async def work(customer: Customer) -> None:
            while not over.is_set():
                async with self.at_work():
                    await customer.step()

        async with asyncio.TaskGroup() as tasks:
            for customer in self.customers:
                tasks.create_task(work(customer))
            await striking
            over.set()

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._quiet)
            self._busy += 1
        try:
            yield
        finally:
            async with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    @contextlib.asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Nobody does anything, and every site has confirmed what customers have."""
        async with self._changed:
            self._quiet = True
            await self._changed.wait_for(lambda: not self._busy)
        try:
            await until(self._confirmed, "all is confirmed")
            yield
        finally:
            async with self._changed:
                self._quiet = False
                self._changed.notify_all()

    async def _confirmed(self) -> bool:
        broker = self._facility.brokers[0]
        return not any([await unconfirmed(broker, customer) for customer in self.customers])
