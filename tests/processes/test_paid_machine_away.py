"""A priced machine that belongs to another host, or whose queue does not work: its jobs stay paid for."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

import kalends
from kalends.core.errors import LimitExceeded, Unavailable
from kalends.core.money import CREDIT

from .laboratory import MACHINE, Laboratory, laboratory
from .servers import until
from .test_machine_disabled import spoil
from .test_other_hosts import WAITS, Hosts

__all__ = ["laboratory"]

PRICED = 'grain = "1s"\n[[site.resources.prices]]\nname = "all"\ncredits = 36\n'
"""A node costs 0.01 credits in a second."""


def price(laboratory: Laboratory) -> None:
    path = laboratory.site.configuration
    path.write_text(path.read_text().replace('grain = "1s"\n', PRICED))


async def account(laboratory: Laboratory) -> tuple[float, float]:
    """The balance of the user, and what of it is reserved, in credits."""
    async with laboratory.client() as client:
        (found,) = await client.credits(own=True)
    return found.balance / CREDIT, found.reserved / CREDIT


async def grant(client: kalends.Client) -> None:
    await client.grant_credits("user:ann", 20 * CREDIT, key="first-grant")


async def test_what_jobs_of_another_host_have_reserved_stays_so_there_and_back(
    laboratory: Laboratory,
) -> None:
    price(laboratory)
    hosts = Hosts(laboratory)
    await laboratory.site.stop()
    for path in laboratory.marks.parent.glob("lab.sqlite*"):
        path.unlink()
    await hosts.start("node1")
    async with laboratory.client() as client:
        await grant(client)
        runs = (await client.submit(laboratory.job(WAITS, limit_s=900, nodes=1))).job.job
        waits = (await client.submit(laboratory.job(WAITS, limit_s=100, nodes=4))).job.job
        await hosts.have_begun(f"{runs}.1")
    assert await account(laboratory) == (20, 9 + 4)
    await hosts.start("node2")
    assert await account(laboratory) == (20, 13)
    await hosts.start("node1")
    assert await account(laboratory) == (20, 13)
    (laboratory.marks / "go").touch()
    async with laboratory.client() as client:
        for number in (runs, waits):
            await laboratory.over(client, number)
    balance, reserved = await account(laboratory)
    assert 0 < balance < 20
    assert not reserved


async def test_a_machine_without_a_queue_keeps_what_its_jobs_have_reserved(
    laboratory: Laboratory,
) -> None:
    await laboratory.site.stop()
    price(laboratory)
    store = laboratory.marks.with_name("lab.sqlite")
    await laboratory.site.start()
    async with laboratory.client() as client:
        await grant(client)
        for nodes in (4, 2, 1):
            await client.submit(laboratory.job(WAITS, limit_s=200, nodes=nodes))
        await client.kill_job(MACHINE, 2)
        with pytest.raises(LimitExceeded, match=r"10\.00 are reserved"):
            await client.submit(laboratory.job("true", limit_s=300, nodes=4))
    assert await account(laboratory) == (20, 8 + 2)
    await laboratory.site.stop()
    number = spoil(store)
    await laboratory.site.start()
    async with laboratory.client() as client:
        with pytest.raises(Unavailable, match="the queue of lab/box does not work"):
            await client.submit(laboratory.job("true"))
    assert await account(laboratory) == (20, 10)
    await laboratory.site.stop()
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute("delete from job_entry where number = ?", (number,))
    await laboratory.site.start()
    assert await account(laboratory) == (20, 10)
    (laboratory.marks / "go").touch()
    async with laboratory.client() as client:
        for job in (1, 3):
            await laboratory.over(client, job)

        async def free() -> bool:
            return not (await client.credits(own=True))[0].reserved

        await until(free, "nothing is reserved any more")
