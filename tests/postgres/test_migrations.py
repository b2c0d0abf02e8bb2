"""Migrations: all scripts or none, one process at a time; no store of others, newer or changed."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.core.errors import KalendsError, StoreDamaged, Unavailable
from kalends.stores.postgres import migrations
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import Migration, StoreSchema, open_store

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Plain = psycopg.Connection[Any]
FIRST = Migration(1, 1, "create table one (id bigint primary key); insert into one values (1);")
SECOND = Migration(2, 1, "create table two (id bigint primary key); insert into two values (2);")
THIRD = Migration(3, 3, "drop table one;")


def schema(*scripts: Migration, kind: str = "broker") -> StoreSchema:
    return StoreSchema(kind, scripts)


def tables(plain: Plain) -> set[str]:
    return {
        name
        for (name,) in plain.execute(
            "select tablename from pg_tables where schemaname = current_schema()"
        )
    }


GROUND = {"revoked", "schema_version", "store", "replica"}


def test_a_store_is_made_once_and_then_opened_as_it_is(address: Address, plain: Plain) -> None:
    first = open_store(address, schema(FIRST), "b")
    plain.execute("insert into one values (5)")
    assert open_store(address, schema(FIRST), "b") == first
    assert tables(plain) == GROUND | {"one"}
    assert plain.execute("select id from one order by id").fetchall() == [(1,), (5,)]
    assert not first.is_promoted


def test_missing_scripts_run_in_their_order(address: Address, plain: Plain) -> None:
    open_store(address, schema(FIRST), "b")
    open_store(address, schema(FIRST, SECOND, THIRD), "b")
    assert tables(plain) == GROUND | {"two"}
    found = plain.execute("select version, oldest_reader from schema_version order by 1").fetchall()
    assert found == [(0, 0), (1, 1), (2, 1), (3, 3)]


def test_a_script_that_fails_leaves_the_store_as_it_was(address: Address, plain: Plain) -> None:
    open_store(address, schema(FIRST), "b")
    broken = Migration(3, 1, "create table three (id bigint); select 1 / 0;")
    with pytest.raises(Unavailable, match="division by zero"):
        open_store(address, schema(FIRST, SECOND, broken), "b")
    assert tables(plain) == GROUND | {"one"}
    open_store(address, schema(FIRST, SECOND), "b")


def test_processes_that_open_a_store_at_once_make_it_once(address: Address, plain: Plain) -> None:
    slow = Migration(2, 1, "select pg_sleep(0.2); create table two (id bigint);")
    errors: list[KalendsError] = []

    def opens() -> None:
        try:
            open_store(address, schema(FIRST, slow), "b")
        except KalendsError as error:
            errors.append(error)

    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert plain.execute("select id from one").fetchall() == [(1,)]
    assert plain.execute("select count(*) from store").fetchone() == (1,)


def test_who_is_kept_from_a_table_for_long_gives_up_and_changes_nothing(
    address: Address, plain: Plain
) -> None:
    open_store(address, schema(FIRST, SECOND), "b")
    plain.execute("begin")
    plain.execute("select * from one")
    with pytest.raises(Unavailable, match="locked") as caught:
        open_store(address, schema(FIRST, SECOND, THIRD), "b")
    assert "pg_stat_activity" in caught.value.remedy
    plain.execute("commit")
    open_store(address, schema(FIRST, SECOND, THIRD), "b")


def test_an_older_kalends_goes_on_as_long_as_the_newest_script_lets_it(address: Address) -> None:
    open_store(address, schema(FIRST, SECOND), "b")
    open_store(address, schema(FIRST), "b")
    open_store(address, schema(FIRST, SECOND, THIRD), "b")
    for older in (schema(FIRST), schema(FIRST, SECOND)):
        with pytest.raises(StoreDamaged, match="a newer kalends wrote it") as caught:
            open_store(address, older, "b")
        assert "from version 3" in str(caught.value)
        assert caught.value.remedy == "use that newer kalends"


def test_a_script_that_was_changed_after_it_ran_is_refused(address: Address) -> None:
    open_store(address, schema(FIRST, SECOND), "b")
    changed = Migration(1, 1, FIRST.script + " ")
    with pytest.raises(StoreDamaged, match="version 1 was made by a script"):
        open_store(address, schema(changed, SECOND), "b")


def test_a_database_with_other_tables_is_left_as_it_is(address: Address, plain: Plain) -> None:
    plain.execute("create table customers (id bigint)")
    with pytest.raises(StoreDamaged, match="not of kalends: customers"):
        open_store(address, schema(FIRST), "b")
    assert tables(plain) == {"customers"}


@pytest.mark.parametrize(
    ("kind", "owner", "why"),
    [("site", "b", "the store of a broker"), ("broker", "c", "belongs to 'b'")],
)
def test_a_store_of_another_is_refused(address: Address, kind: str, owner: str, why: str) -> None:
    open_store(address, schema(FIRST), "b")
    with pytest.raises(StoreDamaged, match=why):
        open_store(address, schema(SECOND._replace(version=1), kind=kind), owner)


def test_a_plain_role_with_its_own_schema_needs_no_further_rights(
    cluster: Cluster, schema: str, plain: Plain
) -> None:
    plain.execute("create role clerk login")
    plain.execute(f"alter schema {schema} owner to clerk".encode())
    try:
        found = open_store(
            cluster.address(schema=schema, role="clerk"), StoreSchema("broker", (FIRST,)), "b"
        )
        assert found.cluster.timeline == 1
    finally:
        plain.execute("drop owned by clerk")
        plain.execute("drop role clerk")


def test_a_store_that_was_brought_back_into_another_cluster_is_recognised(
    address: Address, plain: Plain
) -> None:
    open_store(address, schema(FIRST), "b")
    # What a dump brings along.
    plain.execute("update store set system_identifier = '7000000000000000000'")
    with pytest.raises(StoreDamaged, match="brought back into another") as caught:
        open_store(address, schema(FIRST, SECOND), "b")
    assert f"kalends admin reconcile {address.shown}" in caught.value.remedy
    assert "two" not in tables(plain)
    migrations.accept_cluster(address)
    assert not open_store(address, schema(FIRST, SECOND), "b").is_promoted


def test_a_database_that_cannot_be_reached_is_unavailable(cluster: Cluster) -> None:
    nowhere = Address("postgresql:///postgres?host=/nowhere")
    with pytest.raises(Unavailable) as caught:
        open_store(nowhere, schema(FIRST), "b")
    assert caught.value.where == "postgresql://%2Fnowhere/postgres"
    assert caught.value.retry_after_s
