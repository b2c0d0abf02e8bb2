"""Programs that are stopped and go on: with control groups, and with signals where the host has none."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator

import pytest

from kalends.batch.shepherds import facts, linux
from kalends.batch.shepherds.facts import Begun, Ended, Main, Stopped, WentOn

from .job_room import JobRoom, control_group, control_group_mounts, job_room

BUSY = "while :; do :; done"
FORKING = f"for i in 1 2 3; do (while :; do /bin/true; done) & done; {BUSY}"
COUNTING = "i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done"
SIGNALS_ONLY = ""


@pytest.fixture(params=[SIGNALS_ONLY, *control_group_mounts()])
async def room(request: pytest.FixtureRequest) -> AsyncIterator[JobRoom]:
    with control_group(request.param) as groups:
        async with job_room(groups=groups) as room:
            yield room


async def started(room: JobRoom, name: str, text: str, **more: object) -> int:
    """Launch a shell whose processes are marked; return its process id when it runs."""
    argv = ("/bin/sh", "-c", f"echo runs; {text}", room.mark + name)
    await room.launch(room.order(name, *argv, output=f"out-{name}", **more))
    main: Main = await room.fact(name, Main)
    await room.until(lambda: (room.home / f"out-{name}").exists() and "runs" in room.said(name))
    return main.pid


async def stopped(room: JobRoom, name: str, number: int = 1) -> None:
    await room.launcher.stop(name, number)
    await room.fact(name, Stopped, number - 1)


def used(room: JobRoom, name: str) -> dict[int, int]:
    """The processor time of each marked process of a program, in ticks."""
    found = {}
    for pid in room.pids_with(room.mark + name):
        fields = linux.stat_fields(pid)
        if fields is not None:
            found[pid] = int(fields[11]) + int(fields[12])
    return found


def all_go_on(room: JobRoom, before: dict[int, int]) -> bool:
    """Whether the first process and the three loops have used more than before."""
    now = used(room, "1.1")
    return sum(now.get(pid, 0) > ticks for pid, ticks in before.items()) >= 4


async def test_nothing_of_a_program_that_forks_runs_while_it_is_stopped_and_it_goes_on_where_it_is_told(
    room: JobRoom,
) -> None:
    cores = sorted(os.sched_getaffinity(0))
    await started(room, "1.1", FORKING, cores=(cores[0],))
    await room.until(lambda: len(used(room, "1.1")) >= 4)
    for number in range(1, 4):
        await stopped(room, "1.1", number)
        before = used(room, "1.1")
        # Whatever could run has time to do so.
        over = await room.run(room.shell(f"{number + 1}.1", COUNTING))
        assert over.kind == facts.EXIT
        assert used(room, "1.1") == before
        await room.launcher.go_on("1.1", number, (cores[-1],))
        went_on: WentOn = await room.fact("1.1", WentOn, number - 1)
        assert went_on.cores == (cores[-1],)
        for pid in before:
            # The last thing that one of them did may have been to end.
            with contextlib.suppress(ProcessLookupError):
                assert os.sched_getaffinity(pid) == {cores[-1]}
        await room.until(lambda before=before: all_go_on(room, before))  # type: ignore[misc]
    await room.launcher.kill("1.1", "the test is over", 0)
    ended = await room.ended("1.1")
    assert (ended.kind, room.pids_with(room.mark)) == (facts.KILLED, [])


async def test_every_thread_is_on_the_cores_on_which_its_program_goes_on(room: JobRoom) -> None:
    cores = sorted(os.sched_getaffinity(0))
    text = (
        "import threading; [threading.Thread(target=threading.Event().wait).start() for _ in range(3)];"
        "print('threads', flush=True)"
    )
    pid = await started(room, "1.1", f'exec python3 -c "{text}"', cores=(cores[0],))
    await room.until(lambda: "threads" in room.said("1.1"))
    await stopped(room, "1.1")
    await room.launcher.go_on("1.1", 1, (cores[-1],))
    await room.fact("1.1", WentOn)
    threads = linux.threads(pid)
    assert len(threads) == 4
    assert all(os.sched_getaffinity(thread) == {cores[-1]} for thread in threads)


async def test_the_limit_counts_only_the_time_that_a_program_ran(room: JobRoom) -> None:
    await started(room, "1.1", BUSY, limit_s=4.0, grace_s=0.0)
    await stopped(room, "1.1")
    await room.run(room.shell("2.1", "sleep 5"))
    assert not any(isinstance(fact, Ended) for fact in room.heard["1.1"])
    await room.launcher.go_on("1.1", 1, ())
    ended = await room.ended("1.1")
    begun: Begun = await room.fact("1.1", Begun)
    assert ended.kind == facts.LIMIT
    assert ended.ran_s + 5 <= ended.at - begun.at


async def test_what_is_said_again_or_too_late_changes_nothing(room: JobRoom) -> None:
    await started(room, "1.1", BUSY)
    await room.launcher.go_on("1.1", 1, ())
    await stopped(room, "1.1")
    await room.launcher.stop("1.1", 1)
    await room.launcher.go_on("1.1", 1, ())
    await room.launcher.go_on("1.1", 1, ())
    await room.launcher.stop("1.1", 1)
    await room.launcher.kill("1.1", "the test is over", 0)
    await room.ended("1.1")
    assert room.kinds("1.1") == ["Begun", "Main", "Stopped", "WentOn", "Ended"]


async def test_a_stop_that_overtakes_the_order_to_go_on_is_one_stop_more(room: JobRoom) -> None:
    await started(room, "1.1", BUSY)
    await stopped(room, "1.1")
    await stopped(room, "1.1", 2)
    await room.launcher.go_on("1.1", 1, ())
    before = used(room, "1.1")
    await room.run(room.shell("2.1", COUNTING))
    assert used(room, "1.1") == before
    await room.launcher.go_on("1.1", 2, ())
    assert room.kinds("1.1")[2:] == ["Stopped", "Stopped"]
    assert (await room.fact("1.1", WentOn)).number == 2


async def test_a_stopped_program_that_is_killed_does_not_run_again_to_tidy_up(
    room: JobRoom,
) -> None:
    await started(room, "1.1", "trap 'echo tidied; exit' TERM; " + BUSY, grace_s=60.0)
    await stopped(room, "1.1")
    await room.launcher.kill("1.1", "no longer wanted")
    ended = await room.ended("1.1")
    assert (ended.kind, ended.status, ended.detail) == (facts.KILLED, -9, "no longer wanted")
    assert "tidied" not in room.said("1.1")
    assert room.pids_with(room.mark) == []


async def test_nothing_is_left_of_a_stopped_program_whose_shepherd_is_killed(room: JobRoom) -> None:
    await started(room, "1.1", FORKING)
    await stopped(room, "1.1")
    begun: Begun = await room.fact("1.1", Begun)
    os.kill(begun.shepherd, signal.SIGKILL)
    assert (await room.ended("1.1")).kind == facts.LOST
    assert room.pids_with(room.mark) == []


async def test_a_stopped_program_that_ends_has_ended(room: JobRoom) -> None:
    pid = await started(room, "1.1", BUSY)
    await stopped(room, "1.1")
    os.kill(pid, signal.SIGKILL)
    ended = await room.ended("1.1")
    assert (ended.kind, ended.status) == (facts.EXIT, -9)


async def test_a_server_that_comes_back_hears_that_a_program_stands_still_and_lets_it_go_on() -> (
    None
):
    async with job_room() as room:
        await started(room, "1.1", BUSY)
        await stopped(room, "1.1")
        await room.launcher.close()
        room.heard.clear()
        await room.open()
        await room.launcher.adopt(["1.1"])
        await room.until(lambda: len(room.kinds("1.1")) == 3)
        assert room.kinds("1.1") == ["Begun", "Main", "Stopped"]
        await room.launcher.go_on("1.1", 1, ())
        await room.fact("1.1", WentOn)


async def test_a_stop_before_the_program_has_begun_makes_the_attempt_void(room: JobRoom) -> None:
    await room.launcher.prepare(["1.1"])
    await room.launcher.stop("1.1", 1)
    room.launcher.launch([room.shell("1.1", "echo runs")])
    await room.fact("1.1", facts.Void)
    assert not (room.home / "out-1.1").exists()


async def test_who_was_stopped_by_its_user_stays_so_when_the_program_goes_on(room: JobRoom) -> None:
    text = f"({BUSY}) & echo $! > asleep; kill -STOP $!; echo slept; {BUSY}"
    await started(room, "1.1", text)
    await room.until(lambda: "slept" in room.said("1.1"))
    asleep = int((room.home / "asleep").read_text())
    await room.until(lambda: linux.thread_states(asleep) == {b"T"})
    await stopped(room, "1.1")
    before = used(room, "1.1")
    await room.launcher.go_on("1.1", 1, ())
    awake = next(pid for pid in before if pid != asleep)
    await room.until(lambda: used(room, "1.1")[awake] > before[awake])
    assert used(room, "1.1")[asleep] == before[asleep]
    assert linux.thread_states(asleep) == {b"T"}


async def test_who_wakes_a_stopped_program_does_not_wake_it_for_long(room: JobRoom) -> None:
    pid = await started(room, "1.1", BUSY)
    await stopped(room, "1.1")
    states = linux.thread_states(pid)
    os.kill(pid, signal.SIGCONT)
    await room.until(lambda: linux.thread_states(pid) == states)
    assert room.kinds("1.1") == ["Begun", "Main", "Stopped"]
