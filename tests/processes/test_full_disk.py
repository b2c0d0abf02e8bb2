"""A full disk: the server says so, loses and half-applies nothing, and goes on when there is room."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import kalends
from kalends.core.errors import OutcomeUnknown, Unavailable

from .auditing import audit
from .customers import DAY_S, Customer, base_now_s
from .facility import Facility, make_facility
from .kill_loop import while_working
from .servers import Server, health, running, until

pytestmark = pytest.mark.needs_root

DISK_BYTES = 1024 * 1024
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


def fill(disk: Path) -> Path:
    """Take all the room that is left; removing the file gives it back."""
    filling = disk / "filling"
    with contextlib.suppress(OSError), filling.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return filling


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
            filling = fill(disk)
            await is_failing(facility.sites[0])
            async with bob_at(facility) as bob:
                with pytest.raises(Unavailable) as refused:
                    await bob.book("site0/cluster + site1/cluster", at=base_s, duration="10m")
                assert "site0" in refused.value.refusals[0].where
                alone = await bob.book("site1/cluster", at=base_s, duration="10m")
                assert (await bob.cancel(alone.id)).state == "cancelled"
            filling.unlink()
            await facility.sites[0].healthy()

        await while_working([ada], fill_and_free())
        await nothing_is_lost(facility, ada, base_s)


async def test_a_broker_with_a_full_disk_decides_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path, disk: Path
) -> None:
    async with working(tmp_path, {"broker": disk / "broker.sqlite"}) as (facility, ada, base_s):

        async def fill_and_free() -> None:
            filling = fill(disk)
            await is_failing(facility.brokers[0])
            async with bob_at(facility) as bob:
                with pytest.raises((Unavailable, OutcomeUnknown)):
                    await bob.book("site0/cluster", at=base_s, duration="10m", wait_s=1)
            filling.unlink()
            await facility.brokers[0].healthy()

        await while_working([ada], fill_and_free())
        await nothing_is_lost(facility, ada, base_s)


def bob_at(facility: Facility) -> kalends.Client:
    return kalends.connect(facility.brokers[0].url, user="bob", zone="UTC", timeout_s=3.0)


async def is_failing(server: Server) -> None:
    """Return once the server says itself that it cannot work."""

    async def failing() -> bool:
        return await health(server.url) == "failing"

    await until(failing, f"{server.name} is failing", within_s=30, explain=server.log)


async def nothing_is_lost(facility: Facility, ada: Customer, base_s: int) -> None:
    await ada.settle_everything()
    await ada.book_patiently("site0/cluster + site1/cluster", 47)
    violations = await audit(
        facility, [ada], capacity=CAPACITY, start_s=base_s, end_s=base_s + DAY_S
    )
    assert violations == []
    assert ada.counts["booked"] > BOOKED_BEFORE
