"""Jobs in the own queue of a real Slurm: submitted there, bid for, and run once, whoever dies when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from kalends.contract.calls import RequestView
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from tests.backends.conformance.system_at_hand import cleared, until
from tests.backends.far_site import FAR, FarSite, each_job_runs_once, far_site
from tests.backends.slurm_at_hand import SlurmAtHand
from tests.support.job_folders import folder_of_jobs

pytestmark = [pytest.mark.xdist_group("batch-jobs"), pytest.mark.needs_slurm]

WAIT = "until [ -e go ]; do sleep 0.1; done"


@asynccontextmanager
async def before_slurm(slurm: SlurmAtHand, executor: str = "") -> AsyncIterator[FarSite]:
    """Provide a site that reaches Slurm by its commands, or by this `executor` of PSI/J."""
    with folder_of_jobs("kalends-own-") as top:
        if executor:
            slurm_conf = f', SLURM_CONF = "{slurm.configuration}"'
            site = FarSite(Path(top), slurm.user, executor, slurm_conf)
        else:
            site = FarSite(Path(top), slurm.user, configuration=slurm.configuration)
        async with cleared(slurm), far_site(site):
            yield site


@pytest.fixture
async def far(slurm: SlurmAtHand) -> AsyncIterator[FarSite]:
    async with before_slurm(slurm) as site:
        yield site


@pytest.fixture(params=["", "slurm"], ids=["by commands", "by PSI/J"])
async def either(slurm: SlurmAtHand, request: pytest.FixtureRequest) -> AsyncIterator[FarSite]:
    async with before_slurm(slurm, request.param) as site:
        yield site


async def listed(slurm: SlurmAtHand) -> list[str]:
    return (await slurm.said("squeue", "-h", "-o", "%j %u %T")).splitlines()


async def nothing_left(slurm: SlurmAtHand) -> None:
    async def gone() -> bool:
        return not await listed(slurm)

    await until(gone, "Slurm has nothing more of it")


async def left_to_broker(
    far: FarSite, text: str, *, wait_s: float = 30.0, **more: object
) -> RequestView:
    """Leave a job to the broker, as soon as that knows the site."""
    wanted = {"limit_s": 60, "directory": "marks", **more}
    job = JobRequest(machine="", command=("/bin/sh", "-c", text), **wanted)  # type: ignore[arg-type]
    async with far.client(far.broker) as ann:

        async def known() -> bool:
            return any(each.queue for each in (await ann.resources()).resources)

        await until(known, "the broker knows the machine")
        return await ann.place_job(job, wait_s=wait_s)


async def test_a_job_waits_in_slurm_runs_as_its_user_and_tells_how_it_ended(
    either: FarSite, slurm: SlurmAtHand
) -> None:
    first = await either.submit(f"echo > first; {WAIT}", nodes=2)
    second = await either.submit(WAIT, nodes=2)
    await either.marked("first")
    text = 'echo "$(id -un) $SLURM_JOB_NUM_NODES"; srun printenv SLURMD_NODENAME | wc -l; exit 7'
    waits = await either.submit(text, nodes=2)
    await either.known_there(waits)
    view = await either.view(waits)
    assert (view.phase, view.predicted) == ("queued", None)
    rows = [line.split() for line in await listed(slurm)]
    assert {user for _, user, _ in rows} == {slurm.user}
    states = {name.split(".")[3]: state for name, _, state in rows}
    assert states[str(waits)] == "PENDING"
    (either.marks / "go").touch()
    over = await either.over(waits)
    assert (over.end, over.status) == ("exit", 7)
    async with either.client() as ann:
        assert (await ann.job_output(FAR, waits)).data == f"{slurm.user} 2\n2\n".encode()
    for each in (first, second):
        assert (await either.over(each)).end == "exit"


async def test_what_is_killed_leaves_slurm_and_nothing_of_others_is_touched(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    own = await slurm.run(["n1"], 300)  # A stranger's.
    runs = await far.submit("echo > up; exec sleep 100000")
    await far.marked("up")
    async with far.client() as ann:
        waits = [await far.submit("echo > never", nodes=2) for _ in range(2)]
        for each in waits:
            await far.known_there(each)
        for each in waits:
            await ann.kill_job(FAR, each)
        await ann.kill_job(FAR, runs)
        for each in waits:
            assert (await far.over(each)).end in ("withdrawn", "exit")
        assert (await far.over(runs)).end == "killed"

    async def alone() -> bool:
        return (await slurm.said("squeue", "-h", "-o", "%i")).split() == [own]

    await until(alone, "only the stranger's job is left")


async def test_a_job_that_somebody_removes_before_it_begins_is_told_as_not_started(
    either: FarSite, slurm: SlurmAtHand
) -> None:
    for _ in range(2):
        fills = await either.submit(WAIT, nodes=2)
        await either.seen(fills, lambda view: view.phase == "running")
    waits = await either.submit("echo > never", nodes=2)
    await slurm.said("scancel", await either.known_there(waits))
    over = await either.over(waits)
    (either.marks / "go").touch()
    assert over.end == "not-started"
    assert "distant no longer has it" in over.detail


async def test_what_slurm_refuses_is_told_in_its_words(far: FarSite, slurm: SlurmAtHand) -> None:
    await slurm.said("scontrol", "update", "PartitionName=main", "State=INACTIVE")
    try:
        over = await far.over(await far.submit("true"))
    finally:
        await slurm.said("scontrol", "update", "PartitionName=main", "State=UP")
    assert over.end == "not-started"
    assert "distant refused it: " in over.detail
    assert "partition" in over.detail


@pytest.mark.parametrize("how", ["frozen", "away"])
async def test_a_job_waits_for_a_controller_that_does_not_answer_and_runs_once(
    far: FarSite, slurm: SlurmAtHand, how: str
) -> None:
    before = await far.submit("true")
    await far.over(before)
    await (slurm.freeze() if how == "frozen" else slurm.stop())
    try:
        job = await far.submit("echo once >> mark; exit 5")

        async def told() -> bool:
            return "batch_system_not_reached" in far.site.log()

        await until(told, "the site says that it has no answer")
        assert not (await far.view(job)).end
    finally:
        await (slurm.thaw() if how == "frozen" else slurm.start())
    over = await far.over(job)
    assert (over.end, over.status, over.attempt) == ("exit", 5, 1)
    await nothing_left(slurm)
    assert (far.marks / "mark").read_text() == "once\n"


async def test_a_site_that_dies_has_each_job_run_once_and_leaves_nothing(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    await each_job_runs_once(far, desks=True)
    await nothing_left(slurm)


# Bids


async def test_slurm_bids_with_the_start_that_it_foresees_and_promises_none(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    await far.broker.start()
    now = int(time.time())
    await slurm.run(slurm.nodes, 600)
    view = await left_to_broker(far, f"echo there; {WAIT}", nodes=2)
    placed = view.placed
    assert placed is not None
    assert (placed.machine, placed.start_by) == (FAR, 0)
    native = await far.known_there(placed.number)
    async with far.client(far.broker) as ann:
        story = " ".join(str(each) for each in (await ann.why(view.id)).events)
    assert f"{FAR} is likely to start by" in story
    foreseen = view.start
    assert now + 500 <= foreseen <= now + 800
    assert (await slurm.said("squeue", "-h", "-j", native, "-o", "%u %D %T")).split() == [
        slurm.user, "2", "PENDING",
    ]  # fmt: skip
    await slurm.cancel_all()


async def test_a_job_that_is_left_to_a_broker_runs_in_slurm_to_its_end(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    await far.broker.start()
    view = await left_to_broker(far, "echo in slurm $SLURM_JOB_ID; exit 3")
    assert view.placed is not None
    over = await far.over(view.placed.number)
    assert (over.end, over.status) == ("exit", 3)
    async with far.client() as ann:
        output = (await ann.job_output(FAR, view.placed.number)).data
    assert output.startswith(b"in slurm ")


async def test_who_cancels_the_request_has_slurm_end_the_job(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    await far.broker.start()
    view = await left_to_broker(far, "echo > up; exec sleep 100000")
    assert view.placed is not None
    await far.marked("up")
    async with far.client(far.broker) as ann:
        await ann.cancel(view.id)
    assert (await far.over(view.placed.number)).end == "killed"
    await nothing_left(slurm)


async def test_a_slurm_that_would_never_run_a_job_makes_no_bid_and_keeps_nothing(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    await far.broker.start()
    await slurm.said("scontrol", "update", "PartitionName=main", "State=INACTIVE")
    try:
        with pytest.raises(InvalidInput) as refused:
            await left_to_broker(far, "echo > never")
        assert "distant: " in str(refused.value.refusals)
    finally:
        await slurm.said("scontrol", "update", "PartitionName=main", "State=UP")
    async with far.client() as ann:
        assert all(each.end for each in (await ann.jobs(FAR)).jobs)
    await nothing_left(slurm)
    assert not (far.marks / "never").exists()


async def test_a_job_waits_for_a_slurm_that_makes_no_bid_while_it_is_away_and_runs_once(
    far: FarSite, slurm: SlurmAtHand
) -> None:
    await far.broker.start()
    first = (await left_to_broker(far, "true")).placed
    assert first is not None
    assert (await far.over(first.number)).end == "exit"
    await slurm.freeze()
    try:
        asked = await left_to_broker(far, "echo once >> mark", wait_s=0)

        async def refused() -> bool:
            async with (
                aiohttp.ClientSession() as http,
                http.get(f"{far.broker.url}/metrics") as answer,
            ):
                return 'kalends_bids_refused{site="lab"} 1.0' in await answer.text()

        await until(refused, "the site makes no bid")
    finally:
        await slurm.thaw()
    async with far.client(far.broker) as ann:
        placed = (await ann.wait(asked.id)).placed
    assert placed is not None
    assert (await far.over(placed.number)).end == "exit"
    await nothing_left(slurm)
    assert (far.marks / "mark").read_text() == "once\n"


async def test_a_bid_takes_no_longer_than_a_broker_waits(far: FarSite, slurm: SlurmAtHand) -> None:
    """All that is asked at the same time comes to the same Slurm, and each job runs."""
    await far.broker.start()
    await left_to_broker(far, "true")
    views = await asyncio.gather(*(left_to_broker(far, f"echo > {each}") for each in range(6)))
    for number, view in enumerate(views):
        assert view.placed is not None
        assert (await far.over(view.placed.number)).end == "exit"
        assert (far.marks / str(number)).exists()
