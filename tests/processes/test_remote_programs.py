"""What stands in the place of a program that runs elsewhere; here "elsewhere" is a shell of this host."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from kalends.backends.passage import Passage
from kalends.batch.shepherds.remote_program import KILL_THERE

from .servers import until

PROGRAM = """
import os, sys
from kalends.backends.passage import Passage
from kalends.batch.shepherds.remote_program import NotGiven, run_remotely
try:
    words = sys.argv[2:]
    run_remotely(Passage._make(eval(sys.argv[1])), words, dict(os.environ), quiet="QUIET" in os.environ)
except NotGiven as error:
    print(error)
    os._exit(99)
"""


def sh(text: str, *words: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", text, "sh", *words)


def passage(folder: Path, **other: tuple[str, ...]) -> Passage:
    """A way that gives the allocation 17, and sends signals to the process in the file `pid`."""
    usual = Passage(
        asks=sh("echo Here you are: granted 17 >&2"),
        given=("granted ",),
        away=("nobody there",),
        clears=sh(f"echo cleared >> {folder}/log"),
        runs=sh(
            f'echo $$ > {folder}/pid; echo in "$1" >> {folder}/log; shift 2; exec "$@"', "{id}"
        ),
        kills=("USR2",),
        state=sh("echo {id} is there"),
        alive=("is there",),
        unstarted=("launch failed",),
        signals=sh(
            f'echo {{signal}} {{id}} >> {folder}/log; kill -{{signal}} "$(cat {folder}/pid)"'
        ),
    )
    return usual._replace(**other)


async def started(way: Passage, *words: str, quiet: bool = False) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, repr(tuple(way)), "", *words,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
        env={**os.environ, **({"QUIET": "1"} if quiet else {})},
    )  # fmt: skip


async def ended(process: asyncio.subprocess.Process, given: bytes = b"") -> tuple[int, bytes]:
    async with asyncio.timeout(60):
        said, _ = await process.communicate(given)
    assert process.returncode is not None
    return process.returncode, said


def log(folder: Path) -> list[str]:
    path = folder / "log"
    return path.read_text().splitlines() if path.exists() else []


async def test_a_program_has_the_streams_and_its_exit_code_is_ours(tmp_path: Path) -> None:
    process = await started(passage(tmp_path), "/bin/sh", "-c", "cat; exit 7")
    assert await ended(process, b"all of it\0") == (7, b"all of it\0")
    assert log(tmp_path) == ["in 17"]


async def test_a_program_that_a_signal_has_ended_is_told_as_a_shell_tells_it(
    tmp_path: Path,
) -> None:
    process = await started(passage(tmp_path), "/bin/sh", "-c", "kill -KILL $$")
    assert (await ended(process))[0] == 128 + signal.SIGKILL


async def test_where_bytes_are_to_be_as_they_are_what_runs_the_program_adds_none(
    tmp_path: Path,
) -> None:
    runs = sh('shift 2; "$@"; code=$?; echo noise >&2; exit $code', "{id}")
    noisy = passage(tmp_path, runs=runs)
    process = await started(noisy, "/bin/sh", "-c", "echo said; exit 3", quiet=True)
    assert await ended(process) == (3, b"said\n")


async def test_a_program_that_the_system_could_not_start_is_no_program_that_has_ended(
    tmp_path: Path,
) -> None:
    failing = passage(tmp_path, runs=sh("echo step launch failed: no credential >&2; exit 169"))
    process = await started(failing, "true", quiet=True)
    assert await ended(process) == (99, b"step launch failed: no credential\n")


async def test_what_runs_a_program_is_asked_to_kill_it_and_then_ends(tmp_path: Path) -> None:
    runs = sh(f"trap 'exit 9' USR2; echo ready >> {tmp_path}/log; while :; do sleep 0.1; done")
    process = await started(passage(tmp_path, runs=runs), "true")

    async def ready() -> bool:
        return "ready" in log(tmp_path)

    await until(ready, "it begins")
    process.send_signal(KILL_THERE)
    assert (await ended(process))[0] == 9


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("echo 17 is there", 0),
        ("echo no such thing; exit 1", 137),
        ("echo nobody there; exit 1", 0),
    ],
)
async def test_a_program_whose_nodes_were_taken_away_has_not_succeeded(
    tmp_path: Path, state: str, code: int
) -> None:
    process = await started(passage(tmp_path, state=sh(state)), "true")
    assert (await ended(process))[0] == code


async def test_a_signal_goes_to_the_program_and_not_to_what_runs_it(tmp_path: Path) -> None:
    text = f"trap 'echo caught; exit 5' TERM; echo ready >> {tmp_path}/log; while :; do sleep 0.1; done"
    process = await started(passage(tmp_path), "/bin/sh", "-c", text)

    async def ready() -> bool:
        return "ready" in log(tmp_path)

    await until(ready, "it begins")
    os.killpg(process.pid, signal.SIGTERM)
    assert await ended(process) == (5, b"caught\n")
    assert log(tmp_path) == ["in 17", "ready", "TERM 17"]


async def test_what_the_system_refuses_is_told_in_its_words_and_nothing_runs(
    tmp_path: Path,
) -> None:
    refusing = passage(tmp_path, asks=sh("echo no such partition >&2; exit 1"))
    assert await ended(await started(refusing, "true")) == (99, b"no such partition\n")
    assert log(tmp_path) == []


async def test_a_system_that_is_away_is_asked_again_and_what_it_may_have_given_is_given_back(
    tmp_path: Path,
) -> None:
    asks = sh(f"[ -e {tmp_path}/log ] && echo granted 18 || {{ echo nobody there; exit 1; }}")
    process = await started(passage(tmp_path, asks=asks), "true")
    assert (await ended(process))[0] == 0
    assert log(tmp_path) == ["cleared", "in 18"]


@pytest.mark.parametrize("asks", ["exec sleep 1000", "echo nobody there; exit 1"])
async def test_whoever_waits_for_nodes_ends_when_it_is_asked_to(tmp_path: Path, asks: str) -> None:
    way = passage(tmp_path, asks=sh(f"echo asked >> {tmp_path}/log; {asks}"))
    process = await started(way, "true")

    async def asked() -> bool:
        return "asked" in log(tmp_path)

    await until(asked, "it asks")
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGTERM)
    assert (await ended(process))[0] == 128 + signal.SIGTERM
    assert "in 17" not in log(tmp_path)
