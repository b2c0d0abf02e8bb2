"""Readers: one moment for a read, a bounded wait, and a new connection where one broke."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import postgres_clusters
import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.core.errors import Unavailable
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.readers import CONNECTIONS, READ_S_MAX, Readers
from kalends.stores.postgres.session import Statement
from tests.processes.servers import until

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Plain = psycopg.Connection[Any]
COUNT = Statement("select count(*) from item")
SLEEP = Statement("select pg_sleep(0.3)")


@pytest.fixture
async def readers(address: Address, plain: Plain) -> AsyncIterator[Readers]:
    plain.execute("create table item (id bigint)")
    made = Readers(address)
    yield made
    await made.close()


@pytest.fixture
def mortal(template: Path) -> Iterator[Cluster]:
    with postgres_clusters.cluster(template) as running:
        yield running


async def test_a_read_brings_the_rows_of_each_of_its_statements(readers: Readers) -> None:
    rows = await readers.read([COUNT, Statement("select $1::text, $2::bigint", ("a", 2**40))])
    assert rows == [[(0,)], [("a", 2**40)]]


async def test_a_read_sees_one_moment_whatever_is_written_meanwhile(
    readers: Readers, plain: Plain
) -> None:
    plain.execute("select pg_advisory_lock(7)")
    lock = Statement("select pg_advisory_xact_lock_shared(7)")
    reading = asyncio.ensure_future(readers.read([COUNT, lock, COUNT]))

    async def waits() -> object:
        return plain.execute("select 1 from pg_locks where not granted").fetchone()

    await until(waits, "the read waits between its statements")
    plain.execute("insert into item values (1)")
    plain.execute("select pg_advisory_unlock(7)")
    first, _, second = await reading
    assert first == second == [(0,)]
    assert await readers.read([COUNT]) == [[(1,)]]


async def test_a_reader_writes_nothing(readers: Readers) -> None:
    with pytest.raises(Unavailable, match="read-only"):
        await readers.read([Statement("insert into item values (1)")])
    assert await readers.read([COUNT]) == [[(0,)]]


async def test_reads_go_side_by_side_up_to_the_number_of_connections(readers: Readers) -> None:
    slow = Statement("select pg_backend_pid(), pg_sleep(0.3)")
    rows = await asyncio.gather(*(readers.read([slow]) for _ in range(2 * CONNECTIONS)))
    assert len({row[0][0][0] for row in rows}) == CONNECTIONS


async def test_who_stops_waiting_disturbs_no_other(readers: Readers) -> None:
    impatient = [asyncio.ensure_future(readers.read([SLEEP])) for _ in range(20)]
    await asyncio.sleep(0.05)
    for each in impatient:
        each.cancel()
    assert await readers.read([COUNT]) == [[(0,)]]


async def test_a_read_goes_on_when_its_connection_was_ended(readers: Readers, plain: Plain) -> None:
    await readers.read([COUNT])
    plain.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'kalends'"
    )
    assert await readers.read([COUNT]) == [[(0,)]]


async def test_a_read_that_takes_too_long_is_given_up_and_ended_at_the_server(
    readers: Readers, plain: Plain
) -> None:
    began_s = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await readers.read([Statement("select pg_sleep(60)")])
    assert caught.value.retry_after_s
    assert time.monotonic() - began_s > READ_S_MAX - 0.1
    running = (
        "select 1 from pg_stat_activity where query like 'select pg_sleep(60%' and state = 'active'"
    )
    while plain.execute(running).fetchone() is not None:  # noqa: ASYNC110  # The server tells nobody.
        await asyncio.sleep(0.01)
    assert await readers.read([COUNT]) == [[(0,)]]


async def test_a_frozen_server_keeps_nobody_waiting_and_is_read_again_when_it_goes_on(
    mortal: Cluster,
) -> None:
    readers = Readers(mortal.address())
    one = [Statement("select 1")]
    assert await readers.read(one) == [[(1,)]]
    query = "select pid from pg_stat_activity where application_name = 'kalends'"
    with mortal.connect() as plain:
        before = set(plain.execute(query))
    with mortal.frozen():
        outcomes = await asyncio.gather(
            *(readers.read(one) for _ in range(2 * CONNECTIONS)), return_exceptions=True
        )
        assert [type(each) for each in outcomes] == [Unavailable] * len(outcomes)
        await asyncio.sleep(0.5)
    while True:
        try:
            assert await readers.read(one) == [[(1,)]]
        except Unavailable:
            continue
        break
    with mortal.connect() as plain:
        assert not before & set(plain.execute(query)), (
            "their lines were cut: a cancellation is not heard"
        )
    await readers.close()


async def test_a_server_that_was_killed_is_read_again_when_it_is_back(mortal: Cluster) -> None:
    readers = Readers(mortal.address())
    one = [Statement("select 1")]
    assert await readers.read(one) == [[(1,)]]
    mortal.kill()
    with pytest.raises(Unavailable, match="cannot be read now"):
        await readers.read(one)
    mortal.start()
    while True:
        try:
            assert await readers.read(one) == [[(1,)]]
        except Unavailable:
            continue
        break
    await readers.close()


async def test_a_standby_is_never_read(template: Path) -> None:
    with postgres_clusters.pair(template) as (_, standby):
        readers = Readers(standby.address())
        with pytest.raises(Unavailable):
            await readers.read([Statement("select 1")])
        await readers.close()
