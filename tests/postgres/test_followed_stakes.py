"""A standby that follows the journal begins with the same as one that reads all of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import postgres_clusters
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_support import fact, rid, stake

from kalends.resource_servers.journal.contract import Loaded
from kalends.resource_servers.journal.postgres import site_tables
from kalends.resource_servers.journal.postgres.site_journal import PostgresStorage
from kalends.resource_servers.journal.standing_stakes import FollowedStakes
from kalends.resource_servers.participation.claims.claim_sets import StakeDropped, stored
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.readers import SlowReader
from kalends.stores.served_elsewhere import ServedElsewhere
from tests.postgres.test_site_journal import storage_at
from tests.property.resource_servers.journal.test_journal_laws import WINGS, Compared

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

FOLLOW: Final = "follow"
TAKE_OVER: Final = "take over"

states = st.sampled_from(("held", "prepared", "locked", "cancelled", "absent"))
facts = st.builds(
    lambda number, state, user, ends_at: stored(
        stake(number, state, ends_at=ends_at, register=f"of {user}"), "commit"
    ),
    st.integers(0, 5), states, st.sampled_from("ab"), st.integers(0, 200),
)  # fmt: skip
submissions = st.lists(facts | st.one_of(*WINGS["claims"]), min_size=1, max_size=8)
steps = st.lists(
    st.sampled_from((FOLLOW, FOLLOW, TAKE_OVER)) | submissions, min_size=3, max_size=20
)


def of(loaded: Loaded) -> tuple[object, ...]:
    """Return all that a life of a site begins with of its stakes, in order."""
    stakes = loaded.stakes
    bookings = {name: [*each.items()] for name, each in stakes.bookings.items()}
    endings = [(minute, sorted(rids)) for minute, rids in stakes.endings._loaded.items()]
    return (
        [*stakes.awake.items()], [*stakes.resting.items()], bookings, endings, stakes.locked,
        stakes.registers, loaded.forgotten, loaded.set_aside.told(),
    )  # fmt: skip


def read_at_once(address: Address, like: Loaded) -> Loaded:
    reader = SlowReader(address)
    try:
        return site_tables.load(reader, FollowedStakes(), like.past, like.epoch)
    finally:
        reader.close()


async def follow(storage: PostgresStorage) -> None:
    with pytest.raises(ServedElsewhere):
        await storage.open(lambda committed: None)


async def played(address: Address, given_steps: Sequence[Any]) -> None:
    """Two processes take turns; the one that does not serve follows now and then."""
    storages = [storage_at(address), storage_at(address)]
    site = Compared(lambda: storages[0])
    await site.begin()
    for step in (*given_steps, TAKE_OVER):
        if step == FOLLOW:
            await follow(storages[1])
        elif step == TAKE_OVER:
            await site.end()
            storages.reverse()
            await site.begin()
        else:
            await site.store(step)
    await site.end()
    for each in storages:
        await each.close()


@given(steps)
@settings(max_examples=30, deadline=None)
def test_what_was_followed_at_random_moments_is_all_that_was_stored(
    given_steps: Sequence[Any],
) -> None:
    with postgres_clusters.in_a_schema() as address:
        asyncio.run(played(address, given_steps))


@given(st.lists(st.just(FOLLOW) | submissions, min_size=2, max_size=12))
@settings(max_examples=30, deadline=None)
def test_what_was_followed_is_ready_as_if_it_had_been_read_at_once(
    given_steps: Sequence[Any],
) -> None:
    async def followed(address: Address) -> None:
        owner, standby = storage_at(address), storage_at(address)
        site = Compared(lambda: owner)
        await site.begin()
        for step in given_steps:
            await (follow(standby) if step == FOLLOW else site.store(step))
        await site.end()
        journal = await standby.open(lambda committed: None)
        loaded = await journal.load()
        assert of(loaded) == of(read_at_once(address, loaded))
        await journal.close()

    with postgres_clusters.in_a_schema() as address:
        asyncio.run(followed(address))


def test_a_take_over_reads_only_the_facts_that_are_new(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    take = FollowedStakes.take

    def noted(followed: FollowedStakes, number: int, rid: str, *rest: Any) -> None:
        taken.append(rid)
        take(followed, number, rid, *rest)

    async def taken_over() -> None:
        owner, standby = storage_at(address), storage_at(address)
        journal = await owner.open(lambda committed: None)
        await journal.writer.run([fact(1), fact(2), fact(3)])
        await follow(standby)
        await journal.writer.run([StakeDropped(rid(1)), fact(2), fact(4)])
        await journal.close()
        taken.clear()
        monkeypatch.setattr(FollowedStakes, "take", noted)
        after = await standby.open(lambda committed: None)
        assert [each.rid for each in (await after.load()).stakes] == [rid(3), rid(2), rid(4)]
        assert taken == [rid(1), rid(2), rid(4)]
        await after.close()

    asyncio.run(taken_over())


def test_a_journal_that_was_pruned_or_damaged_meanwhile_is_read_anew(
    address: Address, plain: psycopg.Connection[Any]
) -> None:
    async def damaged() -> None:
        owner, standby = storage_at(address), storage_at(address)
        journal = await owner.open(lambda committed: None)
        await journal.writer.run([fact(1), fact(2), fact(3)])
        await follow(standby)
        await journal.writer.run([StakeDropped(rid(1)), fact(4)])
        await journal.close()
        plain.execute("delete from journal where event = 'dropped' or seq = 2")
        taken = await standby.open(lambda committed: None)
        loaded = await taken.load()
        assert [each.rid for each in loaded.stakes] == [rid(3), rid(4)]
        assert rid(2) in loaded.set_aside
        await taken.close()

    asyncio.run(damaged())
