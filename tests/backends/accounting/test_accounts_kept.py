"""Accounts of batch systems that are read again, or away, and slots whose ids have changed."""

from __future__ import annotations

import pytest

from kalends.backends.adapter import SystemRefused
from kalends.backends.records import ListFinishedJobs
from tests.backends.accounting.conftest import NEEDS_ACCOUNTING
from tests.backends.accounting.test_used_time import cli, rows, run_and_end, told, used
from tests.backends.conformance.owners import Owners
from tests.backends.conformance.system_at_hand import until
from tests.backends.simulated_at_hand import SimulatedAtHand
from tests.backends.slurm_at_hand import SlurmAtHand

pytestmark = pytest.mark.xdist_group("batch-jobs")


@pytest.mark.parametrize("system", ["simulated"], indirect=True)
async def test_a_slot_that_is_over_is_counted_once_however_often_the_site_begins_anew(
    facility: Owners,
) -> None:
    async with facility.client() as ann:
        start = ann.time_s("now") + 2
        await ann.book("centre/cluster:2", at=start, duration="4s")

        async def over() -> bool:
            return ann.time_s("now") > start + 4 and not await facility.ours()

        await until(over, "the slot does not end")
    before = await rows(facility)
    assert [each.reserved for each in before] == [8]
    for _ in range(2):
        await facility.stop_server("centre")
        await facility.start_server("centre")
        assert await rows(facility) == before
    assert await facility.ours() == []


@pytest.mark.parametrize("system", ["simulated", "careless"], indirect=True)
async def test_a_slot_is_told_by_the_id_that_its_user_knows_whatever_was_changed(
    facility: Owners,
) -> None:
    async with facility.client() as ann:
        start = ann.time_s("now") + 3_600
        booked = await ann.book("centre/cluster:2", at=start, duration="20m")

        async def told_as(begin: int, end: int) -> bool:
            return [(each.reservation, each.start, each.end) for each in await rows(facility)] == [
                (booked.id, begin, end)
            ]

        async def is_told_as(begin: int, end: int) -> None:
            await until(lambda: told_as(begin, end), "its slot is called otherwise")

        assert (await ann.extend(booked.id, by="10m")).id == booked.id
        await is_told_as(start, start + 1_800)
        await ann.move(booked.id, start + 7_200)
        await is_told_as(start + 7_200, start + 9_000)
        await facility.stop_server("centre")
        await facility.start_server("centre")
        await ann.move(booked.id, start + 14_400)
        await ann.shrink(booked.id, by="10m")
        await is_told_as(start + 14_400, start + 15_600)
    assert booked.id[-8:] in await cli(facility, "--each")


@pytest.mark.parametrize(
    "system", ["simulated", pytest.param("slurm", marks=NEEDS_ACCOUNTING)], indirect=True
)
async def test_while_there_is_no_accounting_it_is_said_and_afterwards_nothing_is_missing(
    facility: Owners,
) -> None:
    system = facility.system
    assert isinstance(system, SimulatedAtHand | SlurmAtHand)
    async with facility.client() as ann:
        await ann.book("centre/cluster:2", at=ann.time_s("now") + 3, duration="20m")
    (ours,) = await facility.ours()
    await system.accounts(kept=False)
    try:
        await run_and_end(facility, ours.name, ours.nodes)

        async def said() -> bool:
            return (await used(facility)).problem != ""

        await until(said, "it is not said that there is no accounting")
        assert (await used(facility)).users[0].jobs == 0
    finally:
        await system.accounts(kept=True)
    assert (await told(facility, 1)).problem == ""


@pytest.mark.needs_slurm
async def test_a_slurm_without_accounting_says_so(slurm: SlurmAtHand) -> None:
    now = (await slurm.adapter.state()).clock_s
    with pytest.raises(SystemRefused, match="disabled"):
        await slurm.adapter.finished_jobs(ListFinishedJobs(now - 60, now, (slurm.user,)))


@pytest.mark.parametrize("system", [pytest.param("slurm", marks=NEEDS_ACCOUNTING)], indirect=True)
async def test_a_user_who_is_gone_does_not_hide_what_others_used(facility: Owners) -> None:
    async with facility.client() as ann:
        await ann.book("centre/cluster:2", at=ann.time_s("now") + 3, duration="20m")
    (ours,) = await facility.ours()
    await run_and_end(facility, ours.name, ours.nodes)
    now = (await facility.system.adapter.state()).clock_s
    asked = ListFinishedJobs(now - 60, now + 60, ("nobody-here", facility.system.user))

    async def listed() -> bool:
        jobs = await facility.system.adapter.finished_jobs(asked)
        return [each.reservation for each in jobs if each.reservation == ours.name] != []

    await until(listed, "it is not listed")
