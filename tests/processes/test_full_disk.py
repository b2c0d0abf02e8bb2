"""A full disk: the server says so, loses and half-applies nothing, and goes on when there is room."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from io import FileIO
from pathlib import Path

import pytest

import kalends
from kalends.core.errors import Unavailable

from .auditing import audit
from .crowd import while_working
from .customers import DAY_S, Customer, base_now_s
from .facility import Facility, make_facility
from .servers import LOOK_EVERY_S, Server, health, running, until

pytestmark = [pytest.mark.needs_root, pytest.mark.xdist_group("one-at-a-time")]

DISK_BYTES = 64 * 1024 * 1024
"""Room for a log at its longest: once it is free again, the disk must not fill by work alone."""

BOOKED_BEFORE = 3
CAPACITY = 1000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory and small."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "kalends-test", place], check=True
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@contextlib.asynccontextmanager
async def kept_full(disk: Path) -> AsyncIterator[None]:
    """Take all the room, and what a server that opens its store again gives back; free it at the end."""
    filling = disk / "filling"

    async def refill(file: FileIO) -> None:
        while True:
            with contextlib.suppress(OSError):
                while file.write(bytes(64 * 1024)):
                    pass
            await asyncio.sleep(LOOK_EVERY_S)

    with FileIO(filling, "w") as file:
        refilling = asyncio.create_task(refill(file))
        try:
            yield
        finally:
            refilling.cancel()
            filling.unlink()


@contextlib.asynccontextmanager
async def working(
    directory: Path, stores: dict[str, Path]
) -> AsyncIterator[tuple[Facility, Customer, int]]:
    """Two sites and a broker with a customer who has some reservations already."""
    facility = make_facility(directory, sites=2, replicas=1, capacity=CAPACITY, stores=stores)
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    ada = Customer("ada", urls, facility.resources, base_s, random.Random(1))
    async with running(*facility.servers), ada:
        for number in range(BOOKED_BEFORE):
            await ada.book_patiently("site0/cluster + site1/cluster", number)
        yield facility, ada, base_s


async def test_a_site_with_a_full_disk_promises_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, disk: Path
) -> None:
    async with working(tmp_path, {"site0": disk / "site0.sqlite"}) as (facility, ada, base_s):

        async def fill_and_free() -> None:
            async with kept_full(disk):
                await is_failing(facility.sites[0])
                async with bob_at(facility) as bob:
                    refused = await refusal(bob, "site0/cluster + site1/cluster", base_s)
                    assert "site0" in refused.refusals[0].where
                    alone = await bob.book("site1/cluster", at=base_s, duration="10m")
                    assert (await bob.cancel(alone.id)).state == "cancelled"
            await facility.sites[0].healthy()

        await while_working([ada], fill_and_free())
        await nothing_is_lost(facility, [ada], base_s)
        told = [line for line in facility.sites[0].log().splitlines() if "store_failed" in line]
        assert told
        assert len(told) == len({detail_of(line) for line in told}), "each failure is told once"


async def test_a_broker_with_a_full_disk_decides_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, disk: Path
) -> None:
    async with working(tmp_path, {"broker": disk / "broker.sqlite"}) as (facility, ada, base_s):
        urls = [broker.url for broker in facility.brokers]
        bob = Customer("bob", urls, facility.resources, base_s, random.Random(2))

        async def not_decided() -> bool:
            return bool(bob.counts["unavailable"] or bob.counts["unknown outcomes"])

        async def fill_and_free() -> None:
            async with asyncio.TaskGroup() as tasks:
                async with kept_full(disk):
                    await is_failing(facility.brokers[0])
                    tasks.create_task(book_until(bob, not_decided))
                    await until(not_decided, "bob is not served")
                # With room again bob's outcome, if it is unknown, settles itself.
                await facility.brokers[0].healthy()

        async with bob:
            await while_working([ada], fill_and_free())
            await nothing_is_lost(facility, [ada, bob], base_s)


def detail_of(line: str) -> str:
    detail: str = json.loads(line)["detail"]
    return detail


async def book_until(customer: Customer, enough: Callable[[], Awaitable[bool]]) -> None:
    while not await enough():
        await customer.book("site0/cluster", at=customer.base_s, wait_s=1)


async def refusal(client: kalends.Client, terms: str, at: int) -> Unavailable:
    """The refusal of the first booking that finds the disk full.

    Opening a store again puts its log into the database and so makes a little room: until that is
    taken, too, a booking may rightly succeed, and is given back.
    """

    async def attempt() -> Unavailable | None:
        try:
            booked = await client.book(terms, at=at, duration="10m", patience="none")
        except Unavailable as error:
            return error if error.refusals else None
        assert (await client.cancel(booked.id)).state == "cancelled"
        return None

    found = await until(attempt, "a booking is refused")
    assert found is not None
    return found


def bob_at(facility: Facility) -> kalends.Client:
    return kalends.connect(facility.brokers[0].url, user="bob", zone="UTC", timeout_s=20.0)


async def is_failing(server: Server) -> None:
    """Return once the server says itself that it cannot work."""

    async def failing() -> bool:
        return await health(server.url) == "failing"

    await until(failing, f"{server.name} is failing", explain=server.log)


async def nothing_is_lost(facility: Facility, customers: list[Customer], base_s: int) -> None:
    for customer in customers:
        await customer.settle_everything()
    ada = customers[0]
    await ada.book_patiently("site0/cluster + site1/cluster", 47)
    violations = await audit(
        facility, customers, capacity=CAPACITY, start_s=base_s, end_s=base_s + DAY_S
    )
    assert violations == []
    assert ada.counts["booked"] > BOOKED_BEFORE
