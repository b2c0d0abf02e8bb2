"""Jobs on a real site: started once, never lost, beside reservations, whatever is killed when."""

from __future__ import annotations

import asyncio
import pwd
import random
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kalends.contract.job_calls import ReservedRow
from kalends.core.errors import Conflict, InvalidInput, NotAllowed, NotFound

from .laboratory import MACHINE, UNIX_USER, USER, Laboratory, laboratories, laboratory
from .servers import is_true, until
from .test_reserved_jobs import booking_with

__all__ = ["laboratory"]


@pytest.fixture
async def guarded() -> AsyncIterator[Laboratory]:
    """A site that asks for tokens: whoever has none of an operator is one."""
    async for each in laboratories(keyed=True):
        yield each


async def test_a_job_runs_on_its_nodes_and_how_it_ended_is_told(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        request = laboratory.job("echo on $KALENDS_NODES; exit 3", nodes=2, name="three")
        made = await client.submit(request, key="the-first")
        assert (made.job.job, made.count) == (1, 1)
        assert (await client.submit(request, key="the-first")).job.job == 1
        view = await laboratory.over(client, 1)
        assert (view.end, view.status, view.name) == ("exit", 3, "three")
        assert len(view.node_numbers) == 2
        output = await client.job_output(MACHINE, 1)
        assert output.data == b"on 0,1\n"
        usage = await client.job_usage(MACHINE, start=0, end=view.over + 1)
        assert [(row.user, row.jobs) for row in usage.rows] == [(USER, 1)]


async def test_output_is_read_from_the_file_that_its_user_has_named(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        text = "echo said; echo cried >&2; sleep 0.5; echo more"
        request = laboratory.job(text, output="out-%j", error="err-%j")
        number = (await client.submit(request)).job.job
        assert (
            b"".join([each async for each in client.follow_output(MACHINE, number)])
            == b"said\nmore\n"
        )
        cried = await client.job_output(MACHINE, number, stream="error")
        assert cried.data == b"cried\n"
        named = laboratory.marks / f"out-{number}"
        named.unlink()
        named.symlink_to("/etc/passwd")
        with pytest.raises((NotAllowed, NotFound)):
            await client.job_output(MACHINE, number)


async def test_what_can_never_run_is_refused_or_ends_with_the_reason(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        with pytest.raises(InvalidInput, match="5 nodes can never be free"):
            await client.submit(laboratory.job("true", nodes=5))
        absent = laboratory.job("", command=("no-such-program",))
        number = (await client.submit(absent)).job.job
        view = await laboratory.over(client, number)
        assert (view.end, view.node_seconds) == ("not-started", 0)
        assert "there is no command no-such-program" in view.detail


@pytest.mark.skipif(not UNIX_USER, reason="whose home is missing is only known of the user nobody")
async def test_who_has_no_home_on_a_machine_is_told_and_that_another_folder_can_be_named(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        request = msgspec.structs.replace(laboratory.job("true"), directory="")
        view = await laboratory.over(client, (await client.submit(request)).job.job)
        home = pwd.getpwnam(UNIX_USER).pw_dir
        assert view.detail.startswith(f"cannot enter {home}, the home of {UNIX_USER} here (")


@pytest.mark.skipif(not UNIX_USER, reason="only root can run jobs as others")
async def test_a_site_of_root_that_asks_for_no_tokens_says_what_that_means(
    laboratory: Laboratory, guarded: Laboratory
) -> None:
    assert "can run programs as any user but root" in laboratory.site.log()
    assert "can run programs as any user but root" not in guarded.site.log()


async def test_others_see_that_a_job_is_there_and_can_do_nothing_with_it(
    guarded: Laboratory,
) -> None:
    async with guarded.client() as client, guarded.client("eve") as stranger:
        number = (await client.submit(guarded.job("sleep 60", name="secret"))).job.job
        (view,) = (await stranger.jobs(MACHINE, everyone=True)).jobs
        assert (view.job, view.user, view.command, view.name) == (number, USER, (), "")
        with pytest.raises(NotAllowed):
            await stranger.job_output(MACHINE, number)
        with pytest.raises(NotAllowed):
            await stranger.kill_job(MACHINE, number)

        async def runs() -> bool:
            return (await client.job(MACHINE, number)).phase == "running"

        await until(runs, "it runs: before, it would be withdrawn")
        await client.kill_job(MACHINE, number)
        assert (await guarded.over(client, number)).end == "killed"
        with pytest.raises(NotAllowed):
            await stranger.kill_job(MACHINE, number)


async def test_waiting_jobs_are_held_released_and_withdrawn(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        await client.submit(laboratory.job("sleep 60", nodes=4))
        number = (await client.submit(laboratory.marking(0))).job.job
        held = await client.hold_job(MACHINE, number)
        assert (held.phase, held.reasons) == ("held", ("held by its user",))
        with pytest.raises(Conflict):
            await client.hold_job(MACHINE, 1)
        await client.kill_job(MACHINE, 1)
        assert (await client.job(MACHINE, number)).phase == "held"
        assert "held by its user" not in (await client.release_job(MACHINE, number)).reasons
        assert (await laboratory.over(client, number)).end == "exit"
        waiting = laboratory.marking(0, held=True)
        number = (await client.submit(waiting)).job.job
        assert (await client.kill_job(MACHINE, number)).phase == "withdrawn"


async def test_an_array_is_held_released_and_ended_as_one(laboratory: Laboratory) -> None:
    async with laboratory.client() as client:
        alone = (await client.submit(laboratory.job("true", nodes=4, held=True))).job.job
        array = laboratory.job("echo $KALENDS_INDEX >> marks; sleep 60", indices=tuple(range(600)))
        made = await client.submit(array)
        first, last = made.job.job, made.job.job + made.count - 1
        await until(lambda: is_true(laboratory.marked().total() == 4), "four run")
        await client.hold_job(MACHINE, last, array=True)
        assert (await client.job(MACHINE, first)).phase == "running"
        assert (await client.job(MACHINE, first + 4)).reasons == ("held by its user",)
        assert (await client.release_job(MACHINE, first, array=True)).phase == "running"
        assert (await client.job(MACHINE, first + 4)).phase == "queued"
        await client.kill_job(MACHINE, first + 300, array=True)
        assert (await laboratory.over(client, first)).end == "killed"
        assert (await laboratory.over(client, first + 4)).end == "withdrawn"
        assert [view.job for view in (await client.jobs(MACHINE)).jobs] == [alone]
        assert laboratory.marked().total() == 4, "none was started in the place of another"
        with pytest.raises(InvalidInput, match=f"job {alone} is not part of an array"):
            await client.kill_job(MACHINE, alone, array=True)


async def test_jobs_outlive_the_site_and_are_taken_over_by_the_next_one(
    laboratory: Laboratory,
) -> None:
    async with laboratory.client() as client:
        long = (await client.submit(laboratory.marking(4))).job.job
        short = (await client.submit(laboratory.marking(0.2))).job.job
        queued = (await client.submit(laboratory.marking(0, nodes=4))).job.job
        await until(
            lambda: is_true(laboratory.marked()[f"begin {short}"] and laboratory.marked()[f"begin {long}"]),
            "both have begun",
        )  # fmt: skip
    await laboratory.site.kill()
    await laboratory.site.start()
    async with laboratory.client() as client:
        for number in (short, long, queued):
            assert (await laboratory.over(client, number)).end == "exit"
    assert set(laboratory.marked().values()) == {1}


async def test_no_job_is_lost_or_started_twice_however_often_the_site_is_killed(
    laboratory: Laboratory,
) -> None:
    chance = random.Random(14)
    accepted: dict[int, str] = {}
    for round_number in range(8):
        async with laboratory.client() as client:
            for number in range(6):
                key = f"the-job-{round_number}-{number}"
                request = laboratory.marking(
                    chance.choice([0, 0.1, 1.5]), nodes=chance.randint(1, 4)
                )
                made = await client.submit(request, key=key)
                accepted[made.job.job] = key
            await asyncio.sleep(chance.uniform(0, 1.0))
        await laboratory.site.kill()
        await laboratory.site.start()
    async with laboratory.client() as client:
        for number in accepted:
            assert (await laboratory.over(client, number)).end == "exit"
    marked = laboratory.marked()
    assert len(accepted) == 48
    assert all(marked[f"begin {number}"] == marked[f"end {number}"] == 1 for number in accepted)


async def test_a_reservation_and_jobs_never_have_the_same_nodes(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """What runs, no broker is offered; what is reserved, no job is given."""
    async with laboratory.client() as client, booking_with(laboratory, tmp_path, "bob") as booker:
        await client.submit(laboratory.job("sleep 60", nodes=2, limit_s=30))
        found = await booker.find(f"{MACHINE}:3", duration="10s")
        busy = await client.job(MACHINE, 1)
        assert found.candidates[0].start >= busy.until
        booked = await booker.book(f"{MACHINE}:4", duration="40s", at=busy.until + 20)
        assert booked.state == "reserved"
        # It would still run when the reservation begins: so it waits for the end of that.
        number = (await client.submit(laboratory.job("true", nodes=1, limit_s=300))).job.job
        view = await client.job(MACHINE, number)
        assert view.phase == "queued"
        short = (await client.submit(laboratory.job("true", nodes=1, limit_s=5))).job.job
        assert (await laboratory.over(client, short)).end == "exit"
        await booker.cancel(booked.id)
        assert (await laboratory.over(client, number)).end == "exit"
        usage = await client.job_usage(MACHINE, start=0, end=busy.until + 100, everyone=True)
        assert usage.reserved == (), "it was given back before it began"


async def test_a_reservation_that_has_begun_is_charged_used_or_not(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    async with laboratory.client() as client, booking_with(laboratory, tmp_path, "bob") as booker:
        booked = await booker.book(f"{MACHINE}:3", duration="10m", at="now+2s")

        async def charged() -> tuple[ReservedRow, ...]:
            end = booked.claims[0].end + 1
            view = await client.job_usage(MACHINE, start=0, end=end, everyone=True)
            return view.reserved

        (row,) = await until(charged, "it has begun")
        assert (row.user, row.reservations, row.node_seconds) == ("bob", 1, 3 * 600)
        assert row.credit_seconds == 3 * 600 * 20
        await laboratory.site.kill()
        await laboratory.site.start()
        assert await charged() == (row,)


async def test_what_each_start_of_a_job_has_written_can_be_read(laboratory: Laboratory) -> None:
    """Whoever follows its output reads the later start from its first byte on."""
    text = "echo this is attempt $KALENDS_ATTEMPT; [ $KALENDS_ATTEMPT = 2 ] || sleep 600"
    async with laboratory.client() as client:
        number = (await client.submit(laboratory.job(text, rerun=True))).job.job
        followed = client.follow_output(MACHINE, number)
        heard = await anext(followed)
        (node,) = (await client.job(MACHINE, number)).node_numbers
        await client.serve_nodes(MACHINE, "fail", [node], detail="new fans")
        heard += b"".join([piece async for piece in followed])
        assert heard == b"this is attempt 1\nthis is attempt 2\n"
        read = [await client.job_output(MACHINE, number, attempt=each) for each in (0, 1, 2)]
        assert [(each.data, each.attempt) for each in read] == [
            (b"this is attempt 2\n", 2), (b"this is attempt 1\n", 1), (b"this is attempt 2\n", 2),
        ]  # fmt: skip
        with pytest.raises(NotFound, match="no attempt 3: it was started 2 times"):
            await client.job_output(MACHINE, number, attempt=3)


async def test_many_jobs_are_submitted_in_one_call_up_to_the_first_that_is_refused(
    laboratory: Laboratory,
) -> None:
    """Repeated with the same key, no job is submitted twice, and what was refused can be changed."""
    jobs = [laboratory.job("true", nodes=nodes, held=True) for nodes in (1, 9, 1)]
    many = [laboratory.job(f"echo {each}", held=True) for each in range(20)]
    async with laboratory.client() as client:
        submitted = client.submit_many(jobs, key="many-jobs")
        assert (await anext(submitted)).job == 1
        with pytest.raises(InvalidInput, match="9 nodes can never be free") as refused:
            await anext(submitted)
        assert refused.value.where == "jobs[1].nodes"
        jobs[1] = laboratory.job("true", indices=(7, 8), held=True)
        for _ in range(2):
            found = [(e.job, e.count) async for e in client.submit_many(jobs, key="many-jobs")]
            assert found == [(1, 1), (2, 2), (4, 1)]
        numbers = [each.job async for each in client.submit_many(many)]
        assert numbers == list(range(5, 25))
        assert (await client.job(MACHINE, 24)).command[-1] == "echo 19"
