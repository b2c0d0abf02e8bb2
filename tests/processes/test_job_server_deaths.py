"""Servers that die at one call after another, or are away: what they had started goes on, once."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import sys
from collections import Counter

import pytest

from kalends.batch.shepherds import linux, shepherd_line
from kalends.batch.shepherds.conclusion import State
from kalends.batch.shepherds.facts import Begun, Main, Void
from kalends.batch.shepherds.launcher import Launcher
from kalends.core.errors import Unavailable
from tests import effort
from tests.processes.job_room import USER, JobRoom

STEP = 1 if effort.EFFORT > 1 else 4


async def restart(room: JobRoom, *names: str) -> dict[str, State]:
    """Let the server be away, forget all it knew, and come back."""
    await room.launcher.close()
    room.heard.clear()
    await room.open()
    return {name: found.state for name, found in (await room.launcher.adopt(names)).items()}


async def test_a_server_may_die_before_any_of_its_calls(room: JobRoom) -> None:
    await room.launcher.close()
    told = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.processes.mortal_server", str(room.top.parent), USER, str(STEP),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await told.communicate()
    assert told.returncode == 0
    lives, deaths = map(int, output.split())
    assert deaths >= 100 // STEP  # The others were over before.
    journal = (room.top.parent / "journal").read_text().splitlines()
    committed = {line.split()[1].partition(".")[0] for line in journal}
    started = Counter((room.home / "started").read_text().split())
    assert started == dict.fromkeys(committed, 1)
    assert str(lives) in committed


async def test_a_job_that_one_server_adopts_again_is_heard_of_to_its_end(room: JobRoom) -> None:
    """A site begins anew from its store in the same process, when that has taken no writes."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    await room.launch(room.shell("1.1", "sleep 1000"))
    await room.fact("1.1", Main)
    for _ in range(2):
        await room.launcher.adopt(["1.1"])
    await room.launcher.kill("1.1", "enough", 0)
    assert (await room.ended("1.1")).kind == "killed"
    await room.run(room.shell("2.1", "true"))
    assert faults == []


async def test_a_running_job_is_adopted_and_its_whole_story_is_heard_again(room: JobRoom) -> None:
    await room.launch(room.shell("1.1", "until [ -e go ]; do sleep 0.02; done; exit 7"))
    main = await room.fact("1.1", Main)
    assert await restart(room, "1.1") == {"1.1": State.RUNNING}
    assert linux.start_ticks(main.pid) == main.ticks
    (room.home / "go").touch()
    assert (await room.ended("1.1")).status == 7
    assert room.kinds("1.1") == ["Begun", "Main", "Ended"]


async def test_a_limit_is_kept_while_no_server_is_there(room: JobRoom) -> None:
    await room.launch(room.shell("1.1", "sleep 1000", limit_s=0.3))
    begun = await room.fact("1.1", Begun)
    await room.launcher.close()
    room.heard.clear()
    pidfd = os.pidfd_open(begun.shepherd)
    await room.until(lambda: linux.start_ticks(begun.shepherd) != begun.ticks)
    os.close(pidfd)
    await room.open()
    assert (await room.launcher.adopt(["1.1"]))["1.1"].state is State.ENDED
    assert (await room.ended("1.1")).kind == "limit"


async def test_a_record_that_cannot_be_written_is_told_and_written_later(
    room: JobRoom,
) -> None:
    failed: list[tuple[str, int | None]] = []
    await room.launcher.close()
    await room.open(failed=lambda name, error: failed.append((name, error.errno)))
    await room.launcher.prepare(["1.1"])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # To the record this is a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        await room.launcher.adopt(["1.1"])
        await room.until(lambda: bool(failed))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    await room.fact("1.1", Void)
    assert failed == [("1.1", errno.EFBIG)]


async def test_what_was_never_asked_for_is_void_after_a_restart(room: JobRoom) -> None:
    await room.launcher.prepare(["1.1"])
    assert await restart(room, "1.1", "2.1") == {"1.1": State.UNDECIDED, "2.1": State.ABSENT}
    await room.until(lambda: room.kinds("1.1") == room.kinds("2.1") == ["Void"])


async def test_a_job_that_ends_unheard_is_heard_after_a_restart(room: JobRoom) -> None:
    assert (await room.run(room.shell("1.1", "exit 9"))).status == 9
    assert await restart(room, "1.1") == {"1.1": State.ENDED}
    assert (await room.ended("1.1")).status == 9


async def test_hints_may_all_get_lost(room: JobRoom) -> None:
    os.unlink(room.launcher.folders.hints)
    assert (await room.run(room.shell("1.1", "exit 3"))).status == 3


async def test_a_server_hears_of_a_shepherd_that_was_killed_and_of_nothing_that_it_left(
    room: JobRoom,
) -> None:
    text = f"(setsid sh -c 'echo > stray; sleep 1000; :' {room.mark} &); sleep 1000"
    await room.launch(room.order("1.1", "/bin/sh", "-c", text, room.mark, output="o"))
    begun = await room.fact("1.1", Begun)
    await room.until((room.home / "stray").exists)
    os.kill(begun.shepherd, signal.SIGKILL)
    ended = await room.ended("1.1")
    assert ended.kind == "lost"
    assert ended.strays >= 1
    assert room.pids_with(room.mark) == []


async def test_a_stopped_shepherd_is_neither_dead_nor_void(
    room: JobRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shepherd_line, "ANSWER_S_MAX", 0.3)
    await room.launch(room.shell("1.1", "exit 2"), room.shell("2.1", "sleep 1000"))
    begun = await room.fact("2.1", Begun)
    os.kill(begun.shepherd, signal.SIGSTOP)
    assert (await restart(room, "2.1")) == {"2.1": State.RUNNING}
    assert (await room.launcher.void("2.1")).state is State.RUNNING
    with pytest.raises(Unavailable, match="does not answer"):
        await room.launcher.kill("2.1", "ada")
    os.kill(begun.shepherd, signal.SIGCONT)
    assert (await room.ended("2.1")).detail == "ada"


async def test_two_servers_never_share_a_folder(room: JobRoom) -> None:
    second = Launcher(str(room.top), lambda name, fact: None)
    with pytest.raises(Unavailable, match="another server uses it"):
        await second.start()
