"""A replica of a broker tells nothing that might be gone after a failover."""

from __future__ import annotations

import asyncio
import contextlib

import postgres_clusters
import pytest
from postgres_clusters import Cluster, url_of

from kalends.broker.register.postgres.postgres_register import PostgresRegister
from kalends.broker.register.writes import KeepAddress, NoticeAddress
from kalends.core.errors import Unavailable
from kalends.stores.group_commit import StoreFailed
from kalends.stores.postgres.address import Address
from tests.processes.servers import until

pytestmark = pytest.mark.needs_postgres

ADDRESS = NoticeAddress("ada", "mailto:ada@example.org", "UTC", 1)


async def opened(url: str, replica: str) -> PostgresRegister:
    return await PostgresRegister.open(
        Address(url), "npaci", replica, lambda committed: None, lease_s=60
    )


async def test_what_another_replica_has_stored_is_not_told_before_a_standby_has_it() -> None:
    with postgres_clusters.pair(postgres_clusters.shared_template()) as (primary, standby):
        one, two = [await opened(url_of(primary, standby), f"npaci-{n}") for n in (1, 2)]
        try:
            assert await two.addresses("ada") == []
            with standby.frozen():
                storing = asyncio.create_task(one.writer.run([KeepAddress(ADDRESS, 9)]))
                await cancelled(primary)
                with pytest.raises(StoreFailed, match="not known to be durable"):
                    await storing
                assert is_seen(primary)
                with pytest.raises(Unavailable, match="no standby has confirmed it"):
                    await two.addresses("ada")

            async def told() -> object:
                with contextlib.suppress(Unavailable):
                    return await two.addresses("ada")
                return None

            assert await until(told, "the standby has it") == [ADDRESS]
        finally:
            await one.close()
            await two.close()


async def cancelled(primary: Cluster) -> None:
    """Cancel the one that waits for the standby."""
    with primary.connect() as session:
        cancel = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"

        async def found() -> object:
            return session.execute(cancel).fetchone()

        await until(found, "a commit waits for the standby")


def is_seen(primary: Cluster) -> bool:
    with primary.connect() as session:
        return session.execute("select client from notice_address").fetchall() == [("ada",)]
