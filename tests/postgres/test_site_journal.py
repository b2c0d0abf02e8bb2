"""A site's journal on a real PostgreSQL that is killed, and with others who want to write."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import postgres_clusters
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_support import fact, rid

from kalends.batch.journal.contract import JobEntries
from kalends.batch.queue.facts import JobBegun, JournalEntry
from kalends.resource_servers.journal.contract import Prune
from kalends.resource_servers.journal.postgres.site_journal import PostgresJournal, PostgresStorage
from kalends.resource_servers.participation.claims.claim_sets import StakeDropped
from kalends.stores.group_commit import StoreFailed
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.session import WriterSession
from kalends.stores.postgres.sole_owner import begin
from kalends.stores.served_elsewhere import ServedElsewhere
from tests.property.resource_servers.journal.test_journal_laws import (
    SITE,
    Compared,
    operations,
)

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Plain = psycopg.Connection[Any]


def storage_at(address: Address) -> PostgresStorage:
    return PostgresStorage(address, SITE, Path("/nowhere"), {"sdsc/sp2": 1}, "here")


async def opened(address: Address) -> PostgresJournal:
    return await storage_at(address).open(lambda committed: None)


def test_what_was_stored_is_there_after_the_server_was_killed(template: Path) -> None:
    numbers = itertools.count(1)

    async def killed_again_and_again(
        cluster: postgres_clusters.Cluster, submissions: Sequence[Any]
    ) -> None:
        schema = f"killed_{next(numbers)}"
        with cluster.connect() as session:
            session.execute(f"create schema {schema}".encode())
        site = Compared(lambda: storage_at(cluster.address(schema=schema)))
        for submission in submissions:
            await site.begin()
            await site.store(submission)
            cluster.kill()
            with pytest.raises(StoreFailed):
                await site._journal.writer.run([fact(9)])
            await site.end()
            cluster.start()
        await site.begin()
        await site.end()

    @given(st.lists(st.lists(operations, min_size=1, max_size=12), min_size=2, max_size=4))
    @settings(max_examples=3)
    def after_each_submission(submissions: Sequence[Any]) -> None:
        asyncio.run(killed_again_and_again(cluster, submissions))

    with postgres_clusters.cluster(template) as cluster:
        after_each_submission()


def test_a_second_process_of_the_site_is_kept_out_until_the_first_ends(address: Address) -> None:
    async def both() -> None:
        first = await opened(address)
        with pytest.raises(ServedElsewhere, match="on here"):
            await opened(address)
        await first.writer.run([fact(1)])
        await first.close()
        second = await opened(address)
        assert [each.rid for each in (await second.load()).stakes] == [rid(1)]
        assert second.epoch > first.epoch
        await second.close()

    asyncio.run(both())


def test_a_life_whose_place_was_taken_adds_nothing(address: Address, plain: Plain) -> None:
    async def both() -> None:
        first = await opened(address)
        await first.writer.run([fact(1)])
        # As on a promoted standby, which knows of no locks.
        session = WriterSession.open(address)
        begin(session, "another", [])
        session.close()
        with pytest.raises(StoreFailed, match="taken over"):
            await first.writer.run([fact(2)])
        await first.close()

    asyncio.run(both())
    assert plain.execute("select rid from journal").fetchall() == [(rid(1),)]


def test_a_fact_of_a_queue_is_never_stored_over_another(address: Address) -> None:
    async def twice() -> None:
        journal = await opened(address)
        entry = JobEntries("sdsc/box", (JournalEntry(1, 7, JobBegun(1, 1)),))
        await journal.writer.run([entry])
        with pytest.raises(StoreFailed, match="job_entry"):
            await journal.writer.run([entry])
        await journal.close()

    asyncio.run(twice())


def test_old_facts_that_are_true_no_more_are_pruned_from_the_front(
    address: Address, plain: Plain
) -> None:
    async def pruned() -> None:
        journal = await opened(address)
        for at_ms, operation in enumerate(
            (fact(1), fact(1), fact(2), StakeDropped(rid(2)), fact(1), fact(3))
        ):
            journal.wall_ms = at_ms
            await journal.writer.run([operation])
        # Rows 1 to 5 are old: what stands is in 5, and all else of them goes.
        assert await journal.writer.run([Prune(5)]) == [4]
        assert await journal.writer.run([Prune(5)]) == [None]
        await journal.close()

    asyncio.run(pruned())
    assert plain.execute("select seq from journal order by seq").fetchall() == [(5,), (6,)]


def test_a_position_goes_on_where_the_last_life_ended(address: Address) -> None:
    async def two_lives() -> None:
        first = await opened(address)
        await first.writer.run([fact(1), fact(2)])
        await first.close()
        second = await opened(address)
        assert second.past.position == 2
        assert second.past.ended == {first.past.life: 2}
        assert second.past.secret == first.past.secret
        await second.close()

    asyncio.run(two_lives())
