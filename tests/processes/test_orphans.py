"""What is left of an attempt whose shepherd was killed is found, however it moves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kalends.batch.shepherds import linux, orphans
from kalends.batch.shepherds.control_group import ControlGroup
from kalends.batch.shepherds.facts import Begun, Main
from kalends.batch.shepherds.orphans import end_orphans
from kalends.batch.shepherds.record import take
from tests.processes.job_room import job_room

HOPPERS = 4
LOOKS = 100
"""A look may miss one that hops; so many, one after the other, do not."""

HOPPER = """
import os, time
while os.path.exists(os.environ["KALENDS_JOB_DIRECTORY"] + "/hops"):
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.02)
"""
"""Never the same process for long, and never in the same session: each goes when it has made the next.

As long as its file is there: one that nobody catches would take a processor from all other tests.
"""


def bearers(mark: str) -> set[int]:
    """Return the processes with `mark` in their environment that many looks have found."""
    found = set()
    for _ in range(LOOKS):
        for each in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark.encode() in Path(f"/proc/{each}/environ").read_bytes():
                    found.add(int(each))
    return found


@pytest.fixture
def marked(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "hops").touch()
    yield f"KALENDS_JOB_DIRECTORY={tmp_path}"
    (tmp_path / "hops").unlink()


def test_a_process_that_hops_from_one_to_the_next_is_caught(tmp_path: Path, marked: str) -> None:
    group = ControlGroup("", "1.1")
    for _ in range(HOPPERS):
        subprocess.run(
            [sys.executable, "-S", "-c", HOPPER],
            env={"KALENDS_JOB_DIRECTORY": str(tmp_path)}, check=True,
        )  # fmt: skip
    assert end_orphans(str(tmp_path), None, group) >= 1
    assert bearers(marked) == set()


HOPPER_ON_DEMAND = """
import os, sys
go, gone = map(int, sys.argv[1:])
while os.read(go, 1):
    if os.fork():
        os._exit(0)
    os.write(gone, b"x")
"""


def test_one_that_hops_just_after_all_were_listed_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, go = os.pipe()
    gone, told = os.pipe()
    command = [sys.executable, "-S", "-c", HOPPER_ON_DEMAND, str(ready), str(told)]
    environment = {"KALENDS_JOB_DIRECTORY": str(tmp_path)}
    with subprocess.Popen(command, env=environment, pass_fds=(ready, told)) as process:
        os.close(told)
        listed = orphans._processes

        def list_and_let_hop() -> list[int]:
            found = listed()
            os.write(go, b"x")
            os.read(gone, 1)
            return found

        monkeypatch.setattr(orphans, "_processes", list_and_let_hop)
        # The one that goes may be looked at while it goes.
        assert end_orphans(str(tmp_path), None, ControlGroup("", "1.1")) >= 1
        process.wait()
    assert os.read(gone, 1) == b""
    for each in (ready, go, gone):
        os.close(each)


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_later_session_that_has_got_the_number_of_an_attempts_is_anothers(
    tmp_path: Path, innocent: subprocess.Popen[bytes]
) -> None:
    ticks = linux.start_ticks(innocent.pid)
    assert ticks is not None
    main = Main(innocent.pid, ticks - 1, os.getuid())
    assert end_orphans(str(tmp_path), main, ControlGroup("", "1.1")) == 0
    assert innocent.poll() is None


async def test_after_the_host_began_anew_nobody_is_taken_for_what_an_attempt_has_left(
    innocent: subprocess.Popen[bytes],
) -> None:
    """Numbers of processes and ticks begin anew with the host: they may be those of another's."""
    async with job_room() as room:
        ticks = linux.start_ticks(innocent.pid)
        assert ticks is not None
        await room.launcher.prepare(["1.1"])
        record = take(room.launcher.folders.record("1.1"))
        assert record is not None
        record.append(Begun(1.0, innocent.pid, ticks, "the-life-before"))
        record.append(Main(innocent.pid, 0, os.getuid()))
        record.close()
        await room.launcher.adopt(["1.1"])
        assert (await room.ended("1.1")).kind == "lost"
        assert innocent.poll() is None
