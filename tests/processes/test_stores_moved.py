"""A broker and a site whose stores go to databases and back while customers want to go on booking."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from postgres_clusters import Cluster

import kalends

from .customers import base_now_s
from .facility import CAPACITY, GRAIN_S, RESOURCE, Facility, connected, make_facility
from .load import faults, load
from .servers import Server, StartFailed, running

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

WHOLE = f"site0/{RESOURCE}:{CAPACITY} + site1/{RESOURCE}:{CAPACITY}"


async def moved(source: str, target: str) -> None:
    """Run the command as an operator does."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", "admin", "move-store", source, target,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


class Places:
    """The two places of the store of a server."""

    def __init__(self, server: Server, cluster: Cluster, name: str) -> None:
        self.server = server
        self.file = str(server.configuration.with_name(f"{name}.sqlite"))
        with cluster.connect() as session:
            session.execute(f"create database {name}".encode())
        self.url = cluster.url(name)

    async def to_database(self) -> None:
        await moved(self.file, self.url)
        self._name(Path(self.file).name, self.url)

    async def to_file(self) -> None:
        await moved(self.url, self.file)
        self._name(self.url, Path(self.file).name)

    def _name(self, old: str, new: str) -> None:
        configuration = self.server.configuration
        text = configuration.read_text()
        assert f'store = "{old}"' in text
        configuration.write_text(text.replace(f'store = "{old}"', f'store = "{new}"'))


async def stopped(facility: Facility) -> None:
    for server in facility.servers:
        assert await server.stop() == 0


async def started(facility: Facility) -> None:
    for server in facility.servers:
        await server.start()
    await connected(facility)


async def test_bookings_go_on_after_the_stores_have_gone_to_databases_and_back(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = make_facility(tmp_path, sites=2, replicas=1)
    places = [
        Places(facility.brokers[0], alone, "broker"),
        Places(facility.sites[0], alone, "site0"),
    ]
    async with running(*facility.servers):
        await connected(facility)
        async with load(facility) as at_work:
            await at_work.more(2)
            await stopped(facility)
            for each in places:
                await each.to_database()
            await started(facility)
            await at_work.more(2)
            await stopped(facility)
            for each in places:
                await each.to_file()
            await started(facility)
            await at_work.more(2)
        assert await faults(facility, at_work) == []


async def test_what_was_booked_before_a_move_is_listed_kept_from_others_and_cancelled_after_it(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = make_facility(tmp_path, sites=2, replicas=1)
    (broker,) = facility.brokers
    places = [Places(broker, alone, "broker"), Places(facility.sites[0], alone, "site0")]
    at = base_now_s()
    async with running(*facility.servers):
        await connected(facility)
        async with kalends.connect(broker.url, user="ada", zone="UTC") as ada:
            booked = [
                await ada.book(WHOLE, duration=GRAIN_S, at=at + number * GRAIN_S)
                for number in range(3)
            ]
        await stopped(facility)
        for each in places:
            old = each.server.configuration.read_text()
            await each.to_database()
            new = each.server.configuration.read_text()
            each.server.configuration.write_text(old)
            with pytest.raises(StartFailed, match="the store was moved to postgresql://"):
                await each.server.start()
            each.server.configuration.write_text(new)
        await started(facility)
        async with kalends.connect(broker.url, user="ada", zone="UTC") as ada:
            listed = {each.id: each.state for each in await ada.list()}
            assert listed == {each.id: "reserved" for each in booked}
            with pytest.raises(kalends.KalendsError):
                await ada.book(WHOLE, duration=GRAIN_S, at=at)
            assert (await ada.cancel(booked[0].id)).state == "cancelled"
            await ada.book(WHOLE, duration=GRAIN_S, at=at)
        await stopped(facility)
        for each in places:
            await each.to_file()
        await started(facility)
        async with kalends.connect(broker.url, user="ada", zone="UTC") as ada:
            assert (await ada.show(booked[0].id)).state == "cancelled"
            assert (await ada.cancel(booked[1].id)).state == "cancelled"
            with pytest.raises(kalends.KalendsError):
                await ada.book(WHOLE, duration=GRAIN_S, at=at)
