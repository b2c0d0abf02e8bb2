"""kill -9 before every call of the kernel by a shepherd, its program's fork, or the zygote.

Whatever dies when, no attempt runs twice, none is forgotten, and nothing of any is left.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from kalends.batch.shepherds import record
from kalends.batch.shepherds.facts import Begun, Ended, Void
from kalends.batch.shepherds.order import JobOrder
from tests.processes.job_room import JobRoom, control_group, control_group_mounts, job_room
from tests.processes.mortality import PROGRAM, SHEPHERD

MORTAL = "tests.processes.mortality:main"


@pytest.fixture
async def room() -> AsyncIterator[JobRoom]:
    async with job_room(program=MORTAL) as opened:
        yield opened


def job(room: JobRoom, number: int, attempt: int = 1, **dies: str) -> JobOrder:
    """A job that says that it has started, leaves a stray, and ends."""
    mark = room.mark
    text = f"echo {number} >> started; (setsid sh -c 'sleep 1000; :' {mark} &); exit 5"
    return room.order(
        f"{number}.{attempt}", "/bin/sh", "-c", text, mark, environment=dies, output="log"
    )


async def over(room: JobRoom, name: str) -> Void | Ended:
    """Wait until an attempt is void, or all of it is gone."""
    found: list[Void | Ended] = []

    def look() -> bool:
        found[:] = [each for each in room.heard.get(name, []) if isinstance(each, Void | Ended)]
        return bool(found)

    await room.until(look)
    return found[0]


async def settle(room: JobRoom, deaths: dict[int, JobOrder]) -> Counter[str]:
    """Run all jobs to their ends; a void attempt is followed by one that does not die. Count how it went."""
    await room.launch(*deaths.values())
    how: Counter[str] = Counter()
    for number in deaths:
        how[(await follow(room, number)).kind] += 1
        how["void"] += "Void" in room.kinds(f"{number}.1")
    return how


async def follow(room: JobRoom, number: int) -> Ended:
    """Wait for the end of a job, of which any number of attempts may be void."""
    for attempt in itertools.count(1):
        if attempt > 1:
            await room.launch(job(room, number, attempt))
        end = await over(room, f"{number}.{attempt}")
        if isinstance(end, Ended):
            return end
    raise AssertionError


def judge(room: JobRoom) -> None:
    """Nothing ran twice or is left, what ended well ran, and each record was decided by its first line."""
    started = Counter((room.home / "started").read_text().split())
    assert set(started.values()) == {1}
    assert room.pids_with(room.mark) == []
    for name in room.heard:
        facts = record.read(room.launcher.folders.record(name)).facts
        assert isinstance(facts[0], Begun | Void)
        assert sum(isinstance(each, Begun | Void) for each in facts) == 1
        last = facts[-1]
        if isinstance(last, Ended) and last.kind == "exit":
            # Of those that were killed after their leave to go on, some had not become the program yet.
            assert last.status in (5, -signal.SIGKILL)
            assert last.status != 5 or started[name.partition(".")[0]] == 1


@pytest.mark.parametrize("mount", ["", *control_group_mounts()])
async def test_a_shepherd_may_die_before_any_of_its_calls(mount: str) -> None:
    calls = 150
    with control_group(mount) as groups:
        async with job_room(program=MORTAL, groups=groups) as room:
            deaths = {n: job(room, n, **{SHEPHERD: str(n)}) for n in range(1, calls + 1)}
            how = await settle(room, deaths)
            judge(room)
            assert how["void"] > 10
            assert how["lost"] > 20
            # The last ones were to die after their end: so every call was the last of some shepherd.
            assert (await room.ended(f"{calls}.1")).status == 5
        assert not mount or [each.name for each in os.scandir(groups) if each.is_dir()] == []


async def test_a_program_may_die_on_its_way_to_its_start(room: JobRoom) -> None:
    calls = 60
    deaths = {n: job(room, n, **{PROGRAM: str(n)}) for n in range(1, calls + 1)}
    how = await settle(room, deaths)
    judge(room)
    assert how["exit"] + how["not-started"] == calls
    assert how["not-started"] > 20
    assert (await room.ended(f"{calls}.1")).status == 5


async def test_a_zygote_may_die_before_any_of_its_calls(room: JobRoom) -> None:
    """Each server's zygote dies at another of its calls; the next server adopts what there is."""
    deaths: dict[int, JobOrder] = {}
    for number in range(1, 21):
        await room.launcher.close()
        (room.top / "zygote-dies").write_text(str(number))
        await room.open(program=MORTAL)
        await room.launcher.adopt([order.name for order in deaths.values()])
        deaths[number] = job(room, number)
        await room.launch(deaths[number])
    assert {"exit"} == {end.kind for end in [await follow(room, each) for each in deaths]}
    judge(room)


async def test_an_order_for_which_no_process_could_be_forked_is_made_void() -> None:
    """Its job gets the next attempt: it does not wait for ever for a shepherd that never was."""
    async with job_room(program="tests.processes.mortality:barren") as room:
        await room.launch(job(room, 1))
        assert (await follow(room, 1)).status == 5
        assert room.kinds("1.1") == room.kinds("1.2") == ["Void"]
        judge(room)
