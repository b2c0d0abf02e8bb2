"""A register on PostgreSQL is opened by one process for each replica."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import postgres_clusters
import psycopg
import pytest
from msgspec import structs

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.register.postgres.postgres_register import PostgresRegister
from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.broker.register.writes import LeaseRenewal
from kalends.broker.replica.archive import Archive
from kalends.contract.messages import Want
from kalends.core.errors import Conflict, Unavailable
from kalends.core.intervals import Moment
from kalends.serving.logs import get_logger
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import open_store
from tests.unit.broker.register.test_register import RIDS, T0, record_of


@contextlib.asynccontextmanager
async def opened(address: Address, replica: str) -> AsyncIterator[PostgresRegister]:
    """A register whose process beats."""
    register = await PostgresRegister.open(
        address, "npaci", replica, lambda committed: None, lease_s=60
    )
    beating = asyncio.create_task(beats(register, replica))
    try:
        yield register
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await register.close()


async def beats(register: PostgresRegister, replica: str) -> None:
    owner = f"{replica}:{register.epoch}"
    while True:
        await register.writer.run([LeaseRenewal(owner, 1)])


async def test_of_processes_that_begin_as_one_replica_at_the_same_time_one_is_let_in() -> None:
    others = asyncio.Event()
    refused: list[Conflict] = []

    async def begin(address: Address) -> None:
        try:
            async with opened(address, "npaci-1"):
                await others.wait()
        except Conflict as error:
            refused.append(error)
            if len(refused) == 3:
                others.set()
        except Unavailable:
            # Another one begins for so long, on a busy machine, that it is to be tried again.
            await begin(address)

    with postgres_clusters.in_a_schema() as address:
        await asyncio.to_thread(open_store, address, REGISTER, "npaci")
        await asyncio.gather(*(begin(address) for _ in range(4)))
    assert len(refused) == 3


async def test_after_a_close_and_beside_other_replicas_a_process_is_let_in_at_once() -> None:
    with postgres_clusters.in_a_schema() as address:
        async with opened(address, "npaci-2"):
            epochs = []
            for _ in range(3):
                async with opened(address, "npaci-1") as register:
                    epochs.append(register.epoch)
                    with pytest.raises(Conflict, match="another process serves as npaci-1"):
                        await opened(address, "npaci-1").__aenter__()
            assert epochs == sorted(set(epochs))


async def test_what_was_settled_long_ago_is_put_aside_once_and_found_by_each_replica() -> None:
    now = Moment(0, (T0 + 400 * 86_400) * 1_000)
    records = [
        structs.replace(record_of(rid, rid), wants=(Want("east/m", T0 + at, T0 + at + 60, 1),))
        for rid, at in zip(RIDS, (0, 40 * 86_400, 390 * 86_400), strict=False)
    ]
    with postgres_clusters.in_a_schema() as address:
        async with opened(address, "npaci-1") as one, opened(address, "npaci-2") as other:
            for record in records:
                commit = r.Commit(record.rid, 1, "", r.encode_record(record))
                await one.writer.run([r.Begin(record), commit, r.Finish(record.rid, "commit")])
            archives = [
                Archive(
                    30 * 86_400,
                    lambda store=store: store,
                    lambda: now,
                    get_logger(role="b", name="n"),
                )
                for store in (one, other)
            ]
            moved = await asyncio.gather(*(each.move_settled() for each in archives))
            assert sum(moved) == 2
            assert [await each.move_settled() for each in archives] == [0, 0]
            for record in records:
                for store in (one, other):
                    assert await store.by_key("anna", record.rid) is not None
            left = await one.reservations("", 9)
            assert [each.id for each in left] == [records[2].rid]
        with psycopg.connect(address.conninfo()) as plain:
            names = plain.execute(
                "select tableoid::regclass::text from request_old order by rid"
            ).fetchall()
    assert names == [("request_old_2027_01",), ("request_old_2027_02",)]
