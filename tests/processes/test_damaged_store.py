"""A store that cannot be trusted is refused at the start: clearly, and without a byte changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE_S

from .auditing import open_access
from .customers import Customer, base_now_s
from .facility import GRAIN_S, Facility, make_facility
from .restores import store_of
from .servers import Server, StartFailed, running, until

pytestmark = pytest.mark.xdist_group("one-at-a-time")

BASE_S = base_now_s()
RESOURCE = "site0/cluster"


def cut_in_half(store: Path) -> None:
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size // 2)


def cut_to_nothing(store: Path) -> None:
    store.write_bytes(b"")


def fill_with_garbage(store: Path) -> None:
    store.write_bytes(random.Random(1).randbytes(store.stat().st_size))


def garble_pages(store: Path) -> None:
    """A whole header, and rubbish behind it."""
    header = store.read_bytes()[:100]
    store.write_bytes(header + random.Random(1).randbytes(store.stat().st_size - 100))


def replace_by_foreign(store: Path) -> None:
    store.unlink()
    with sqlite3.connect(store) as connection:
        connection.execute("create table recipes (cake)")
    connection.close()


DAMAGES = {  # What is done, and what the server and the doctor say.
    "half of it": (cut_in_half, "cut off", "cut off"),
    "nothing": (cut_to_nothing, "it is empty", "the file is empty"),
    "garbage": (fill_with_garbage, "not a SQLite database", "not a store of kalends"),
    "garbled pages": (garble_pages, "damaged", "malformed"),
    "somebody else's": (replace_by_foreign, "not the store of a", "not a store of kalends"),
}


def kalends(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kalends", *map(str, arguments)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip


def fingerprints(directory: Path, server: str = "") -> dict[str, str]:
    """Of the files of all stores, or of `server`'s while others are at work; locks hold no data."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.iterdir()
        if path.name.startswith(server) and ".sqlite" in path.name and path.suffix != ".lock"
    }


def files_of(server: Server) -> dict[Path, bytes]:
    """All that the server keeps on its disk: its store, and what lies beside it."""
    store = store_of(server)
    return {path: path.read_bytes() for path in store.parent.glob(f"{store.name}*")}


def put_back(server: Server, image: dict[Path, bytes]) -> None:
    """Make the disk of a server that is stopped what it was."""
    for path in files_of(server):
        path.unlink()
    for path, content in image.items():
        path.write_bytes(content)


def a_customer(facility: Facility) -> Customer:
    urls = [broker.url for broker in facility.brokers]
    return Customer("ada", urls, facility.resources, BASE_S, random.Random())


def copied(facility: Facility, directory: Path) -> Facility:
    """The same servers with copies of their files: stores are named relative to configurations."""

    def copy_of(server: Server) -> Server:
        return Server(server.name, directory / server.configuration.name, server.url)

    source = facility.servers[0].configuration.parent
    shutil.copytree(source, directory, dirs_exist_ok=True)
    return Facility(*([copy_of(server) for server in group] for group in facility))


@pytest.fixture(scope="module")
def booked(tmp_path_factory: pytest.TempPathFactory) -> Facility:
    """One site and one broker that have been stopped; a reservation is in their stores."""
    facility = make_facility(tmp_path_factory.mktemp("booked"), sites=1, replicas=1)

    async def run_and_book() -> None:
        ada = a_customer(facility)
        async with running(*facility.servers), ada:
            await ada.book_patiently(RESOURCE, 0)
            for server in facility.servers:
                assert await server.stop() == 0

    asyncio.run(run_and_book())
    return facility


@pytest.mark.parametrize("role", ["site", "broker"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_store_is_refused_and_left_as_it_is(
    tmp_path: Path, booked: Facility, role: str, damage: str
) -> None:
    facility = copied(booked, tmp_path)
    (server,) = facility.sites if role == "site" else facility.brokers
    store = store_of(server)
    do_damage, message, finding = DAMAGES[damage]
    do_damage(store)
    before = fingerprints(tmp_path)
    with pytest.raises(StartFailed) as refused:
        await server.start()
    assert refused.value.code == 1
    assert message in refused.value.errors
    assert str(store) in refused.value.errors
    assert "Traceback" not in refused.value.errors
    assert fingerprints(tmp_path) == before
    report = kalends("admin", "doctor", store)
    assert report.returncode == 1
    assert finding in report.stdout
    assert fingerprints(tmp_path) == before


async def test_a_backup_that_is_put_back_is_accepted_compared_and_made_good_by_one_command(
    tmp_path: Path, booked: Facility
) -> None:
    facility = copied(booked, tmp_path)
    (site,) = facility.sites
    ada = a_customer(facility)
    backup = tmp_path / "backup-of-the-site"
    async with running(*facility.servers), ada:
        cancelled = await ada.book_patiently(RESOURCE, 1)
        made = await asyncio.to_thread(kalends, "admin", "backup", store_of(site), backup)
        assert made.returncode == 0, made.stderr
        await ada.book_patiently(RESOURCE, 2)
        await ada.cancel(cancelled)
        whole = await asyncio.to_thread(kalends, "admin", "doctor", store_of(site))
        assert (whole.returncode, "is sound" in whole.stdout) == (0, True), whole.stdout
        in_use = await asyncio.to_thread(kalends, "admin", "reconcile", store_of(site))
        assert in_use.returncode == 1
        assert "open" in in_use.stderr
        assert await site.stop() == 0

        shutil.copyfile(backup, store_of(site))
        before = fingerprints(tmp_path, site.name)
        with pytest.raises(StartFailed) as refused:
            await site.start()
        assert refused.value.code == 1
        assert "backup" in refused.value.errors
        assert "kalends admin reconcile" in refused.value.errors
        assert fingerprints(tmp_path, site.name) == before
        doctor = kalends("admin", "doctor", store_of(site))
        assert (doctor.returncode, "backup" in doctor.stdout) == (1, True)

        reconciled = await asyncio.to_thread(kalends, "admin", "reconcile", store_of(site))
        assert reconciled.returncode == 0, reconciled.stderr
        await site.start()
        (broker,) = facility.brokers
        compare = ("--broker", broker.url, "--user", "olga", "admin", "reconcile")
        audit = ("--broker", broker.url, "--user", "olga", "admin", "audit")

        async def compared() -> bool:
            return not (await asyncio.to_thread(kalends, *compare)).returncode

        await until(compared, "broker and site agree")
        for server, event in ((site, "broker_compared"), (broker, "site_compared")):
            lines = [line for line in server.log().splitlines() if event in line]
            told = [json.loads(line) for line in lines]
            restored = [(each["locked_again"], each["freed"]) for each in told]
            assert restored[0] == (1, 1), restored
        async with open_access(site, "auditor") as client:
            audited = await client.audit()
        locked = [claim.start for claim in audited.claims if claim.state == "locked"]
        slots = sorted((start - BASE_S) // GRAIN_S for start in locked)
        assert slots == [0, 2], "what was booked since is locked again, what was cancelled is free"
        await ada.book_patiently(RESOURCE, 1)
        audited = await asyncio.to_thread(kalends, *audit)
        assert "not reached" not in audited.stdout, audited.stdout
        assert " at site0" not in audited.stdout, "broker and site agree"


async def test_a_register_whose_whole_disk_was_put_back_is_reminded_by_its_sites(
    tmp_path: Path, booked: Facility
) -> None:
    """As with a snapshot of a virtual machine: no file tells that it is older, and nobody says so."""
    facility = copied(booked, tmp_path)
    (broker,) = facility.brokers
    ada = a_customer(facility)
    image = files_of(broker)
    async with running(*facility.servers), ada:
        cancelled = await ada.book_patiently(RESOURCE, 1)
        kept = await ada.book_patiently(RESOURCE, 2)
        await ada.cancel(cancelled)
        await broker.kill()
        put_back(broker, image)
        await broker.start()
        await ada.book_patiently(RESOURCE, 1)
        async with open_access(broker, "ada") as client:
            assert (await client.show(kept)).state == "reserved"
            assert "restored" not in (await client.health()).detail


async def test_a_store_put_back_by_hand_is_refused_as_an_old_copy_of_itself(
    tmp_path: Path, booked: Facility
) -> None:
    facility = copied(booked, tmp_path)
    (site,) = facility.sites
    old = store_of(site).read_bytes()
    async with running(site):
        assert await site.stop() == 0
    store_of(site).write_bytes(old)
    before = fingerprints(tmp_path)
    with pytest.raises(StartFailed) as refused:
        await site.start()
    assert refused.value.code == 1
    assert "old copy" in refused.value.errors
    assert fingerprints(tmp_path) == before


async def test_a_store_that_is_gone_is_not_silently_begun_anew(
    tmp_path: Path, booked: Facility
) -> None:
    facility = copied(booked, tmp_path)
    for server in facility.servers:
        store_of(server).unlink()
        with pytest.raises(StartFailed) as refused:
            await server.start()
        assert refused.value.code == 1
        assert "it is gone" in refused.value.errors
        assert not store_of(server).exists()
