"""The waiting client: the same methods and the same outcomes, without an event loop of one's own."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from client_broker import Broker, serving_broker

import kalends
from kalends.client.client import Client
from kalends.client.sync import SyncClient
from kalends.core.errors import NoCommonTime


@pytest.fixture
def broker() -> Iterator[Broker]:
    with serving_broker() as broker:
        yield broker


def test_it_has_every_method_of_the_asynchronous_client_with_the_same_arguments() -> None:
    for name, method in inspect.getmembers(Client, callable):
        if name.startswith("_"):
            continue
        mine = inspect.signature(getattr(SyncClient, name))
        assert list(mine.parameters) == list(inspect.signature(method).parameters), name


@pytest.mark.parametrize("transport", ["session", "http"])
def test_it_books_and_raises_like_the_asynchronous_one(broker: Broker, transport: str) -> None:
    with kalends.connect_sync(broker.url, user="ada", transport=transport) as client:
        booked = client.book("caltech/onyx", duration="1h")
        assert client.show(booked.id) == booked
        with pytest.raises(NoCommonTime):
            client.book("caltech/onyx", duration="2d")


def test_several_threads_share_one_client(broker: Broker) -> None:
    with (
        kalends.connect_sync(broker.url, user="ada") as client,
        ThreadPoolExecutor(8) as pool,
    ):
        booked = list(pool.map(lambda _: client.book("caltech/onyx", duration="1h").id, range(32)))
    assert len(set(booked)) == len(broker.requests) == 32


def test_watch_is_an_iterator(broker: Broker) -> None:
    with kalends.connect_sync(broker.url, user="ada") as client:
        for _ in range(3):
            client.book("caltech/onyx", duration="1h")
        events = client.watch(after=0)
        assert [next(events).number for _ in range(2)] == [1, 2]


def test_leaving_ends_its_thread_and_closing_twice_is_harmless(broker: Broker) -> None:
    before = threading.active_count()
    with kalends.connect_sync(broker.url, user="ada") as client:
        client.health()
    client.close()
    assert threading.active_count() == before
