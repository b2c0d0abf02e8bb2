"""Standbys that commits wait for are counted: whoever is missing is named, and no opening waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import postgres_clusters
import pytest
from postgres_clusters import Cluster

from kalends.broker.register.postgres.postgres_register import PostgresRegister
from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.core.errors import Unavailable
from kalends.stores.postgres import session as sessions
from kalends.stores.postgres import settings
from kalends.stores.postgres.migrations import open_store
from kalends.stores.postgres.standbys import missing_at
from tests.postgres.test_site_journal import storage_at

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]


@pytest.fixture
def pair(template: Path) -> Iterator[tuple[Cluster, Cluster]]:
    with postgres_clusters.pair(template) as both:
        yield both


def gone(primary: Cluster, standby: Cluster) -> None:
    """The standby is killed, and the primary knows that."""
    standby.kill()
    with primary.connect() as session:
        while session.execute("select 1 from pg_stat_replication").fetchone() is not None:
            pass


@pytest.mark.parametrize("superuser", [True, False])
def test_a_standby_that_is_missing_is_named_before_and_when_bookings_wait(
    pair: tuple[Cluster, Cluster], superuser: bool
) -> None:
    primary, standby = pair
    with primary.connect() as session:
        session.execute("create role plain login")
    address = primary.address(role="" if superuser else "plain")
    assert missing_at(address) == ""
    primary.reload({"synchronous_standby_names": "ANY 1 (s1, s2)"})
    who = " (not connected: s2)" if superuser else ""
    assert missing_at(address) == (
        f"1 standby is connected{who}: when it fails, nothing can be booked"
    )
    gone(primary, standby)
    said = missing_at(address)
    assert said.startswith("commits wait for 1 of 'ANY 1 (s1, s2)', and 0 are connected")
    assert "(not connected: s1, s2): nothing can be booked" in said
    assert f"pg_stat_replication: {said}" in "\n".join(settings.doctor(address))


@pytest.mark.parametrize("known_by", ["application_name", "cluster_name"])
def test_a_promoted_server_does_not_miss_itself(
    pair: tuple[Cluster, Cluster], known_by: str
) -> None:
    primary, standby = pair
    listed = {"synchronous_standby_names": "ANY 1 (db1, S1, other)"}
    if known_by == "cluster_name":
        listed["primary_conninfo"] = ""
    primary.kill()
    standby.promote()
    standby.reload(listed)
    if known_by == "cluster_name":
        standby.stop()
        standby.configure({"cluster_name": "s1"})
        standby.start()
    said = missing_at(standby.address())
    assert "(not connected: db1, other)" in said


def test_a_server_that_is_listed_itself_is_no_standby_to_spare(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    primary.kill()
    standby.promote()
    standby.reload({"synchronous_standby_names": "ANY 1 (db1, s1)"})
    found = "\n".join(settings.doctor(standby.address()))
    assert "when a standby fails, nothing can be booked" in found
    standby.reload({"synchronous_standby_names": "ANY 1 (db1, s1, db2)"})
    assert "when a standby fails" not in "\n".join(settings.doctor(standby.address()))


def test_names_of_standbys_are_compared_as_the_server_does(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, _ = pair
    primary.reload({"synchronous_standby_names": "ANY 1 (S1, s2)"})
    assert "(not connected: s2)" in missing_at(primary.address())


def test_doctor_of_a_standby_asks_for_no_standbys_of_it(pair: tuple[Cluster, Cluster]) -> None:
    _, standby = pair
    standby.reload({"synchronous_standby_names": "ANY 1 (db1, db2)"})
    found = "\n".join(settings.doctor(standby.address()))
    assert "takes no writes" in found
    assert "pg_stat_replication" not in found


def test_openings_end_with_the_cause_where_the_standby_dies_before_their_commit(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    gone(primary, standby)
    monkeypatch.setattr(sessions, "COMMIT_S_MAX", 0.2)
    says = "it does not commit: it waits for a standby"
    with pytest.raises(Unavailable, match=says):
        open_store(primary.address(), REGISTER, "npaci")
    with pytest.raises(Unavailable, match=says):
        asyncio.run(storage_at(primary.address()).open(lambda committed: None))


def test_a_register_is_promoted_after_a_failover_until_it_is_believed(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair

    async def is_promoted(cluster: Cluster, *, believed: bool = False) -> bool:
        register = await PostgresRegister.open(
            cluster.address(), "npaci", "npaci-1", lambda committed: None, lease_s=60
        )
        if believed:
            await register.believe()
        await register.close()
        return register.promoted

    assert not asyncio.run(is_promoted(primary))
    primary.kill()
    standby.promote()
    assert asyncio.run(is_promoted(standby))
    assert asyncio.run(is_promoted(standby, believed=True))
    assert not asyncio.run(is_promoted(standby))
