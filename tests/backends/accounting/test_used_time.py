"""What jobs of a batch system used in reservations of ours, beside what was reserved."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from kalends.backends.records import FinishedJob, ListFinishedJobs
from kalends.contract.history_calls import SlotRow, SlotsUsed
from tests.backends.conformance.owners import CLUSTER, Owners
from tests.backends.conformance.system_at_hand import time_passes, until

pytestmark = pytest.mark.xdist_group("batch-jobs")


async def run_and_end(facility: Owners, slot: str, nodes: tuple[str, ...]) -> None:
    """Run a job in a slot, and end it."""
    system = facility.system
    await system.run(nodes, system.job_s_min, reservation=slot)
    await time_passes(
        system.adapter, 1
    )  # Jobs are counted in seconds: one that has none says little.
    await system.adapter.end_jobs(slot, at_once=True)

    async def gone() -> bool:
        return not any(each.reservation == slot for each in (await system.adapter.state()).jobs)

    await until(gone, "the job does not end")


async def used(facility: Owners, user: str = "ann", *, everyone: bool = False) -> SlotsUsed:
    async with facility.client(user, "centre") as client:
        now = client.time_s("now")
        view = await client.job_usage(CLUSTER, start=0, end=now + 86_400, everyone=everyone)
    assert view.slots is not None
    return view.slots


async def rows(facility: Owners, *, everyone: bool = False, count: int = 10) -> list[SlotRow]:
    """Return all rows, page by page."""
    async with facility.client("ann", "centre") as client:
        end, found, page = client.time_s("now") + 86_400, [], None
        while page is None or page.more:
            page = await client.slots(
                CLUSTER, start=0, end=end, everyone=everyone, count=count, after=page
            )
            found += page.rows
    return found


async def told(facility: Owners, jobs: int, user: str = "ann") -> SlotsUsed:
    """Return what is told once it is of so many jobs."""

    async def counted() -> bool:
        return sum(each.jobs for each in (await used(facility, user)).users) == jobs

    await until(counted, f"{jobs} jobs are not counted")
    return await used(facility, user)


async def in_accounts(facility: Owners) -> list[FinishedJob]:
    """Return the jobs that the system itself tells of our users."""
    now = (await facility.system.adapter.state()).clock_s
    users = (facility.system.user, facility.system.other_user)
    asked = ListFinishedJobs(now - 3_600, now + 60, users)
    return list(await facility.system.adapter.finished_jobs(asked))


async def cli(facility: Owners, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", "usage", CLUSTER, "--to", "now+1d", *words,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "KALENDS_BROKER": facility.url("broker"), "KALENDS_USER": "ann",
             "KALENDS_ZONE": "UTC"},
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_what_jobs_used_is_told_beside_what_was_reserved_and_given_back(
    facility: Owners,
) -> None:
    async with facility.client() as ann:
        start = ann.time_s("now") + 3
        booked = await ann.book("centre/cluster:2", at=start, duration="20m")
        (ours,) = await facility.ours()
        strangers = await facility.system.run(
            [node for node in facility.system.nodes if node not in ours.nodes][:1], 60
        )
        # Submitted before the slot begins: so it begins in the same second.
        await run_and_end(facility, ours.name, ours.nodes)
        told_first = await told(facility, 1)
        await ann.cancel(booked.id)

    async def ended() -> bool:
        (row,) = await rows(facility)
        return row.end < start + 1_200

    await until(ended, "what was given back is still reserved")
    (row,) = await rows(facility)
    assert (row.name, row.reservation, row.user, row.account) == (
        ours.name, booked.id, "ann", facility.system.user,
    )  # fmt: skip
    assert (row.start, row.nodes, row.reserved) == (start, 2, 2 * (row.end - start))
    assert 0 < row.used == told_first.users[0].used
    accounts = await in_accounts(facility)
    assert any(row.used == each.node_seconds == 2 * (each.end - each.start) for each in accounts), (
        strangers
    )
    assert (await used(facility, "bob")).users == ()
    assert [each.user for each in (await used(facility, everyone=True)).users] == ["ann"]


async def test_jobs_count_once_in_their_own_slot_however_often_they_are_read(
    facility: Owners,
) -> None:
    async with facility.client() as ann, facility.client("bob") as bob:
        start = ann.time_s("now") + 3
        await ann.book("centre/cluster:2", at=start, duration="20m")
        (first,) = await facility.ours()
        await ann.book("centre/cluster:1", at=start, duration="20m")
        (second,) = [each for each in await facility.ours() if each != first]
        await bob.book("centre/cluster:1", at=start + 3_600, duration="20m")
    await run_and_end(facility, first.name, first.nodes)
    await run_and_end(facility, first.name, first.nodes[:1])
    await run_and_end(facility, second.name, second.nodes)
    before = await told(facility, 3)
    by_slot = {each.name: (each.jobs, each.used) for each in await rows(facility, count=1)}
    assert by_slot[first.name][0] == 2
    assert by_slot[second.name][0] == 1
    assert sum(used for _, used in by_slot.values()) == before.users[0].used
    assert sum(each.used for each in before.projects) == before.users[0].used
    assert len(await rows(facility, everyone=True)) == 3

    await facility.stop_server("centre")
    listed = len(facility.adapter.listed)
    await facility.start_server("centre")

    async def read_again() -> bool:
        return len(facility.adapter.listed) > listed + 2

    await until(read_again, "the accounts are not read again")
    assert (await used(facility)).users == before.users
    assert {e.name: (e.jobs, e.used) for e in await rows(facility)} == by_slot

    text = await cli(facility)
    assert "RESERVATIONS  RESERVED  JOBS  USED  UNUSED" in text
    assert "with the jobs of machine that ended before" in text
    assert first.name in await cli(facility, "--each")
    table = await cli(facility, "--each", "--csv", "-")
    assert [line.split(",")[1] for line in table.splitlines()[1:]] == [
        each.name for each in await rows(facility)
    ]
    assert f'"name": "{second.name}"' in await cli(facility, "--each", "--json")
