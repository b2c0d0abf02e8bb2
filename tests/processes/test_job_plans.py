"""What a real site says of its schedule: to its users, as it is drawn, and what they can make of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import erring_policies
import pytest

from kalends.contract.job_calls import JobView
from kalends.core.errors import NotAllowed

from .laboratory import MACHINE, Laboratory, laboratories
from .servers import until

OWN = "erring_policies:ErrsWhenTold:2:said=two"


@pytest.fixture
async def laboratory() -> AsyncIterator[Laboratory]:
    async for laboratory in laboratories(keyed=True):
        yield laboratory


@pytest.fixture
async def capricious() -> AsyncIterator[Laboratory]:
    """A machine whose owner has a policy of their own, which errs at the second end of a job."""
    path = str(Path(erring_policies.__file__).parent)
    rules = f'policy = "{OWN}"'
    async for laboratory in laboratories(rules=rules, path=path):
        yield laboratory


async def test_the_schedule_has_what_runs_and_what_waits_and_the_free_nodes(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client, laboratory.client("eve") as stranger:
        first = (await client.submit(laboratory.job("sleep 60", nodes=3, limit_s=300))).job
        second = await client.submit(laboratory.job("true", nodes=4, limit_s=100, name="secret"))

        async def foreseen() -> bool:
            return len((await client.machine_plan(MACHINE)).jobs) == 2

        await until(foreseen, "the second job is foreseen")
        plan = await client.machine_plan(MACHINE)
        running, waiting = plan.jobs
        assert (running.job, running.node_numbers) == (first.job, (0, 1, 2))
        assert running.end - running.start == 300
        assert (waiting.job, waiting.name) == (second.job.job, "secret")
        assert waiting.start >= running.end
        assert waiting.end - waiting.start == 100
        assert [nodes for _, nodes in plan.free] == [1, 0, 4]
        assert [job.name for job in (await stranger.machine_plan(MACHINE)).jobs] == ["", ""]
        await client.submit(laboratory.job("true", held=True))
        later = plan.now + 3_600
        await client.submit(laboratory.job("true", at=later, limit_s=60))
        await until(foreseen, "the second job is foreseen again")
        plan = await client.machine_plan(MACHINE)
        assert (plan.unplanned, [each.start for each in plan.reservations]) == (1, [later])


async def test_a_gap_that_is_told_can_be_filled_at_once_and_nothing_longer(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        await client.submit(laboratory.job("sleep 60", nodes=3, limit_s=300))
        head = (await client.submit(laboratory.job("true", nodes=4, limit_s=100))).job.job
        gaps = (await client.machine_gaps(MACHINE)).gaps
        assert [gap.nodes for gap in gaps] == [1]
        left_s = gaps[0].until - (await client.machine_plan(MACHINE)).now
        longer = (await client.submit(laboratory.job("true", limit_s=left_s + 60))).job
        assert (longer.phase, longer.job) == ("queued", head + 1)
        fitting = (await client.submit(laboratory.job("true", limit_s=left_s - 5))).job
        assert fitting.phase != "queued"


async def test_who_watches_a_job_is_told_when_its_start_moves_and_what_becomes_of_it(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        await client.submit(laboratory.job("sleep 60", nodes=4, limit_s=900))
        second = (await client.submit(laboratory.job("sleep 60", nodes=4, limit_s=900))).job.job
        number = (await client.submit(laboratory.job("exit 3", nodes=4))).job.job
        watching = client.watch_job(MACHINE, number)
        seen = [await anext(watching)]
        while seen[-1].predicted is None:
            seen.append(await anext(watching))
        before = seen[-1].predicted.expected
        await client.kill_job(MACHINE, second)
        moved = await anext(watching)
        assert moved.phase == "queued"
        assert moved.predicted is not None
        assert before - moved.predicted.expected > 60
        await client.kill_job(MACHINE, 1)
        phases = [view.phase async for view in watching if view.phase != "queued"]
        assert phases[-1] == "ended"
        assert set(phases) <= {"starting", "running", "ended"}
        assert len(phases) == len(set(phases)), "each is told once"
        assert (await client.job(MACHINE, number)).status == 3


async def test_an_owners_policy_has_its_parameters_and_is_disabled_when_it_errs_with_no_job_lost(
    capricious: Laboratory,
) -> None:
    async with capricious.client() as client:
        assert (await client.jobs(MACHINE)).machines[0].policy == OWN
        numbers = [(await client.submit(capricious.marking(0, nodes=3))).job.job for _ in range(4)]
        for number in numbers:
            assert (await capricious.over(client, number)).end == "exit"
        (load,) = (await client.jobs(MACHINE)).machines
        assert (load.policy, "ended raised KeyError" in load.policy_disabled) == (
            "easy-priority",
            True,
        )
        assert "two too many" in load.policy_disabled
        problems = (await client.audit()).problems
        assert any("the policy was disabled, easy-priority decides" in each for each in problems)
    await capricious.site.kill()
    await capricious.site.start()
    async with capricious.client() as client:
        assert (await client.jobs(MACHINE)).machines[0].policy_disabled == load.policy_disabled
        assert any("was disabled" in each for each in (await client.audit()).problems)
        with pytest.raises(NotAllowed, match="is not in the configuration"):
            await client.set_policy(MACHINE, "os:getcwd")
        with pytest.raises(NotAllowed, match="is not in the configuration"):
            await client.set_policy(MACHINE, OWN.replace("2", "3"))
        back = await client.set_policy(MACHINE, OWN)
        assert (back.policy, back.policy_disabled) == (OWN, "")
        assert not any("was disabled" in each for each in (await client.audit()).problems)
        number = (await client.submit(capricious.marking(0))).job.job
        assert (await capricious.over(client, number)).end == "exit"
    assert set(capricious.marked().values()) == {1}


async def test_one_call_follows_all_jobs_of_a_user_also_over_a_restart_of_the_site(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client, laboratory.client("eve") as stranger:
        first = (await client.submit(laboratory.job("sleep 60", nodes=4))).job.job
        watching = client.watch_jobs(MACHINE)
        while (view := await anext(watching)).phase != "running":
            assert view.job == first
        others = await stranger.moved_jobs(MACHINE)
        second = (await client.submit(laboratory.job("exit 3", nodes=4))).job.job
        while (view := await anext(watching)).job == first:
            pass  # It may have moved twice before anybody looked.
        assert (view.job, view.phase) == (second, "queued")
        await laboratory.site.kill()
        await laboratory.site.start()
        await client.kill_job(MACHINE, first)
        ended: dict[int, JobView] = {}
        while len(ended) < 2:
            if (view := await anext(watching)).end:
                ended[view.job] = view
        assert {number: view.end for number, view in ended.items()} == {
            first: "killed",
            second: "exit",
        }
        assert ended[second].status == 3
        assert (await stranger.moved_jobs(MACHINE, others, wait_s=0)).jobs == ()


async def test_all_jobs_are_followed_on_the_command_line_until_they_are_over(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        for text in ("sleep 60", "exit 3"):
            await client.submit(laboratory.job(text, nodes=4))
        watching = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kalends", "queue", MACHINE, "--watch",
            "--broker", laboratory.site.url, "--token", laboratory.token(),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert watching.stdout is not None
        while f"{MACHINE}/2 queued".encode() not in await watching.stdout.readline():
            pass
        await client.kill_job(MACHINE, 1)
        said = (await watching.stdout.read()).decode()
        assert await watching.wait() == 0
    assert f"{MACHINE}/1 ended: killed" in said
    assert f"{MACHINE}/2 ended: exit 3" in said
