"""A broker whose store fails: nothing undurable is told, and it goes on when the store works again."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

import kalends
from kalends.client.transports.retry import Backoff
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    StoreDamaged,
    Unavailable,
)
from kalends.servers.broker import build_broker
from kalends.serving.configuration import BrokerConfiguration, load_configuration
from kalends.serving.http.runner import Listener, Service, listen

ONCE = Backoff(tries_max=1)
WHEN = 4_000_000_000


def configuration(directory: Path, replica: str = "1") -> BrokerConfiguration:
    text = f'[broker]\nname = "npaci"\nreplica = "{replica}"\nstore = "npaci.sqlite"\n'
    broker = load_configuration(text, directory).broker
    assert broker is not None
    return broker


async def start(directory: Path, replica: str = "1") -> Listener:
    application = build_broker(configuration(directory, replica), version="1")
    return await listen(Service("broker npaci", application, "127.0.0.1:0"))


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[kalends.Client]:
    listening = await start(directory)
    try:
        async with kalends.connect(listening.url, user="anna", backoff=ONCE) as client:
            yield client
    finally:
        await listening.stop()


def administer(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / "npaci.sqlite", isolation_level=None)) as connection:
        connection.execute(statement)


def break_writes(directory: Path, table: str) -> None:
    administer(
        directory,
        f"create trigger broken_{table} before insert on {table}"
        " begin select raise(abort, 'the disk is full'); end",
    )


def mend_writes(directory: Path, table: str) -> None:
    administer(directory, f"drop trigger broken_{table}")


async def book(client: kalends.Client, key: str) -> None:
    """No site is known, so that it is refused; which needs the store, as everything does."""
    await client.book("sdsc/sp2", duration="1h", at=WHEN, key=key)


async def test_what_the_store_does_not_take_is_unknown_and_can_be_sent_again(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as client:
        break_writes(tmp_path, "request")
        with pytest.raises(OutcomeUnknown):
            await book(client, "first-key")
        mend_writes(tmp_path, "request")
        while (await client.health()).status != "ok":
            pass
        with pytest.raises(NotFound, match="no request of yours"):
            await client.resolve("first-key")
        with pytest.raises(NotFound, match="no such resource"):
            await book(client, "first-key")
        assert (await client.resolve("first-key")).state == "failed"


async def test_without_its_store_a_broker_says_that_it_fails_until_it_is_back(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as client:
        break_writes(tmp_path, "replica")
        break_writes(tmp_path, "request")
        with pytest.raises(OutcomeUnknown):
            await book(client, "first-key")
        health = await client.health()
        while not health.detail.startswith("the store accepts no writes"):
            health = await client.health()
        assert health.status == "failing"
        for call in (book(client, "other-key"), client.list(), client.resolve("first-key")):
            with pytest.raises(Unavailable):
                await call
        mend_writes(tmp_path, "replica")
        mend_writes(tmp_path, "request")
        while (await client.health()).status != "ok":
            pass
        with pytest.raises(NotFound):
            await client.resolve("first-key")


async def test_a_request_that_would_be_given_up_in_the_past_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        asked = client.request("here/one", duration="1h", at=WHEN)
        with pytest.raises(InvalidInput) as caught:
            await client.book(asked, patience="taken", give_up_at="2026-01-01 00:00")
        assert caught.value.where == "give_up_at"
        assert await client.list() == ()


async def test_a_stop_gives_the_lease_back(tmp_path: Path) -> None:
    listening = await start(tmp_path)
    with closing(sqlite3.connect(tmp_path / "npaci.sqlite")) as connection:
        owners = connection.execute("select owner from replica").fetchall()
        assert owners == [("npaci-1:1",)]
        await listening.stop()
        assert connection.execute("select owner from replica").fetchall() == []


async def test_a_second_process_of_the_same_replica_is_refused_and_another_replica_is_not(
    tmp_path: Path,
) -> None:
    first = await start(tmp_path)
    with pytest.raises(Conflict):
        await start(tmp_path)
    second = await start(tmp_path, "2")
    await second.stop()
    await first.stop()
    await (await start(tmp_path)).stop()


async def test_a_file_that_is_no_brokers_store_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "npaci.sqlite").write_bytes(b"a letter")
    with pytest.raises(StoreDamaged):
        await start(tmp_path)
    assert (tmp_path / "npaci.sqlite").read_bytes() == b"a letter"


async def test_a_request_of_its_own_that_a_replica_has_lost_sight_of_is_taken_up_again(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as client:
        with pytest.raises(NotFound):
            await book(client, "first-key")
        administer(
            tmp_path,
            "update request set state = 'open', done = 0, owner = (select owner from replica)",
        )
        with pytest.raises(NotFound):
            await client.wait((await client.resolve("first-key")).id)
        found = await client.resolve("first-key")
        assert (found.state, found.attempts) == ("failed", 2)


async def test_the_owner_may_go_on_with_a_register_that_was_put_back(tmp_path: Path) -> None:
    async with serving(tmp_path):
        pass
    administer(tmp_path, "insert into meta values ('recovering', 1)")
    async with serving(tmp_path) as client:
        with pytest.raises(Unavailable, match="restored to an earlier state"):
            await book(client, "first-key")
        assert (await client.reconcile(wait_s=0)).recovering
        assert not (await client.reconcile(wait_s=0, go_on=True)).recovering
        with pytest.raises(NotFound):
            await book(client, "first-key")


async def test_while_another_process_keeps_the_store_locked_reads_go_on_and_writes_say_why(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as client:
        with pytest.raises(NotFound, match="no such resource"):
            await book(client, "first-key")
        first = await client.resolve("first-key")
        with closing(
            sqlite3.connect(tmp_path / "npaci.sqlite", isolation_level=None)
        ) as standing_still:
            standing_still.execute("begin immediate")
            with pytest.raises(OutcomeUnknown, match="not taken a write"):
                await book(client, "second-key")
            with pytest.raises(Unavailable, match="not taken a write"):
                await book(client, "third-key")
            assert (await client.health()).status == "failing"
            assert await client.show(first.id) == await client.resolve("first-key") == first
            assert (await client.why(first.id)).request == first
            assert await client.list() == (first,)
            assert (await client.resources()).resources == ()
