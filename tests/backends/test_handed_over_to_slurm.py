"""Jobs that a site hands over by PSI/J to a real Slurm, as to any system that it has no adapter for."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.backends.conformance.system_at_hand import cleared, until
from tests.backends.far_site import FAR, FarSite, far_site
from tests.backends.slurm_at_hand import SlurmAtHand

pytest.importorskip("psij")

pytestmark = [pytest.mark.xdist_group("batch-jobs"), pytest.mark.needs_slurm]


@pytest.fixture
async def far(slurm: SlurmAtHand) -> AsyncIterator[FarSite]:
    with tempfile.TemporaryDirectory(prefix="kalends-far-") as top:
        slurm_conf = f', SLURM_CONF = "{slurm.configuration}"'
        site = FarSite(Path(top), slurm.user, "slurm", slurm_conf)
        async with cleared(slurm), far_site(site):
            yield site


async def listed(slurm: SlurmAtHand) -> list[str]:
    return (await slurm.said("squeue", "-h", "-o", "%j %T")).splitlines()


async def test_a_job_waits_in_slurm_runs_there_and_tells_how_it_ended(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    first = await far.submit("echo > first; until [ -e go ]; do sleep 0.1; done", nodes=2)
    second = await far.submit("until [ -e go ]; do sleep 0.1; done", nodes=2)
    await far.marked("first")
    text = 'echo "$(id -un) $SLURM_JOB_NUM_NODES"; srun printenv SLURMD_NODENAME | wc -l; exit 7'
    waits = await far.submit(text, nodes=2)
    await far.known_there(waits)
    view = await far.view(waits)
    assert (view.phase, view.predicted) == ("queued", None)
    states = {line.split()[0].split(".")[3]: line.split()[1] for line in await listed(slurm)}
    assert states[str(waits)] == "PENDING"
    (far.marks / "go").touch()
    over = await far.over(waits)
    assert (over.end, over.status) == ("exit", 7)
    async with far.client() as ann:
        assert (await ann.job_output(FAR, waits)).data == f"{slurm.user} 2\n2\n".encode()
    for each in (first, second):
        assert (await far.over(each)).end == "exit"


async def test_a_job_is_killed_in_slurm_whether_it_waits_or_runs(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    runs = await far.submit("echo > up; exec sleep 100000", nodes=2)
    other = await far.submit("exec sleep 100000", nodes=2)
    await far.marked("up")
    await far.seen(other, lambda view: view.phase == "running")
    waits = await far.submit("echo > never", nodes=2)
    await far.known_there(waits)
    async with far.client() as ann:
        await ann.kill_job(FAR, waits)
        assert (await far.over(waits)).phase == "withdrawn"
        for each in (runs, other):
            await ann.kill_job(FAR, each)
            assert (await far.over(each)).end == "killed"

    async def gone() -> bool:
        return not await listed(slurm)

    await until(gone, "Slurm has nothing more of it")
    assert not (far.marks / "never").exists()


async def test_a_job_that_somebody_removes_before_it_begins_is_told_as_not_started(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    for _ in range(2):
        fills = await far.submit("until [ -e go ]; do sleep 0.1; done", nodes=2)
        await far.seen(fills, lambda view: view.phase == "running")
    waits = await far.submit("echo > never", nodes=2)
    await slurm.said("scancel", await far.known_there(waits))
    over = await far.over(waits)
    (far.marks / "go").touch()
    assert over.end == "not-started"
    assert "distant no longer has it" in over.detail


async def test_a_controller_that_is_away_loses_no_job(far: FarSite, slurm: SlurmAtHand) -> None:
    job = await far.submit("echo > up; until [ -e go ]; do sleep 0.1; done; exit 5")
    await far.marked("up")
    await slurm.stop()
    try:
        refused = await far.over(await far.submit("true"))
        assert refused.end == "not-started"
        assert refused.detail.startswith("distant refused it:")
        await far.site.kill()
        await far.site.start()
        assert (await far.seen(job, lambda view: view.phase == "running")).attempt == 1
    finally:
        await slurm.start()
    (far.marks / "go").touch()
    over = await far.over(job)
    assert (over.end, over.status, over.attempt) == ("exit", 5, 1)
