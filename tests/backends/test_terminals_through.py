"""Interactive jobs that a real Slurm runs for a site: the command line, at a terminal and without one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.backends.computing_centre import CLUSTER, ROOM, ComputingCentre, opened
from tests.backends.conformance.system_at_hand import cleared, until
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.processes.cut_line import cut_line
from tests.processes.person import Person
from tests.support.job_folders import folder_of_jobs
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.xdist_group("batch-jobs"),
    pytest.mark.needs_slurm,
    pytest.mark.asyncio(loop_scope="module"),
]

ECHO = (
    'echo "on $SLURMD_NODENAME"; stty -echo; echo ready; while read l; do echo "<$l>"; done; exit 5'
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def centre(slurm: SlurmAtHand) -> AsyncIterator[ComputingCentre]:
    with folder_of_jobs("kalends-centre-") as top:
        async with cleared(slurm), opened(Path(top), slurm) as found:
            yield found
            await found.clear()


def environment(centre: ComputingCentre, url: str = "") -> dict[str, str]:
    return {
        "KALENDS_BROKER": url or centre.site.url,
        "KALENDS_USER": "ann",
        "KALENDS_ZONE": "UTC",
    }


def run(centre: ComputingCentre, machine: str, *words: str, url: str = "") -> Person:
    directory = ("--directory", str(centre.marks))
    return Person("run", machine, *directory, *words, environment=environment(centre, url))


async def test_a_shell_in_a_slot_has_this_terminal_and_can_be_left_and_come_back_to(
    centre: ComputingCentre,
) -> None:
    booked = await centre.booked(1)
    words = ("--reservation", booked, "--", "sh", "-c", ECHO)
    async with run(centre, CLUSTER, *words) as ann:
        await ann.sees(b"ready\r\n")
        ann.type(b"one\n")
        await ann.sees(b"<one>\r\n")
        assert await ann.leaves_by(b"\x1c") == 0
    async with centre.client() as client:
        (job,) = (await client.jobs(CLUSTER)).jobs
    words = ("attach", f"{CLUSTER}/{job.job}")
    async with Person(*words, environment=environment(centre)) as ann:
        await ann.sees(b"<one>\r\n")
        ann.type(b"two\n")
        await ann.sees(b"<two>\r\n")
        assert await ann.leaves_by(b"\x04") == 5
        assert ann.restored()
    assert await centre.ours() == []


async def test_keys_windows_and_lost_lines_are_as_on_the_sites_own_host(
    centre: ComputingCentre,
) -> None:
    text = "trap 'echo caught' INT; echo ready; until [ \"$l\" = end ]; do read l; stty size; done; exit 6"
    async with cut_line(centre.site.url) as line:
        words = ("--for", "5m", "--", "sh", "-c", text)
        async with run(centre, ROOM, *words, url=line.url) as ann:
            await ann.sees(b"ready\r\n")
            ann.type(b"\x03")
            await ann.sees(b"caught")
            ann.resize(33, 99)

            async def resized() -> bool:
                ann.type(b"\n")
                return b"33 99" in ann.seen

            await until(resized, "the window keeps its size")
            line.cut()
            ann.type(b"\n")
            await ann.sees(b"33 99")
            assert await ann.leaves_by(b"end\n") == 6


async def test_every_byte_goes_through_pipes_and_partial_lines_come_at_once(
    centre: ComputingCentre,
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", "run", ROOM, "--for", "5m", "--directory", "/", "--",
        "sh", "-c", "printf asking; cat; exit 3",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, **environment(centre)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    given = bytes(range(256)) * 1_000
    async with asyncio.timeout(PATIENCE_S):
        assert await process.stdout.readexactly(6) == b"asking"
        process.stdin.write(given)
        process.stdin.close()
        assert await process.stdout.readexactly(len(given)) == given
        assert await process.wait() == 3


async def test_a_shell_that_is_killed_ends_with_all_that_it_has_started(
    centre: ComputingCentre,
) -> None:
    words = ("--for", "5m", "--", "sh", "-c", "trap '' TERM HUP; sleep 1000 & echo ready; wait")
    async with run(centre, ROOM, *words) as ann:
        await ann.sees(b"ready\r\n")
        async with centre.client() as client:
            (job,) = (await client.jobs(ROOM)).jobs
            await client.kill_job(ROOM, job.job)
            assert (await centre.over(client, job)).end == "killed"
        assert await ann.left() != 0
    assert await centre.ours() == []
