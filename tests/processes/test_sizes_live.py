"""Malleable jobs on a real site: they grow and shrink as the queue decides, whatever dies meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from benchmarks.size_policies import python_for_jobs

import kalends
from kalends.contract.job_calls import JobView

from . import malleable_programs, ranks_by_hand
from .laboratory import MACHINE, UNIX_USER, USER, Laboratory, laboratories
from .servers import is_true, until

LIVE = 'policy = "reconfigurable"\nchange_max = "1h"'


class SizeRoom:
    """A site of four nodes under one policy, and the folder of one malleable program there."""

    def __init__(self, laboratory: Laboratory, client: kalends.Client) -> None:
        self.laboratory, self.client = laboratory, client
        self.folder = laboratory.marks / "program"
        self.folder.mkdir()
        if UNIX_USER:
            shutil.chown(self.folder, UNIX_USER)
        self.by_hand = self.copied(ranks_by_hand.__file__)

    def copied(self, program: str) -> str:
        """Copy a program to where the jobs' user can read it."""
        path = shutil.copy(program, self.laboratory.marks)
        Path(path).chmod(0o644)
        return path

    def set(self, name: str, text: str = "") -> None:
        beside = self.folder / f".{name}"
        beside.write_text(text)
        beside.chmod(0o666)
        beside.rename(self.folder / name)

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    @property
    def sizes(self) -> list[int]:
        return list(map(int, self.lines("sizes")))

    async def start(self, **more: object) -> int:
        """Submit the program by hand; return its number."""
        fields = {"nodes": 1, "sizes": (1, 2, 4), "malleable": True, "limit_s": 600, **more}
        text = f"exec python3 {self.by_hand} {self.folder}"
        return (await self.client.submit(self.laboratory.job(text, **fields))).job.job

    async def block(self, nodes: int, **more: object) -> int:
        """Have a job on so many nodes until it is killed."""
        job = self.laboratory.job("sleep 1000", nodes=nodes, limit_s=600, **more)
        return (await self.client.submit(job)).job.job

    async def view(self, number: int) -> JobView:
        return await self.client.job(MACHINE, number)

    async def has(self, number: int, nodes: int, phase: str = "running") -> JobView:
        """Wait until a job has so many nodes in that phase; and the calendar says so, too."""

        async def settled() -> JobView | None:
            view = await self.view(number)
            there = (len(view.node_numbers), view.phase) == (nodes, phase)
            return view if there and await self.booked(number) == nodes else None

        return await until(settled, f"{nodes} nodes")

    async def free(self) -> int:
        return (await self.client.jobs(MACHINE)).machines[0].free

    async def booked(self, number: int) -> int:
        """The units that the calendar has for a job now."""
        now = int(time.time())
        calendar = await self.client.calendar(MACHINE, start=now, end=now + 1)
        return sum(each.units for each in calendar.slots if each.reservation == f"job {number}")


@pytest.fixture
async def room(request: pytest.FixtureRequest) -> AsyncIterator[SizeRoom]:
    settings = getattr(request, "param", LIVE)
    async for laboratory in laboratories(rules=settings):
        async with laboratory.client() as client:
            yield SizeRoom(laboratory, client)


async def test_a_submitted_program_grows_into_free_nodes_and_shrinks_for_one_that_waits(
    room: SizeRoom,
) -> None:
    python, path = python_for_jobs()
    programs = room.copied(malleable_programs.__file__)
    blocker = await room.block(3)
    submit = [
        sys.executable, "-m", "kalends", "submit", "--broker", room.laboratory.site.url, "--user", USER,
        MACHINE, "--sizes", "1,2,4", "--malleable", "--for", "10m", "--env", f"PYTHONPATH={path}",
        "--directory", str(room.laboratory.marks),
        "--", python, "-m", "kalends_malleable", programs, "telling", str(room.folder),
    ]  # fmt: skip
    told = await asyncio.create_subprocess_exec(*submit, stdout=asyncio.subprocess.PIPE)
    printed = (await told.communicate())[0].decode()
    assert "asks for   1, 2 or 4 nodes, changing while it runs, for 10m" in printed
    number = int(printed.split()[0].rpartition("/")[2])
    await room.has(number, 1)
    await room.client.kill_job(MACHINE, blocker)
    await room.has(number, 4)
    waiting = await room.block(2)
    await room.has(number, 2)
    await room.has(waiting, 2)
    assert set((await room.view(waiting)).node_numbers).isdisjoint(
        (await room.view(number)).node_numbers
    )
    await room.client.kill_job(MACHINE, waiting)
    await room.has(number, 4)
    room.set("stop")
    over = await room.laboratory.over(room.client, number)
    assert (over.end, over.status) == ("exit", 0)
    said = (await room.client.job_output(MACHINE, number)).data.decode()
    entered = [line for line in said.splitlines() if line.startswith("entered")]
    assert entered == [f"entered with {size}" for size in (1, 4, 2, 4)]
    assert await room.free() == 4


@pytest.mark.parametrize("room", ['policy = "lazy"', 'policy = "adaptive"'], indirect=True)
async def test_policies_that_choose_a_size_at_the_start_do_so_and_leave_it_at_that(
    room: SizeRoom,
) -> None:
    await room.block(1)
    first = await room.start()
    await room.has(first, 2)
    second = await room.start()
    await room.has(second, 1)
    await room.client.kill_job(MACHINE, first)
    await room.laboratory.over(room.client, first)
    assert len((await room.view(second)).node_numbers) == 1
    assert await room.free() == 2


async def test_nodes_that_are_given_up_are_free_only_when_the_leavers_have_gone(
    room: SizeRoom,
) -> None:
    number = await room.start()
    await room.has(number, 4)
    room.set("linger")
    waiting = await room.block(1)
    await until(lambda: is_true(room.sizes[-1:] == [2]), "it has said so")
    assert (await room.view(number)).phase == "changing"
    assert (await room.view(waiting)).phase == "queued"
    assert await room.booked(number) == 4
    (room.folder / "linger").unlink()
    await room.has(number, 2)
    await room.has(waiting, 1)


@pytest.mark.parametrize("before", ["the answer", "the leavers have gone"])
async def test_a_site_that_is_killed_in_a_change_comes_back_to_the_truth_about_its_nodes(
    room: SizeRoom, before: str
) -> None:
    number = await room.start()
    await room.has(number, 4)
    reason = "deaf" if before == "the answer" else "linger"
    room.set(reason)
    waiting = await room.block(1)
    await until(lambda: _phase(room, number, "changing"), "it is asked")
    await room.laboratory.site.kill()
    await room.laboratory.site.start()
    assert (await room.view(number)).phase == "changing"
    assert (await room.view(waiting)).phase == "queued"
    await room.laboratory.site.kill()
    (room.folder / reason).unlink()
    await until(lambda: is_true(room.sizes[-1:] == [2]), "it has changed")
    await room.laboratory.site.start()
    await room.has(number, 2)
    await room.has(waiting, 1)


@pytest.mark.parametrize("room", ['policy = "reconfigurable"\nchange_max = "1s"'], indirect=True)
async def test_a_change_that_nobody_answers_is_taken_back_and_its_nodes_are_free(
    room: SizeRoom,
) -> None:
    blocker = await room.block(3)
    number = await room.start()
    one = (await room.has(number, 1)).node_numbers
    await until(lambda: is_true(room.sizes == [1]), "it runs")
    room.set("deaf")
    await room.client.kill_job(MACHINE, blocker)
    await until(lambda: _phase(room, number, "changing"), "it is asked")
    assert (await room.has(number, 1)).node_numbers == one
    (room.folder / "deaf").unlink()
    await room.has(number, 4)


@pytest.mark.parametrize("room", ['policy = "reconfigurable"\nchange_max = "1s"'], indirect=True)
async def test_nodes_of_a_growth_that_has_begun_are_no_other_jobs_when_it_is_to_be_taken_back(
    room: SizeRoom,
) -> None:
    blocker = await room.block(3)
    number = await room.start()
    await until(lambda: is_true(room.sizes == [1]), "it runs")
    room.set("slow")
    await room.client.kill_job(MACHINE, blocker)
    await until(lambda: is_true(room.lines("begun") == ["4"]), "it grows")
    waiting = await room.block(2, not_before=int(time.time()) + 3)
    await until(lambda: _phase(room, waiting, "queued"), "that second is over")
    assert (await room.view(number)).phase == "changing"
    assert (await room.view(waiting)).phase == "queued"
    assert await room.booked(number) == 4
    (room.folder / "slow").unlink()
    await room.has(waiting, 2)
    await room.has(number, 2)


async def test_a_program_that_wants_another_size_gets_it_or_is_told_why_not(room: SizeRoom) -> None:
    number = await room.start()
    await room.has(number, 4)
    waiting = await room.block(2)
    await room.has(number, 2)
    await room.has(waiting, 2)
    room.set("want", "1")
    await until(lambda: is_true(1 in room.sizes), "it has what it wants")
    room.set("want", "3")
    await until(lambda: is_true(room.lines("denied")), "usage is known")
    assert room.lines("denied") == ["3: its job is for 1, 2, 4 nodes"]


@pytest.mark.parametrize("step", ["asked", "grown", "left"])
async def test_a_program_that_dies_in_a_change_leaves_all_of_its_nodes_free(
    room: SizeRoom, step: str
) -> None:
    number = await room.start()
    await room.has(number, 4)
    room.set(f"dies-{step}")
    waiting = await room.block(2)
    over = await room.laboratory.over(room.client, number)
    assert (over.end, over.status) == ("exit", -9)
    await room.has(waiting, 2)
    assert await room.free() == 2


async def _phase(room: SizeRoom, number: int, phase: str) -> bool:
    return (await room.view(number)).phase == phase
