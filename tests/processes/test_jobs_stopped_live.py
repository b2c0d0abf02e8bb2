"""Under `preemptive` a real site stops programs for more urgent ones, and lets them go on later."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import pytest

import kalends
from kalends.batch.shepherds import linux
from kalends.contract.job_calls import JobView
from tests.process_tree import descendants

from .laboratory import MACHINE, USER, Laboratory, laboratories
from .servers import until

RULES = """policy = "preemptive"
cores_each = 1
[site.machines.class_members]
high = ["everyone"]
"""
BUSY = """echo $$ > pid-$KALENDS_JOB
(until [ -e stop ]; do :; done) &
until [ -e stop ]; do :; done
wait
exit 5"""


class UrgentRoom:
    """A site of four nodes on which the more urgent jobs go first."""

    def __init__(self, laboratory: Laboratory, client: kalends.Client) -> None:
        self.laboratory, self.client = laboratory, client

    async def start(self, text: str, nodes: int = 4, **more: object) -> int:
        job = self.laboratory.job(text, nodes=nodes, **{"limit_s": 600, **more})
        return (await self.client.submit(job)).job.job

    async def start_busy(self, **more: object) -> int:
        """A program whose processes use their processors all the time, until it is let go."""
        number = await self.start(BUSY, **{"priority": "low", **more})
        await until(lambda: self._there(number), "it runs")
        return number

    async def _there(self, number: int) -> bool:
        path = self.laboratory.marks / f"pid-{number}"
        return path.exists() and bool(path.read_text().strip())

    def let_end(self) -> None:
        (self.laboratory.marks / "stop").touch()

    def used(self, number: int) -> dict[int, int]:
        """The ticks that each process of a busy program has used."""
        first = int((self.laboratory.marks / f"pid-{number}").read_text())
        found = {}
        for pid in (first, *descendants(first)):
            fields = linux.stat_fields(pid)
            if fields is not None:
                found[pid] = int(fields[11]) + int(fields[12])
        return found

    async def view(self, number: int) -> JobView:
        return await self.client.job(MACHINE, number)

    async def has(self, number: int, phase: str) -> JobView:
        async def settled() -> JobView | None:
            view = await self.view(number)
            return view if view.phase == phase else None

        return await until(settled, f"job {number} is {phase}")

    async def over(self, number: int) -> JobView:
        return await self.laboratory.over(self.client, number)

    async def booked(self, number: int) -> int:
        """The most units that the calendar has for a job at any time from now on."""
        now = int(time.time())
        calendar = await self.client.calendar(MACHINE, start=now, end=now + 3600)
        own = [each.units for each in calendar.slots if each.reservation == f"job {number}"]
        return max(own, default=0)

    async def printed(self, *arguments: str) -> str:
        """What a command prints."""
        at = ["--broker", self.laboratory.site.url, "--user", USER]
        command = [sys.executable, "-m", "kalends", *arguments, *at]
        told = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        return (await told.communicate())[0].decode()


@pytest.fixture
async def room() -> AsyncIterator[UrgentRoom]:
    async for laboratory in laboratories(rules=RULES):
        async with laboratory.client() as client:
            yield UrgentRoom(laboratory, client)


async def test_a_program_stands_still_while_a_more_urgent_one_runs_and_then_goes_on_and_ends_well(
    room: UrgentRoom,
) -> None:
    low = await room.start_busy()
    urgent = await room.start("until [ -e go ]; do sleep 0.05; done", priority="high")
    stopped = await room.has(low, "stopped")
    await room.has(urgent, "running")
    before = room.used(low)
    assert (await room.booked(low), await room.booked(urgent)) == (0, 4)
    assert (stopped.node_numbers, stopped.until, stopped.attempt) == ((), 0, 1)
    await until(lambda: _is_expected(room, low), "it is expected to go on")
    assert f"{MACHINE}/{low} " in await room.printed("queue", MACHINE)
    shown = await room.printed("job", f"{MACHINE}/{low}")
    assert "state      stopped" in shown
    assert "stopped for more urgent jobs" in shown
    plan = await room.printed("queue", MACHINE, "--plan")
    assert ("AAAA" in plan, "aaaa" in plan) == (True, True), (
        "one runs, the other is planned behind it"
    )
    assert room.used(low) == before
    (room.laboratory.marks / "go").touch()
    assert (await room.over(urgent)).end == "exit"
    running = await room.has(low, "running")
    assert running.attempt == 1
    assert await room.booked(low) == 4
    await until(lambda: _more(room, low, before), "it goes on")
    room.let_end()
    over = await room.over(low)
    assert (over.end, over.status, over.attempt) == ("exit", 5, 1)
    assert over.node_seconds == 4 * (over.over - over.started - over.stood_s)


async def _is_expected(room: UrgentRoom, number: int) -> bool:
    return (await room.view(number)).predicted is not None


async def _more(room: UrgentRoom, number: int, before: dict[int, int]) -> bool:
    return sum(room.used(number).values()) > sum(before.values())


async def test_a_site_that_is_killed_while_a_program_stands_still_lets_it_go_on_when_it_is_back(
    room: UrgentRoom,
) -> None:
    low = await room.start_busy()
    urgent = await room.start("until [ -e go ]; do sleep 0.05; done; exit 7", priority="high")
    await room.has(low, "stopped")
    await room.has(urgent, "running")
    await room.laboratory.site.kill()
    before = room.used(low)
    await room.laboratory.site.start()
    assert ((await room.view(low)).phase, (await room.view(urgent)).phase) == ("stopped", "running")
    assert room.used(low) == before
    await room.laboratory.site.kill()
    (room.laboratory.marks / "go").touch()
    await room.laboratory.site.start()
    assert (await room.over(urgent)).status == 7
    await room.has(low, "running")
    await until(lambda: _more(room, low, before), "it goes on")
    room.let_end()
    assert (await room.over(low)).status == 5


async def test_a_stopped_job_that_is_killed_is_over_at_once_and_never_has_nodes_again(
    room: UrgentRoom,
) -> None:
    low = await room.start_busy()
    urgent = await room.start("until [ -e go ]; do sleep 0.05; done", priority="high")
    await room.has(low, "stopped")
    with pytest.raises(kalends.Conflict, match=f"job {low} is stopped, not waiting"):
        await room.client.hold_job(MACHINE, low)
    await room.client.kill_job(MACHINE, low)
    over = await room.over(low)
    assert (over.end, over.status) == ("killed", -9)
    assert (await room.view(urgent)).phase == "running"
    (room.laboratory.marks / "go").touch()
    await room.over(urgent)
    assert await room.booked(low) == 0


async def test_only_as_many_are_stopped_as_are_in_the_way_and_none_that_is_as_urgent(
    room: UrgentRoom,
) -> None:
    older = await room.start_busy(nodes=1)
    younger = await room.start_busy(nodes=2)
    equal = await room.start_busy(nodes=1, priority="high")
    urgent = await room.start("until [ -e go ]; do sleep 0.05; done", nodes=2, priority="high")
    await room.has(urgent, "running")
    phases = [(await room.view(number)).phase for number in (older, younger, equal)]
    assert phases == ["running", "stopped", "running"]
    waiting = await room.start("exit 0", nodes=1, priority="low")
    room.let_end()
    for number in (older, equal):
        assert (await room.over(number)).status == 5
    assert (await room.over(younger)).status == 5
    (room.laboratory.marks / "go").touch()
    assert (await room.over(waiting)).status == 0


async def test_a_job_on_nodes_that_are_booked_for_it_is_never_stopped(room: UrgentRoom) -> None:
    fixed = await room.start("sleep 1000", priority="low", at=int(time.time()) + 3, limit_s=300)
    await room.has(fixed, "running")
    urgent = await room.start("exit 0", priority="high")
    assert (await room.view(urgent)).phase == "queued"
    assert (await room.view(fixed)).phase == "running"
    await room.client.kill_job(MACHINE, fixed)
    assert (await room.over(urgent)).status == 0
