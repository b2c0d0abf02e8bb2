"""Sessions of writers: success is believed only where the server has committed, and has given no warning."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgres_clusters
import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.core.errors import Unavailable
from kalends.stores.group_commit import StoreFailed
from kalends.stores.postgres import migrations, settings
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import BEGIN, SESSION, Statement, WriterSession
from tests.postgres import accounts
from tests.postgres.accounts import Add, Owner

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Plain = psycopg.Connection[Any]
BANK = (accounts.SCHEMA, "bank of tests")


@pytest.fixture
def pair(template: Path) -> Iterator[tuple[Cluster, Cluster]]:
    with postgres_clusters.pair(template) as made:
        yield made


def of_both(primary: Cluster, standby: Cluster) -> Address:
    return Address(
        f"postgresql:///postgres?host={primary.place},{standby.place}&user={primary.role}"
    )


def test_a_session_has_its_settings_whatever_the_role_has(
    address: Address, plain: Plain, cluster: Cluster
) -> None:
    plain.execute("create role strange superuser login")
    for name, value in (
        ("client_min_messages", "error"), ("synchronous_commit", "off"), ("lock_timeout", "1h"),
        ("default_transaction_isolation", "serializable"), ("statement_timeout", "1ms"),
    ):  # fmt: skip
        plain.execute(f"alter role strange set {name} = '{value}'".encode())
    session = WriterSession.open(cluster.address(role="strange"), dict(SESSION))
    try:
        asked = Statement(
            "select name, setting from pg_settings where name = any($1)", (list(SESSION),)
        )
        found = dict(session.message([asked])[0])
        assert found == {**SESSION, "lock_timeout": "150"}
    finally:
        session.close()
        plain.execute("drop role strange")


def test_the_statements_of_a_message_are_one_round_trip_with_the_rows_of_each(
    address: Address,
) -> None:
    session = WriterSession.open(address)
    rows = session.message([Statement("select $1::int", (n,)) for n in range(300)])
    assert rows == [[(n,)] for n in range(300)]
    assert session.message([BEGIN, Statement("create table t (a int)")]) == [[], []]
    assert session.commit([Statement("insert into t values ($1) returning a", (7,))]) == [[(7,)]]
    session.close()


def test_a_commit_that_the_server_makes_a_rollback_is_no_success(address: Address) -> None:
    session = WriterSession.open(address)
    session.message([BEGIN])
    with pytest.raises(psycopg.errors.DivisionByZero):
        session.message([Statement("select 1 / 0")])
    with pytest.raises(StoreFailed, match="ended with ROLLBACK"):
        session.commit([])
    session.close()


def test_a_password_that_is_wrong_is_not_shown(cluster: Cluster, plain: Plain) -> None:
    plain.execute("create role locked login password 'right'")
    rules = cluster.data / "pg_hba.conf"
    rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
    cluster.reload({})
    address = Address(f"postgresql://locked:cretly@/postgres?host={cluster.place}")
    with pytest.raises(Unavailable, match="password authentication failed") as caught:
        WriterSession.open(address)
    assert "cretly" not in repr(caught.value) + str(caught.value) + str(caught.value.__cause__)
    assert "cretly" not in settings.doctor(address)[0]
    plain.execute("drop role locked")


def test_a_wait_for_the_standby_that_was_cancelled_is_no_success(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    migrations.open_store(primary.address(), *BANK)
    # The very warning could be kept from clients.
    primary.reload({"client_min_messages": "error"})
    owner = Owner(primary.address(), "one")
    assert owner.do(Add(1, 5)) == [5]
    standby.stop()
    failures: list[StoreFailed] = []

    def books() -> None:
        with pytest.raises(StoreFailed) as caught:
            owner.do(Add(1, 1))
        failures.append(caught.value)

    thread = threading.Thread(target=books)
    thread.start()
    with primary.connect() as plain:
        waits = "select 1 from pg_stat_activity where pid = %s and wait_event = 'SyncRep'"
        while plain.execute(waits, (owner.session.pid,)).fetchone() is None:
            time.sleep(0.01)
        plain.execute("select pg_cancel_backend(%s)", (owner.session.pid,))
        thread.join()
        assert "not known to be durable" in str(failures[0])
        seen = plain.execute("select balance from account").fetchone()
        assert seen == (6,), "it was committed here, and nowhere else"
    with pytest.raises(StoreFailed):
        owner.do(Add(1, 1))


def test_a_message_to_a_frozen_server_fails_when_its_line_is_cut(template: Path) -> None:
    with postgres_clusters.cluster(template) as mortal:
        migrations.open_store(mortal.address(), *BANK)
        owner = Owner(mortal.address(), "one")
        with mortal.frozen():
            cutting = threading.Timer(0.3, owner.session.cut)
            cutting.start()
            with pytest.raises(StoreFailed):
                owner.do(Add(1, 1))
        with mortal.connect() as plain:
            assert plain.execute("select * from account").fetchall() == []


def test_what_was_told_is_there_after_a_failover_and_the_new_timeline_is_recognised(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    address = of_both(primary, standby)
    assert not migrations.open_store(address, *BANK).is_promoted
    owner = Owner(address, "one")
    for number in range(1, 51):
        assert owner.do(Add(1, 1)) == [number]
    primary.kill()
    with pytest.raises(StoreFailed):
        owner.do(Add(1, 1))
    with pytest.raises(Unavailable):
        Owner(address, "two")  # A standby takes no writer.
    standby.promote()
    for _ in range(2):
        found = migrations.open_store(address, *BANK)
        assert found.is_promoted, "until somebody says that nothing is forgotten"
    assert (found.known.timeline, found.cluster.timeline) == (1, 2)
    other = Owner(address, "two")
    assert other.do(Add(1, 1)) == [51]
    other.session.close()
    migrations.accept_cluster(address)
    assert not migrations.open_store(address, *BANK).is_promoted


def test_a_standby_is_named_as_one(pair: tuple[Cluster, Cluster]) -> None:
    _, standby = pair
    with pytest.raises(Unavailable, match="cannot be used"):
        WriterSession.open(standby.address())
    assert settings.doctor(standby.address())[0].startswith("hot_standby: this server is a standby")


def test_a_session_that_waits_for_the_standby_is_not_ended_by_others(
    pair: tuple[Cluster, Cluster],
) -> None:
    primary, standby = pair
    migrations.open_store(primary.address(), *BANK)
    one, two = Owner(primary.address(), "one"), Owner(primary.address(), "two")
    one.do(Add(1, 1))
    answers: list[int | None] = []
    with primary.connect() as plain, standby.frozen():
        first = threading.Thread(target=lambda: answers.extend(one.do(Add(1, 1))))
        first.start()
        waits = "select 1 from pg_stat_activity where pid = %s and wait_event = 'SyncRep'"
        while plain.execute(waits, (one.session.pid,)).fetchone() is None:
            time.sleep(0.01)
        two.still = dict(plain.execute("select owner, beats from replica where owner = 'one'"))
        second = threading.Thread(target=lambda: answers.extend(two.do(Add(1, 1))))
        second.start()
        time.sleep(0.6)
    first.join()
    second.join()
    assert answers == [2, 3]
