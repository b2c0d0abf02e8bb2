"""Jobs that a site hands over by PSI/J to a real Slurm, as to any system that it has no adapter for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.backends.far_site import FAR, FarSite
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.backends.test_slurm_own_queue import before_slurm, nothing_left

pytestmark = [pytest.mark.xdist_group("batch-jobs"), pytest.mark.needs_slurm]


@pytest.fixture
async def far(slurm: SlurmAtHand) -> AsyncIterator[FarSite]:
    async with before_slurm(slurm, executor="slurm") as site:
        yield site


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
    await nothing_left(slurm)
    assert not (far.marks / "never").exists()


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
