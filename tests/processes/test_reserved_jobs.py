"""Jobs in reservations that a broker has booked: real sites, real programs, whatever is killed when."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kalends
from kalends.core.errors import Conflict, InvalidInput, NoCommonTime, NotFound, Unavailable
from kalends.core.jobs import LimitWarning
from tests.support.ports import free_urls

from .facility import broker_text, write
from .laboratory import laboratories
from .servers import Server, until
from .test_jobs import MACHINE, USER, Laboratory, laboratory

__all__ = ["laboratory"]


@pytest.fixture
async def impatient() -> AsyncIterator[Laboratory]:
    """A site whose queue gets the nodes of a reservation that nobody uses for three seconds."""
    async for each in laboratories(rules='no_show = "3s"'):
        yield each


@contextlib.asynccontextmanager
async def booking_with(
    laboratory: Laboratory, directory: Path, user: str = USER, at: str = ""
) -> AsyncIterator[kalends.Client]:
    """A broker before the laboratory, and its client; it listens `at` an address, or at any."""
    url = at or free_urls(1)[0]
    text = broker_text(url, {"lab": laboratory.site.url})
    broker = Server("broker", write(directory / "broker.toml", text), url)
    await broker.start()
    try:
        async with kalends.connect(url, user=user, zone="UTC") as booker:

            async def offered() -> bool:
                return bool((await booker.resources()).resources)

            await until(offered, "the site is known")
            yield booker
    finally:
        await broker.stop()


async def test_jobs_run_in_their_reservation_and_end_with_it_while_the_site_is_dead(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(laboratory, tmp_path) as booker, laboratory.client() as client:
        start = int(time.time()) + 6
        booked = await booker.book(f"{MACHINE}:4", duration="8s", at=start)
        whole = laboratory.job(
            "trap 'echo warned >> marks' USR1; echo began >> marks;"
            " while :; do sleep 0.1; done", nodes=2, limit_s=0, reservation=booked.id,
            warning=LimitWarning(before_s=3, signal="USR1"),
        )  # fmt: skip
        number = (await client.submit(whole)).job.job
        short = (await client.submit(laboratory.marking(0, limit_s=2, reservation=booked.id))).job
        assert short.predicted is not None
        assert short.predicted.latest == start
        with pytest.raises(InvalidInput, match="4 nodes for 8s"):
            await client.submit(laboratory.job("true", nodes=2, limit_s=9, reservation=booked.id))
        async with laboratory.client("eve") as stranger:
            with pytest.raises(NotFound, match="no reservation of yours"):
                await stranger.submit(laboratory.job("true", reservation=booked.id, limit_s=1))
        assert (await laboratory.over(client, short.job)).started >= start
        await until(lambda: _marked(laboratory, "began"), "it has begun")
        found = await booker.find(f"{MACHINE}:1", duration="1s")
        assert found.candidates[0].start >= start + 8, "what the jobs have left is reserved still"
    await laboratory.site.kill()
    await until(lambda: _marked(laboratory, "warned"), "it was warned")
    await laboratory.site.start()
    async with laboratory.client() as client:
        view = await laboratory.over(client, number)
        assert (view.end, view.reservation) == ("limit", booked.id)
        assert view.over >= start + 8
        with pytest.raises(Conflict, match="has ended"):
            await client.submit(laboratory.job("true", reservation=booked.id, limit_s=1))


async def test_a_job_runs_to_the_new_end_of_a_reservation_that_is_made_longer_while_it_runs(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(laboratory, tmp_path) as booker, laboratory.client() as client:
        start = int(time.time()) + 3
        booked = await booker.book(f"{MACHINE}:2", duration="20s", at=start)
        job = laboratory.job("echo began >> marks; sleep 1000", limit_s=0, reservation=booked.id)
        number = (await client.submit(job)).job.job
        await until(lambda: _marked(laboratory, "began"), "it has begun")
        longer = await booker.extend(booked.id, by="1h")
        assert (longer.start, longer.end) == (start, start + 3_620)

        async def ends() -> bool:
            predicted = (await client.job(MACHINE, number)).until
            return predicted == longer.end

        await until(ends, "it may run to the new end")
        shorter = await booker.shrink(booked.id, by="1h")
        view = await laboratory.over(client, number)
        assert (view.end, shorter.end) == ("limit", start + 20)
        assert view.over >= start + 20


async def test_jobs_follow_a_reservation_that_is_moved_and_end_with_one_that_is_cancelled(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(laboratory, tmp_path) as booker, laboratory.client() as client:
        start = int(time.time()) + 3_600
        booked = await booker.book(f"{MACHINE}:2", duration="10m", at=start)
        number = (
            await client.submit(laboratory.job("sleep 60", limit_s=300, reservation=booked.id))
        ).job.job
        assert (await client.job(MACHINE, number)).phase == "queued"
        moved = await booker.move(booked.id, int(time.time()) + 8)
        longer = await booker.extend(moved.id, by="10m")
        assert longer.id == booked.id

        async def runs() -> bool:
            return (await client.job(MACHINE, number)).phase == "running"

        await until(runs, "it runs in the new time")
        waiting = laboratory.job("true", nodes=2, limit_s=60, reservation=longer.id)
        second = (await client.submit(waiting)).job.job
        await booker.cancel(longer.id)
        view = await laboratory.over(client, number)
        assert (view.end, view.detail) == ("killed", "its reservation no longer has these nodes")
        view = await laboratory.over(client, second)
        assert (view.phase, view.detail) == ("withdrawn", "its reservation was cancelled")


async def test_a_job_with_a_fixed_start_is_booked_for_brokers_to_see_and_starts_then(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(laboratory, tmp_path) as booker, laboratory.client() as client:
        at = int(time.time()) + 600
        far = (await client.submit(laboratory.job("true", nodes=3, limit_s=60, at=at))).job
        assert (far.phase, far.at) == ("queued", at)
        with pytest.raises(Conflict, match="2 nodes are not free then"):
            await client.submit(laboratory.job("true", nodes=2, limit_s=60, at=at + 30))
        found = await booker.find(f"{MACHINE}:2", duration="60s", at=at)
        assert not found.candidates
        booked = await booker.book(f"{MACHINE}:1", duration="60s", at=at)
        with pytest.raises(Conflict, match="1 nodes are not free then"):
            await client.submit(laboratory.job("true", limit_s=60, at=at))
        with pytest.raises(InvalidInput, match="the last possible start has passed"):
            await client.submit(laboratory.job("true", limit_s=60, at=at - 1_200))
        await client.kill_job(MACHINE, far.job)
        await booker.cancel(booked.id)
        soon = int(time.time()) + 8
        number = (await client.submit(laboratory.marking(0, nodes=4, limit_s=60, at=soon))).job.job
        await laboratory.site.kill()
        await laboratory.site.start()
        # On a slow machine it has come meanwhile.
        refused = pytest.raises(
            (Conflict, InvalidInput), match=r"not free then|the last possible start has passed"
        )
        with refused:
            await client.submit(laboratory.job("true", limit_s=60, at=soon))
        assert (await laboratory.over(client, number)).started >= soon
        assert laboratory.marked()[f"begin {number}"] == 1


async def test_nodes_of_a_reservation_for_which_nobody_comes_run_jobs_and_are_nobody_elses(
    impatient: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(impatient, tmp_path) as booker:
        start = int(time.time()) + 2
        booked = await booker.book(f"{MACHINE}:4", duration="1h", at=start)
        async with impatient.client() as client:
            job = impatient.job("while :; do sleep 0.1; done", nodes=3, limit_s=7_200)
            number = (await client.submit(job)).job.job

            async def runs() -> bool:
                return (await client.job(MACHINE, number)).phase == "running"

            await until(runs, "the queue has the nodes")
            assert (await client.job(MACHINE, number)).started >= start + 3
        await impatient.site.kill()
        await impatient.site.start()
        async with impatient.client() as client:
            assert (await client.job(MACHINE, number)).phase == "running"
            late = impatient.job("true", limit_s=60, reservation=booked.id)
            with pytest.raises(Conflict, match="not used in time"):
                await client.submit(late)
            behind = (await client.submit(impatient.job("true"))).job.job
            assert (await impatient.over(client, behind)).end == "exit"

            async def offered(units: int) -> int:
                found = await booker.find(f"{MACHINE}:{units}", duration="10m")
                return found.candidates[0].start

            async def known() -> bool:
                with contextlib.suppress(Unavailable):
                    return bool((await booker.find(f"{MACHINE}:1", duration="10m")).candidates)
                return False

            async def cancelled() -> bool:
                return await offered(1) < start + 3_600

            await until(known, "the broker has met the site again")
            assert await offered(1) >= start + 3_600, "the reservation stands in the calendar"
            assert await offered(2) >= start + 7_200, "and then the job, on its other nodes"
            await booker.cancel(booked.id)
            await until(cancelled, "the site has heard of it")
            assert await offered(2) >= start + 7_200, "the job has its nodes without it, too"
            usage = await client.job_usage(MACHINE, start=start, end=int(time.time()) + 60)
            (charged,) = usage.reserved
            assert charged.credit_seconds >= 20 * 4 * 3, "not used, and charged all the same"
            await client.kill_job(MACHINE, number)


async def _marked(laboratory: Laboratory, mark: str) -> bool:
    return bool(laboratory.marked()[mark])


async def test_each_start_is_priced_with_the_jobs_that_it_would_delay(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    (url,) = free_urls(1)
    async with booking_with(laboratory, tmp_path, at=url), laboratory.client() as client:
        await client.submit(laboratory.job("sleep 1000", nodes=4, limit_s=600))
        waiting = (await client.submit(laboratory.job("true", nodes=2, limit_s=600))).job.job
        now_s = int(time.time())
        soon, late = now_s + 700, now_s + 5_000
        told = (await client.machine_delays(MACHINE, 4, 1_200, [soon, late, now_s + 60])).starts
        first, second, third = told
        assert (first.jobs, [each.job for each in first.own]) == (1, [waiting])
        assert first.longest_s == first.own[0].later_s > 1_000
        assert (second.jobs, second.own) == (0, ())
        assert third.jobs == -1, "it has no room"
        async with laboratory.client("eve") as other:
            (seen,) = (await other.machine_delays(MACHINE, 4, 1_200, [soon])).starts
            assert (seen.jobs, seen.own) == (1, ())
        printed = await found(url, f"{MACHINE}:4", "--for", "20m", "--explain")
        assert "JOBS DELAYED" in printed
        assert "1, by up to" in printed


async def found(broker: str, *words: str) -> str:
    """What ``kalends find`` prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kalends", "find", *words,
        env={**os.environ, "KALENDS_BROKER": broker, "KALENDS_USER": USER, "KALENDS_ZONE": "UTC"},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    return printed.decode()


@pytest.fixture
async def meshed() -> AsyncIterator[Laboratory]:
    """A site whose four nodes lie in a square: what crosses it is no partition."""
    rules = 'shape = "mesh2d:2x2"\npolicy = "conservative"'
    async for each in laboratories(rules=rules):
        yield each


async def test_on_a_mesh_a_reservation_is_refused_where_its_nodes_make_no_partition(
    meshed: Laboratory, tmp_path: Path
) -> None:
    async with booking_with(meshed, tmp_path) as booker, meshed.client() as client:
        jobs = [await client.submit(meshed.job("sleep 600", limit_s=600)) for _ in range(4)]
        on_node = {each.job.node_numbers[0]: each.job.job for each in jobs}
        for node in (0, 3):
            await client.kill_job(MACHINE, on_node[node])
            await meshed.over(client, on_node[node])
        start = int(time.time()) + 60
        with pytest.raises(NoCommonTime) as refused:
            await booker.book(f"{MACHINE}:2", duration="60s", at=start)
        assert "form no partition of 2" in refused.value.refusals[0].detail
        one = await booker.book(f"{MACHINE}:1", duration="60s", at=start)
        later = await booker.book(f"{MACHINE}:2", duration="60s", at=start + 600)
        assert [one.state, later.state] == ["reserved", "reserved"]
