"""What is revoked in a database is refused by all who follow it there, whatever becomes of the database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import postgres_clusters
import psycopg
import pytest
from postgres_clusters import Cluster

from kalends.broker.register.postgres.register_schema import REGISTER
from kalends.core.errors import InvalidInput, Unavailable
from kalends.serving.auth import stored_revocations
from kalends.serving.auth.revocations import Revocation
from kalends.serving.auth.stored_revocations import StoredRevocations, revoke
from kalends.stores.postgres.address import Address
from kalends.stores.postgres.migrations import open_store
from tests.support.patience import PATIENCE_S

pytestmark = [pytest.mark.needs_postgres, pytest.mark.xdist_group("postgres")]

Session = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_revocations, "LOOK_EVERY_S", 0.01)


@pytest.fixture
def store(address: Address) -> Address:
    open_store(address, REGISTER, "npaci")
    return address


@asynccontextmanager
async def followed(address: Address, troubles: list[str] | None = None) -> AsyncIterator[Any]:
    said = troubles if troubles is not None else []
    revocations = StoredRevocations(address, said.append)
    await revocations.begin()
    try:
        yield revocations
    finally:
        await revocations.end()


async def refused(by: StoredRevocations, *tokens: str) -> None:
    """Returns when all of `tokens` are revoked there."""
    await until(lambda: all(by(token, "any key") for token in tokens))


async def until(holds: Callable[[], object]) -> None:
    # A bounded poll: who follows tells nobody.
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def tokens(*ids: str) -> Sequence[Revocation]:
    return [Revocation("token", id) for id in ids]


async def test_what_is_revoked_is_refused_by_each_process_and_after_a_restart(
    store: Address,
) -> None:
    async with followed(store) as one, followed(store) as other:
        assert not one("lost", "any key")
        await asyncio.to_thread(revoke, store, tokens("lost"), "laptop lost")
        await asyncio.gather(refused(one, "lost"), refused(other, "lost"))
        assert not one("another", "any key")
    async with followed(store) as begun:
        assert begun("lost", "any key")
        assert not begun("lost ", "any key")


async def test_a_revoked_key_revokes_all_its_tokens(store: Address) -> None:
    await asyncio.to_thread(revoke, store, [Revocation("key", "people")])
    async with followed(store) as begun:
        assert begun("any token", "people")
        assert not begun("people", "any key")


async def test_what_is_revoked_again_changes_nothing(store: Address, plain: Session) -> None:
    for note in ("first", "again"):
        await asyncio.to_thread(revoke, store, tokens("lost", "lost"), note)
    assert plain.execute("select kind, id, note from revoked").fetchall() == [
        ("token", "lost", "first")
    ]


async def test_more_than_a_page_is_read_before_the_server_serves(
    store: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_revocations, "PAGE", 3)
    ids = [f"token-{number}" for number in range(7)]
    await asyncio.to_thread(revoke, store, tokens(*ids))
    async with followed(store) as begun:
        assert all(begun(id, "any key") for id in ids)


async def test_who_follows_misses_none_of_two_who_revoke_at_the_same_time(
    store: Address, cluster: Cluster, schema: str
) -> None:
    """The one that has its number first commits last."""
    with cluster.connect(schema=schema) as slow:
        slow.autocommit = False
        slow.execute(stored_revocations._ALONE.sql)
        slow.execute("insert into revoked (kind, id, note) values ('token', 'first', '')")
        other = threading.Thread(target=revoke, args=(store, tokens("second")))
        async with followed(store) as begun:
            other.start()
            waits = "select 1 from pg_stat_activity where wait_event_type = 'Lock'"
            with cluster.connect() as watch:
                await until(lambda: not other.is_alive() or watch.execute(waits).fetchone())
            slow.commit()
            await asyncio.to_thread(other.join)
            if not await asyncio.to_thread(_is_there, cluster, schema, "second"):
                # It gave up the lock: whoever revokes is told so, and tries again.
                await asyncio.to_thread(revoke, store, tokens("second"))
            await refused(begun, "first", "second")


def _is_there(cluster: Cluster, schema: str, id: str) -> bool:
    with cluster.connect(schema=schema) as session:
        return session.execute("select 1 from revoked where id = %s", (id,)).fetchone() is not None


@pytest.mark.parametrize("id", ["", "two words", "a#b", "n" * 513])
def test_an_id_that_cannot_be_is_refused(store: Address, id: str) -> None:
    with pytest.raises(InvalidInput):
        revoke(store, tokens("right", id))


def test_too_many_are_refused_and_none_of_them_is_stored(
    store: Address, plain: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_revocations, "REVOKED_MAX", 2)
    revoke(store, tokens("one", "two"))
    with pytest.raises(InvalidInput, match="more than 2"):
        revoke(store, tokens("three"))
    assert plain.execute("select count(*) from revoked").fetchone() == (2,)


def test_a_database_without_a_store_is_named(address: Address) -> None:
    with pytest.raises(Unavailable, match="revoked"):
        revoke(address, tokens("lost"))


async def test_while_the_database_is_away_what_is_known_stays_revoked_and_there_is_an_alarm(
    template: Path,
) -> None:
    troubles: list[str] = []
    with postgres_clusters.cluster(template) as cluster:
        address = cluster.address()
        open_store(address, REGISTER, "npaci")
        revoke(address, tokens("lost"))
        async with followed(address, troubles) as begun:
            await asyncio.to_thread(cluster.kill)
            await until(lambda: any(troubles))
            assert begun("lost", "any key")
            with pytest.raises(Unavailable):
                await StoredRevocations(address, troubles.append).begin()
            await asyncio.to_thread(cluster.start)
            await asyncio.to_thread(revoke, address, tokens("later"))
            await refused(begun, "lost", "later")
            await until(lambda: not troubles[-1])


async def test_a_number_that_a_promoted_standby_gives_again_is_read(
    store: Address, plain: Session
) -> None:
    """As after an asynchronous failover: the last revocation is lost, and another one has its number."""
    async with followed(store) as begun:
        await asyncio.to_thread(revoke, store, tokens("lost-with-the-primary"))
        await refused(begun, "lost-with-the-primary")
        begun._cluster = (*begun._cluster[:1], begun._cluster[1] - 1)
        plain.execute("update revoked set id = 'after-the-failover'")
        await refused(begun, "after-the-failover", "lost-with-the-primary")
