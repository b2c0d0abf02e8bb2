"""Strangers that open connections and say nothing: customers are served, and the log stays short."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from .customers import Customer, base_now_s
from .facility import Facility, connected, make_facility
from .servers import Server, running

DESCRIPTORS = 192
STRANGERS = 400
LOG_LINES_MAX = 30


@pytest.fixture
async def facility(tmp_path: Path) -> AsyncIterator[Facility]:
    """Both servers may open `DESCRIPTORS` files and not raise that."""
    facility = make_facility(tmp_path, sites=1, replicas=1)
    few = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    for server in facility.servers:
        server.inside = few
    async with running(*facility.servers):
        await connected(facility)
        yield facility


async def crowd(server: Server, stack: contextlib.AsyncExitStack) -> None:
    """Open as many connections as the kernel lets us, and send nothing."""
    address = urlsplit(server.url)
    for _ in range(STRANGERS):
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                _, writer = await asyncio.open_connection(address.hostname, address.port)
            stack.callback(writer.close)


async def test_idle_strangers_keep_no_customer_out(facility: Facility) -> None:
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    async with (
        contextlib.AsyncExitStack() as stack,
        Customer("ann", urls, facility.resources, base_s, random.Random(1)) as ann,
    ):
        await ann.book_patiently("site0/cluster", 0)
        for server in facility.servers:
            await crowd(server, stack)
        await ann.book_patiently("site0/cluster", 1)
        async with Customer("bob", urls, facility.resources, base_s, random.Random(2)) as bob:
            await bob.book_patiently("site0/cluster", 2)
        for site in facility.sites:
            await site.kill()
            await site.start()
        await connected(facility)
        await ann.book_patiently("site0/cluster", 3)
    for server in facility.servers:
        lines = server.log().splitlines()
        assert len(lines) <= LOG_LINES_MAX, lines[-3:]
        assert "Too many open files" not in server.log()
