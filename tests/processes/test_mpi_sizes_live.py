"""Malleable jobs over MPI on a real site: mpiexec stays, its ranks are replaced as the queue decides."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
from benchmarks.size_policies import python_for_jobs

from . import malleable_programs
from .laboratory import MACHINE
from .servers import until
from .test_sizes_live import LIVE, SizeRoom
from .test_sizes_live import room as room

BESIDE = Path(sys.executable).parent
MPIEXEC = BESIDE / "mpiexec"
LIBRARY = BESIDE.parent / "lib" / "libmpi.so.12"
CORES = sorted(os.sched_getaffinity(0))
PINNED = f"{LIVE}\ncores_each = 1"

pinned = pytest.mark.parametrize("room", [PINNED], indirect=True, ids=["pinned"])
chosen = pytest.mark.parametrize(
    "room", ['policy = "lazy"', 'policy = "adaptive"'], indirect=True, ids=["lazy", "adaptive"]
)


async def start(room: SizeRoom, limit_s: int = 600) -> int:
    """Submit `telling` over MPI as docs/malleable.md says; return its number."""
    python, path = python_for_jobs()
    programs = room.copied(malleable_programs.__file__)
    command = [python, "-m", "kalends_malleable", "--mpi", programs, "telling", str(room.folder)]
    text = f'exec {MPIEXEC} -n "$KALENDS_NODE_COUNT" {shlex.join(command)}'
    job = room.laboratory.job(
        text, nodes=1, sizes=(1, 2, 4), malleable=True, limit_s=limit_s,
        environment={"PYTHONPATH": path, "MPI4PY_LIBMPI": str(LIBRARY)},
    )  # fmt: skip
    return (await room.client.submit(job)).job.job


def ranks(room: SizeRoom) -> list[int]:
    """The processes that run the program: all sets of ranks that are there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            arguments = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
            if str(room.folder).encode() in arguments and b"-n" not in arguments:
                found.append(int(pid))
    return found


async def entered(room: SizeRoom, size: int) -> set[int]:
    """Wait until all ranks of that size have written where they run; return these cores together."""
    files = [room.folder / f"{size}.{number}" for number in range(size)]

    async def all_there() -> bool:
        return all(file.exists() and file.read_text() for file in files)

    await until(all_there, f"{size} ranks")
    return {core for file in files for core in json.loads(file.read_text())}


def cores_of(nodes: tuple[int, ...]) -> set[int]:
    return {CORES[node % len(CORES)] for node in nodes}


@pinned
async def test_a_job_over_mpi_grows_and_shrinks_on_the_cores_of_its_nodes(room: SizeRoom) -> None:
    blocker = await room.block(3)
    number = await start(room)
    one = await room.has(number, 1)
    assert await entered(room, 1) == cores_of(one.node_numbers)
    await room.client.kill_job(MACHINE, blocker)
    four = await room.has(number, 4)
    assert await entered(room, 4) == cores_of(four.node_numbers)
    waiting = await room.block(2)
    two = await room.has(number, 2)
    assert await entered(room, 2) == cores_of(two.node_numbers)
    assert set((await room.has(waiting, 2)).node_numbers).isdisjoint(two.node_numbers)
    room.set("stop")
    over = await room.laboratory.over(room.client, number)
    assert (over.end, over.status) == ("exit", 0)
    said = (await room.client.job_output(MACHINE, number)).data.decode()
    assert [line for line in said.splitlines() if line.startswith("entered")] == [
        f"entered with {size}" for size in (1, 4, 2)
    ]
    assert not ranks(room)
    assert await room.free() == 2


@chosen
async def test_a_job_over_mpi_begins_on_the_size_that_the_policy_chooses(room: SizeRoom) -> None:
    await room.block(1)
    number = await start(room)
    await room.has(number, 2)
    await entered(room, 2)
    room.set("stop")
    over = await room.laboratory.over(room.client, number)
    assert (over.end, over.status) == ("exit", 0)


@pinned
async def test_at_its_limit_all_ranks_of_a_job_are_ended(room: SizeRoom) -> None:
    number = await start(room, limit_s=10)
    await until(lambda: _others(room, []), "ranks")
    over = await room.laboratory.over(room.client, number)
    assert over.end == "limit"
    assert not ranks(room)
    assert await room.free() == 4


@pinned
@pytest.mark.parametrize("old", [True, False])
async def test_a_rank_that_is_killed_in_a_change_ends_the_job_and_leaves_all_nodes_free(
    room: SizeRoom, old: bool
) -> None:
    number = await start(room)
    await room.has(number, 4)
    await entered(room, 4)
    before = ranks(room)
    assert len(before) == 4
    room.set("slow")
    waiting = await room.block(2)
    new = await until(lambda: _others(room, before), "a set to replace it")
    os.kill(before[0] if old else new[0], signal.SIGKILL)
    over = await room.laboratory.over(room.client, number)
    assert over.end == "exit"
    assert over.status != 0
    assert not ranks(room)
    (room.folder / "slow").unlink()
    await room.has(waiting, 2)
    assert await room.free() == 2


async def _others(room: SizeRoom, before: list[int]) -> list[int]:
    return [pid for pid in ranks(room) if pid not in before]
