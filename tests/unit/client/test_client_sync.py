"""The waiting client: the same methods and the same outcomes, without an event loop of one's own."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from client_broker import Broker

import kalends
from kalends.client.sync import SyncClient
from kalends.contract import calls
from kalends.core.errors import NoCommonTime


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


REPORTING = [
    name
    for name, method in inspect.getmembers(SyncClient, callable)
    if not name.startswith("_") and "on_progress" in inspect.signature(method).parameters
]


@pytest.mark.parametrize("name", REPORTING)
def test_progress_is_told_in_the_thread_of_the_caller_who_may_call_the_client(
    broker: Broker, name: str
) -> None:
    job = kalends.JobRequest(machine="", limit_s=60, command=("true",))
    more = {"hold": {}, "book": {}, "book_copies": {"count": 1}, "submit_in_step": {"job": job}}
    broker.courses.append([{"waiting": calls.Waiting(since=1, until=2)}, {"state": "reserved"}])
    told: list[tuple[str, int]] = []

    with kalends.connect_sync(broker.url, user="ada", transport="http") as client:

        def hear(view: calls.RequestView) -> None:
            told.append((client.show(view.id).id, threading.get_ident()))

        if name == "wait":
            given = {"id": client.book("caltech/onyx", duration="1h", wait_s=0).id}
        else:
            given = {"request": "caltech/onyx", "duration": "1h", "wait_s": None, **more[name]}
        getattr(client, name)(**given, on_progress=hear)
    assert told
    assert {thread for _, thread in told} == {threading.get_ident()}
