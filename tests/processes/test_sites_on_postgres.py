"""Sites whose stores are PostgreSQL databases, and their standbys, as processes."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner
from postgres_clusters import Cluster, url_of

import kalends
from kalends.cli import cli
from kalends.core.errors import Unavailable
from tests.postgres.take_over_soak import soak
from tests.support.job_folders import folder_of_jobs

from .customers import base_now_s
from .facility import CAPACITY, GRAIN_S, RESOURCE, connected, make_facility
from .laboratory import MACHINE, Laboratory, opened
from .load import faults, load
from .servers import StartFailed, readiness, running, until
from .site_twins import is_standby, serving, twins_at

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

SECRET = "hunter2-of-the-site"
WHOLE = f"site0/{RESOURCE}:{CAPACITY}"


async def test_a_killed_site_comes_back_with_everything_and_the_guard_of_counts_refuses_nothing(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = make_facility(tmp_path, sites=2, replicas=1, stores={"site0": url_of(alone)})
    site = facility.sites[0]
    text = site.configuration.read_text()
    site.configuration.write_text(text.replace("[site]", "[site]\nguard_counted = true", 1))
    async with running(*facility.servers):
        await connected(facility)
        async with load(facility) as at_work:
            await at_work.more(2)
            await site.kill()
            await site.start()
            await at_work.more(2)
        assert await faults(facility, at_work) == []


async def test_jobs_run_once_and_are_predicted_when_a_site_is_killed(alone: Cluster) -> None:
    with folder_of_jobs("kalends-jobs-") as directory:
        laboratory = Laboratory(Path(directory), store=url_of(alone))
        async for _ in opened(laboratory):
            async with laboratory.client() as client:
                over = (await client.submit(laboratory.marking(0.1))).job.job
                await laboratory.over(client, over)
                runs = (await client.submit(laboratory.marking(2.0, nodes=3))).job.job
                waits = (await client.submit(laboratory.marking(0.1, nodes=4))).job.job

                async def is_running(number: int = runs) -> bool:
                    return f"begin {number}" in laboratory.marked()

                await until(is_running, "the job has begun")
                await laboratory.site.kill()
                await laboratory.site.start()
                assert (await client.machine_gaps(MACHINE)).gaps
                for number in (runs, waits):
                    await laboratory.over(client, number)
                assert (await client.job(MACHINE, over)).phase == "ended"
            assert laboratory.marked() == Counter(
                f"{what} {job}" for job in (over, runs, waits) for what in ("begin", "end")
            )


async def test_a_primary_is_killed_and_its_standby_promoted_and_no_booking_of_a_site_is_lost(
    tmp_path: Path, pair: tuple[Cluster, Cluster]
) -> None:
    primary, standby = pair
    facility = make_facility(
        tmp_path, sites=2, replicas=1, stores={"site0": url_of(primary, standby)}
    )
    async with running(*facility.servers):
        await connected(facility)
        async with load(facility) as at_work:
            await at_work.more(2)
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(standby.promote)
            await at_work.more(2)
        assert await faults(facility, at_work) == []


async def test_a_second_process_of_a_site_stands_by_and_says_so(
    tmp_path: Path, alone: Cluster
) -> None:
    twins = twins_at(tmp_path, url_of(alone))
    async with serving(twins):
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"{twins.second.url}/healthz") as answer,
        ):
            said = await answer.json()
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await http.ws_connect(
                    f"{twins.second.url}/v1/session", headers={"Kalends-User": "npaci-1"}
                )
        assert refused.value.headers is not None
        assert "this one is its standby" in refused.value.headers["Kalends-Why"], "brokers log it"
        assert said["status"] == "standby"
        assert await readiness(twins.second.url) == (503, said)
        assert (said["store"], said["served_on"]) == ("works", os.uname().nodename)
        status, said_first = await readiness(twins.first.url)
        assert (status, said_first["status"], said_first["store"]) == (200, "ok", "works")
        assert f"serves this store, on {os.uname().nodename}" in said["detail"]
        async with kalends.connect(twins.second.url, user="ada", zone="UTC") as ada:
            with pytest.raises(Unavailable, match="this one is its standby"):
                await ada.resources()
        both = [twins.second.url, twins.first.url]
        async with kalends.connect(both, user="ada", zone="UTC") as ada:
            assert (await ada.resources()).resources
        assert await twins.second.stop() == 0


async def test_a_site_that_was_started_twice_in_one_folder_is_refused_and_doctor_says_where_it_runs(
    tmp_path: Path, alone: Cluster
) -> None:
    twins = twins_at(tmp_path, url_of(alone))
    text = twins.second.configuration.read_text()
    same = f'[site]\nfolder = "{tmp_path}"'
    twins.second.configuration.write_text(text.replace("[site]", same, 1))
    async with running(twins.first):
        works = f"works in the folder {tmp_path}: process {twins.first.pid}, at "
        with pytest.raises(StartFailed, match=re.escape(works)) as failed:
            await twins.second.start()
        assert failed.value.code
        assert "start each process once" in failed.value.errors
        assert "Traceback" not in failed.value.errors
        second = str(twins.second.configuration)
        for command in (("admin", "doctor", second), ("serve", "--check", second)):
            found = await asyncio.to_thread(CliRunner().invoke, cli, command)
            assert (found.exit_code, works in found.output) == (1, True), found.output
        first = ("admin", "doctor", str(twins.first.configuration))
        found = await asyncio.to_thread(CliRunner().invoke, cli, first)
        assert "works in the folder" not in found.output, "that is itself"
        await twins.first.kill()
        await twins.second.start()
        await twins.second.kill()


async def test_a_standby_serves_when_the_site_is_killed_and_nothing_acknowledged_is_lost(
    tmp_path: Path, alone: Cluster
) -> None:
    twins = twins_at(tmp_path, url_of(alone))
    async with serving(twins):
        async with load(twins.served_by(twins.second)) as at_work:
            await at_work.more(2)
            await twins.first.kill()
            await twins.second.healthy()
            await at_work.more(2)
        assert await faults(twins.served_by(twins.second), at_work) == []


async def test_a_stopped_site_hands_over_at_once_and_comes_back_as_the_standby(
    tmp_path: Path, alone: Cluster
) -> None:
    twins = twins_at(tmp_path, url_of(alone))
    async with serving(twins):
        async with load(twins.served_by(twins.second)) as at_work:
            await at_work.more(1)
            assert await twins.first.stop() == 0, "no standby keeps a stopping site waiting"
            await twins.second.healthy()
            await twins.first.spawn()
            await twins.first.listening()
            await is_standby(twins.first)
            await at_work.more(1)
        assert await faults(twins.served_by(twins.second), at_work) == []


async def test_a_site_that_hangs_is_taken_over_and_adds_nothing_afterwards(
    tmp_path: Path, alone: Cluster
) -> None:
    result = await soak(tmp_path, alone, rounds=2, seed=7, tell=print)
    assert (result.late, result.faults) == (0, [])
    assert result.owners >= 3


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://kalends:{secret}@127.0.0.1:1/kalends", "the database cannot be used"),
        ("postgresql://kalends:{secret}@/kalends", "it names no host"),
    ],
)
async def test_a_database_that_lets_no_site_in_is_named_without_the_password(
    tmp_path: Path, url: str, says: str
) -> None:
    url = url.format(secret=SECRET)
    (site,) = make_facility(tmp_path, sites=1, replicas=0, stores={"site0": url}).sites
    with pytest.raises(StartFailed, match=says) as failed:
        await site.start()
    assert failed.value.code
    assert SECRET not in failed.value.errors


async def test_a_start_that_waits_for_a_standby_says_where_and_obeys_a_signal(
    tmp_path: Path, pair: tuple[Cluster, Cluster]
) -> None:
    primary, standby = pair
    await asyncio.to_thread(standby.kill)
    facility = make_facility(tmp_path, sites=1, replicas=1, stores={"site0": url_of(primary)})
    site = facility.sites[0]
    await site.spawn()

    async def waits() -> bool:
        found = primary.ask("select count(*) from pg_stat_activity where wait_event = 'SyncRep'")
        return found.strip() != "0"

    await until(waits, "the start waits for the standby", explain=site.log)
    assert "opens_store" in site.log()
    assert await site.stop() == 0
    assert "Traceback" not in site.log()


async def test_where_the_database_hangs_or_fails_health_says_so_and_no_process_of_a_site_is_ready(
    tmp_path: Path, alone: Cluster
) -> None:
    twins = twins_at(tmp_path, url_of(alone))

    async def hangs() -> bool:
        status, said = await readiness(twins.first.url)
        return (status, said["store"]) == (503, "hangs") and said["stuck_s"] >= 5

    async def both_fail() -> bool:
        found = [await readiness(each.url) for each in (twins.first, twins.second)]
        return all((code, said["store"]) == (503, "fails") for code, said in found)

    async def one_is_ready() -> bool:
        found = [await readiness(each.url) for each in (twins.first, twins.second)]
        return sorted(code for code, _ in found) == [200, 503]

    async with serving(twins):
        with alone.frozen():
            await until(hangs, "the serving process says that a write hangs")
        await until(one_is_ready, "one of them serves")
        await asyncio.to_thread(alone.kill)
        await until(both_fail, "both say that their store fails")
        await asyncio.to_thread(alone.start)
        await until(one_is_ready, "one of them serves again")


async def test_what_a_killed_site_has_reserved_is_reserved_at_its_standby(
    tmp_path: Path, alone: Cluster
) -> None:
    twins = twins_at(tmp_path, url_of(alone))
    async with (
        serving(twins),
        kalends.connect(twins.broker.url, user="ada", zone="UTC") as ada,
    ):
        at = base_now_s()
        booked = await ada.book(WHOLE, duration=GRAIN_S, at=at)
        await twins.first.kill()
        await twins.second.healthy()
        await connected(twins.served_by(twins.second))
        assert (await ada.show(booked.id)).state == "reserved"
        with pytest.raises(kalends.KalendsError):
            await ada.book(WHOLE, duration=GRAIN_S, at=at)


async def test_health_names_the_standby_of_its_database_that_bookings_wait_for(
    tmp_path: Path, pair: tuple[Cluster, Cluster]
) -> None:
    primary, standby = pair
    stores = {"site0": url_of(primary, standby)}
    (site,) = make_facility(tmp_path, sites=1, replicas=0, stores=stores).sites
    async with running(site), aiohttp.ClientSession() as http:
        await asyncio.to_thread(standby.kill)

        async def named() -> bool:
            async with http.get(f"{site.url}/healthz") as answer:
                return "(not connected: s1): nothing can be booked" in await answer.text()

        await until(named, "the missing standby is named", explain=site.log)
