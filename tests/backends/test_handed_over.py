"""Jobs that a site hands over to a batch system by PSI/J: its executor `local` starts real processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.backends.desks.check_up import check_handing_over
from kalends.batch.shepherds import linux
from kalends.core.errors import InvalidInput, NotAllowed, RefusalCode
from kalends.core.jobs import JobRequest
from kalends.resource_servers.setup.configured_hand_over import handed_over_of
from kalends.serving.configuration import load_configuration
from tests.backends.far_site import FAR, FarSite, each_job_runs_once, far_site
from tests.process_tree import descendants
from tests.processes.servers import until
from tests.support.job_folders import folder_of_jobs

pytest.importorskip("psij")


@pytest.fixture
async def far() -> AsyncIterator[FarSite]:
    with folder_of_jobs("kalends-far-") as top:
        async with far_site(FarSite(Path(top))) as opened:
            yield opened


async def test_what_is_advisory_is_shown_so_and_never_promised(far: FarSite) -> None:
    await far.broker.start()
    async with far.client(far.broker) as ann:

        async def known() -> bool:
            return len((await ann.resources()).resources) == 2

        await until(known, "the broker knows the site")
        shown = {each.name: each.advisory for each in (await ann.resources()).resources}
        assert shown == {FAR: "distant", "lab/beam": ""}
        found = await ann.find(f"{FAR} + lab/beam", duration="1h", window=("now", "now+1d"))
        assert found.candidates == ()
        assert [each.code for each in found.refusals] == [RefusalCode.ADVISORY]
        for ask in (ann.book, ann.hold):
            with pytest.raises(InvalidInput) as refused:
                await ask(f"{FAR} + lab/beam", duration="1h", window=("now", "now+1d"))
            assert [each.code for each in refused.value.refusals] == [RefusalCode.ADVISORY]
            assert "kalends submit lab/far" in refused.value.refusals[0].detail
        assert (
            await ann.book("lab/beam", duration="1h", window=("now", "now+1d"))
        ).state == "reserved"


async def test_a_job_runs_there_as_its_user_and_is_followed_to_its_end(far: FarSite) -> None:
    job = await far.submit(
        "id -un > who; echo out; echo $KALENDS_JOB $KALENDS_NODE_COUNT; "
        "until [ -e go ]; do sleep 0.05; done; exit 7",
        nodes=2,
    )
    running = await far.seen(job, lambda view: view.phase == "running")
    assert "distant has it as " in running.reasons[0]
    assert running.node_numbers == ()
    assert await far.marked("who") == f"{far.user}\n"
    (far.marks / "go").touch()
    over = await far.over(job)
    assert (over.phase, over.end, over.status, over.attempt) == ("ended", "exit", 7, 1)
    async with far.client() as ann:
        assert (await ann.job_output(FAR, job)).data == f"out\n{job} 2\n".encode()


async def test_a_start_that_nobody_predicts_is_said_to_be_unknown(far: FarSite) -> None:
    async with far.client() as ann:
        submitted = await ann.submit(JobRequest(machine=FAR, command=("/bin/true",), limit_s=60))
        view = submitted.job
        assert (view.phase, view.predicted, view.started) == ("queued", None, 0)
        assert any("distant decides when the job starts" in each for each in view.reasons)
        (load,) = (await ann.jobs(FAR)).machines
        assert (load.decides, load.nodes, load.free) == ("distant", 2, 0)


async def test_jobs_are_handed_over_at_once_however_many_nodes_they_ask_for(far: FarSite) -> None:
    jobs = [
        await far.submit(f"echo > {each}; until [ -e go ]; do sleep 0.05; done", nodes=2)
        for each in range(4)
    ]
    for each in range(4):
        await far.marked(str(each))
    (far.marks / "go").touch()
    for job in jobs:
        assert (await far.over(job)).end == "exit"


async def test_a_home_in_which_no_job_can_be_handed_over_is_named_before_and_after(
    far: FarSite,
) -> None:
    path = far.home.parent / "lab.toml"
    site = load_configuration(path.read_text(), path.parent).site
    assert site is not None
    (handed,) = handed_over_of(site)
    checked = (handed.access, {"ann": far.user}, handed.environment)
    assert (await check_handing_over(*checked)).problems == []
    written = [each for each in (far.home / ".kalends").rglob("*") if each.is_file()]
    assert written == [], "nothing is left of what was tried"
    shutil.rmtree(far.home / ".kalends")
    if os.geteuid() == 0:
        os.chown(far.home, 0, 0)
    far.home.chmod(0o555)
    (problem,) = (await check_handing_over(*checked)).problems
    said = "jobs cannot be handed over from the home of their user: [Errno 13] Permission denied"
    assert problem.startswith(f"no jobs can be handed over for {far.user}: {said}")
    over = await far.over(await far.submit("true", directory="/"))
    assert over.end == "not-started"
    assert over.detail.startswith(said)
    async with far.client() as ann:
        output = await ann.job_output(FAR, over.job)
    assert (output.data, output.ended) == (b"", True), "it never was there to be kept"
    far.home.chmod(0o755)


async def test_a_job_is_killed_there(far: FarSite) -> None:
    job = await far.submit("echo $$ > pid; exec sleep 100000")
    process = int(await far.marked("pid"))
    async with far.client() as ann:
        await ann.kill_job(FAR, job)
    over = await far.over(job)
    assert (over.end, over.detail) == ("killed", "by ann")
    assert linux.start_ticks(process) is None


async def test_a_job_that_vanishes_is_lost_and_not_done(far: FarSite) -> None:
    job = await far.submit("echo $$ > pid; exec sleep 100000")
    await far.marked("pid")
    (folder,) = far.attempts

    async def numbered() -> str:
        # The job may begin before the desk has written down its number.
        path = folder / "native"
        return path.read_text() if path.exists() else ""

    _end_at_once(int(await until(numbered, "the job is numbered")))
    over = await far.over(job)
    assert (over.phase, over.end) == ("lost", "lost")
    assert over.detail.startswith("distant no longer has it")
    assert over.detail.endswith("it has not recorded how it ended")


async def test_what_cannot_be_there_is_refused_with_a_reason(far: FarSite) -> None:
    for refused, more in (
        ("at", {"at": 4_000_000_000}),
        ("terminal", {"terminal": True}),
        ("rerun", {"rerun": True}),
        ("nodes", {"nodes": 3}),
    ):
        with pytest.raises(InvalidInput) as error:
            await far.submit("true", **more)
        assert error.value.where == refused
    async with far.client() as ann:
        with pytest.raises(InvalidInput, match="distant alone decides"):
            await ann.machine_gaps(FAR)
    bob = JobRequest(machine=FAR, command=("/bin/true",), limit_s=60)
    async with kalends.connect(far.site.url, user="bob", zone="UTC") as other:
        with pytest.raises(NotAllowed) as nobody:
            await other.submit(bob)
        assert nobody.value.refusals[0].code == RefusalCode.NO_ACCOUNT


@pytest.mark.parametrize("desks", [True, False], ids=["with its desks", "alone"])
async def test_a_site_that_is_killed_hands_each_job_over_once(far: FarSite, desks: bool) -> None:
    """Whenever that is: what is not known to be there never begins, and the job is handed over again."""
    await each_job_runs_once(far, desks=desks)


async def test_what_is_submitted_and_not_known_never_begins_twice(far: FarSite) -> None:
    """As if all had died between the submission and its number: the script that comes late goes away."""
    job = await far.submit("echo once >> mark; until [ -e go ]; do sleep 0.05; done")
    await far.marked("mark")
    await far.die()
    (folder,) = far.attempts
    (folder / "native").unlink(missing_ok=True)
    await far.site.start()
    late = await asyncio.create_subprocess_exec("/bin/sh", str(folder / "run"))
    assert await late.wait() == 0
    (far.marks / "go").touch()
    assert (await far.over(job)).end == "exit"
    assert (far.marks / "mark").read_text() == "once\n"


def _end_at_once(process: int) -> None:
    """End a process and all that it has started; none of them sees another end, and can say so."""
    stopped: set[int] = set()
    while others := {process, *descendants(process)} - stopped:
        for each in others:
            _signal(each, signal.SIGSTOP)
        stopped |= others
    for each in stopped:
        _signal(each, signal.SIGKILL)


def _signal(process: int, number: int) -> None:
    # It may have ended since it was listed.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
