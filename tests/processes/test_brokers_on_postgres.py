"""Brokers of one register on PostgreSQL, as processes: none of their hosts is needed alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from postgres_clusters import Cluster, url_of

import kalends
from kalends.core.errors import NotAuthenticated
from kalends.serving.auth.keys import write_key_pair
from tests.support import tokens

from .customers import base_now_s
from .facility import GRAIN_S, Facility, connected, make_facility
from .load import faults, load
from .servers import Server, StartFailed, readiness, running, until

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

SECRET = "hunter2-of-the-broker"


def facility_at(directory: Path, url: str, *, replicas: int = 2) -> Facility:
    return make_facility(directory, sites=2, replicas=replicas, stores={"broker": url})


async def test_a_primary_is_killed_and_its_standby_promoted_and_nothing_acknowledged_is_lost(
    tmp_path: Path, pair: tuple[Cluster, Cluster]
) -> None:
    primary, standby = pair
    facility = facility_at(tmp_path, url_of(primary, standby))
    async with running(*facility.servers):
        await connected(facility)
        async with load(facility) as at_work:
            await at_work.more(3)
            await asyncio.to_thread(primary.kill)
            await asyncio.to_thread(standby.promote)
            await at_work.more(3)
        assert await faults(facility, at_work) == []
        assert sum(each.counts["booked"] for each in at_work.customers) >= 6


async def test_a_broker_without_its_store_blames_that_and_calls_no_site_lost(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = facility_at(tmp_path, url_of(alone), replicas=1)
    (broker,) = facility.brokers

    async def said(path: str) -> str:
        async with aiohttp.ClientSession() as http, http.get(broker.url + path) as answer:
            return await answer.text()

    async def fails() -> bool:
        return "the database cannot be used" in await said("/healthz")

    async with running(*facility.servers):
        await connected(facility)
        await asyncio.to_thread(alone.kill)
        await until(fails, "the broker names its store", explain=broker.log)
        code, health = await readiness(broker.url)
        assert (code, health["status"], health["store"]) == (503, "failing", "fails")
        metrics = await said("/metrics")
        for site in facility.sites:
            assert f'kalends_site_up{{site="{site.name}"}} 1.0' in metrics
        await asyncio.to_thread(alone.start)
        await broker.healthy()
        assert (await readiness(broker.url))[0] == 200
        await connected(facility)
        assert "site_lost" not in broker.log()
        assert broker.log().count("store_not_opened") == 1, "not each second"
        await facility.sites[0].kill()

        async def is_lost() -> bool:
            return 'kalends_site_up{site="site0"} 0.0' in await said("/metrics")

        await until(is_lost, "a site that is lost is called so", explain=broker.log)


async def test_a_killed_replica_leaves_its_requests_to_the_other(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = facility_at(tmp_path, url_of(alone))
    first, second = facility.brokers
    async with running(*facility.servers):
        await connected(facility)
        async with kalends.connect(first.url, user="ada", zone="UTC") as ada:
            at = base_now_s()
            terms = "site0/cluster:2 + site1/cluster:3"
            held = await ada.hold(terms, duration=GRAIN_S, at=at, keep="10m", key="hold-of-ada")
            # Nothing can be promised there: the request stays open, in the hands of the first replica.
            await facility.sites[1].kill()
            waiting = asyncio.create_task(
                ada.book(terms, duration=GRAIN_S, at=at + GRAIN_S, key="open-of-ada", wait_s=60)
            )

            async def is_stored() -> bool:
                with alone.connect() as session:
                    query = "select count(*) from request where starts_with(owner, 'broker-1:') and not done"
                    found = session.execute(query).fetchone()
                    return found is not None and found[0] >= 2

            await until(is_stored, "both requests are in the register")
            await first.kill()
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await facility.sites[1].start()
        async with kalends.connect(second.url, user="ada", zone="UTC") as ada:

            async def is_ended() -> bool:
                return (await ada.resolve("open-of-ada")).state != "open"

            await until(is_ended, "the open request is ended by the other replica")
            assert (await ada.show(held.id)).state == "held"
            assert (await ada.lock(held.id)).state == "reserved"


async def test_a_token_that_is_revoked_is_refused_by_each_replica_and_after_a_restart(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = facility_at(tmp_path, url_of(alone))
    public = write_key_pair(tmp_path / "people")
    for broker in facility.brokers:
        trusted = f'[[broker.keys]]\nfile = "{public}"\n'
        broker.configuration.write_text(broker.configuration.read_text() + trusted)
    lost, kept = (tokens.token(tmp_path / "people", "ada", ("broker",), ("use",)) for _ in range(2))
    (tmp_path / "lost.token").write_text(lost)

    async def is_refused(broker: Server) -> bool:
        async with kalends.connect(broker.url, token=lost) as ada:
            try:
                await ada.list()
            except NotAuthenticated:
                return True
            return False

    async with running(*facility.servers):
        assert not any([await is_refused(broker) for broker in facility.brokers])
        revoked = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kalends", "admin", "revoke", facility.brokers[0].configuration,
            "--token-of", tmp_path / "lost.token", "--note", "laptop lost",
        )  # fmt: skip
        assert await revoked.wait() == 0
        for broker in facility.brokers:
            await until(lambda broker=broker: is_refused(broker), "the token is refused")
        second = facility.brokers[1]
        await second.kill()
        await second.start()
        assert await is_refused(second)
        async with kalends.connect(second.url, token=kept) as ada:
            assert await ada.list() == ()


async def test_a_second_process_with_the_name_of_a_replica_is_refused_and_begins_when_the_first_is_dead(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = facility_at(tmp_path, url_of(alone))
    first, second = facility.brokers
    second.configuration.write_text(
        second.configuration.read_text().replace('replica = "2"', 'replica = "1"')
    )
    async with running(first):
        with pytest.raises(StartFailed, match="another process serves as broker-1 on this store"):
            await second.start()
        assert await first_is_well(first)
        await first.kill()
        await second.start()
        assert await second.stop() == 0


async def first_is_well(first: Server) -> bool:
    async with kalends.connect(first.url, user="ada", zone="UTC") as ada:
        return (await ada.health()).status == "ok"


async def test_a_stopped_replica_stops_no_other_and_goes_on_when_it_is_continued(
    tmp_path: Path, alone: Cluster
) -> None:
    facility = facility_at(tmp_path, url_of(alone))
    first, second = facility.brokers
    async with running(*facility.servers):
        await connected(facility)
        only = Facility(facility.sites, [second])
        os.kill(first.pid, signal.SIGSTOP)
        async with load(only) as at_work:
            await at_work.more(3)
        os.kill(first.pid, signal.SIGCONT)
        await first.healthy()
        assert await faults(facility, at_work) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://kalends:{secret}@127.0.0.1:1/kalends", "the database cannot be used"),
        ("postgresql://kalends:{secret}@/kalends", "it names no host"),
        ("postgresql:///postgres?host={place}&user=nobody-here&password={secret}", "nobody-here"),
    ],
)
async def test_a_database_that_lets_no_broker_in_is_named_without_the_password(
    tmp_path: Path, alone: Cluster, url: str, says: str
) -> None:
    url = url.format(secret=SECRET, place=alone.place)
    (broker,) = facility_at(tmp_path, url, replicas=1).brokers
    with pytest.raises(StartFailed, match=says) as failed:
        await broker.start()
    assert failed.value.code
    assert SECRET not in failed.value.errors


async def test_a_database_without_a_standby_that_it_waits_for_is_named(
    tmp_path: Path, alone: Cluster
) -> None:
    await asyncio.to_thread(alone.reload, {"synchronous_standby_names": "gone"})
    (broker,) = facility_at(tmp_path, url_of(alone), replicas=1).brokers
    with pytest.raises(StartFailed, match="it waits for a standby that is not there"):
        await broker.start()


async def test_a_standby_alone_is_no_store(tmp_path: Path, pair: tuple[Cluster, Cluster]) -> None:
    _, standby = pair
    (broker,) = facility_at(tmp_path, url_of(standby), replicas=1).brokers
    with pytest.raises(StartFailed, match=r"read-only|standby|recovery"):
        await broker.start()
