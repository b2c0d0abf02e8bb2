"""A client that is given several addresses goes on at another one, with the same key and the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from client_broker import NOW_S, Broker, serving_broker
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.client.calls import CallSender
from kalends.client.client import Client
from kalends.client.client_settings import Surroundings
from kalends.client.connection import in_surroundings
from kalends.client.methods.missed_events import MissedEvents
from kalends.client.transports.retry import Backoff, ConnectionFailed
from kalends.client.transports.several import SILENT_S_MAX, SeveralServers
from kalends.client.transports.transport import Transport
from kalends.contract import calls
from kalends.contract.calls import OPERATION
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NotAuthenticated,
    OutcomeUnknown,
    Unavailable,
)
from kalends.core.identifiers import request_id

GONE = "http://127.0.0.1:9"
TRANSPORTS = ("session", "http")


@pytest.fixture
def other() -> Iterator[Broker]:
    with serving_broker() as broker:
        yield broker


def connected(*urls: str, **options: Any) -> Client:
    async def at_once(seconds: float) -> None: ...

    around = {"sleep": at_once, "wall_clock": lambda: NOW_S, "fraction": lambda: 0.5}
    around |= {name: options.pop(name) for name in Surroundings._fields if name in options}
    defaults: dict[str, Any] = {"user": "ada", "zone": "UTC", "timeout_s": 10.0}
    return in_surroundings(kalends.connect(list(urls), **{**defaults, **options}), **around)


async def book(client: Client, **options: Any) -> calls.RequestView:
    return await client.book("caltech/onyx", duration="2h", **options)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_goes_on_at_the_next_address_where_nothing_listens(
    broker: Broker, transport: str
) -> None:
    async with connected(GONE, broker.url, transport=transport) as client:
        assert (await book(client)).state == "reserved"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_last_address_that_answered_is_asked_first(
    broker: Broker, other: Broker, transport: str
) -> None:
    async with connected(GONE, broker.url, other.url, transport=transport) as client:
        for _ in range(3):
            await client.resources()
    assert (len(broker.seen), len(other.seen)) == (3, 0)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_draining_server_refuses_and_the_next_one_books(
    broker: Broker, other: Broker, transport: str
) -> None:
    broker.faults.append(Unavailable("this broker accepts no new requests at present"))
    async with connected(broker.url, other.url, transport=transport) as client:
        assert (await book(client)).state == "reserved"
    assert [name for name, _ in other.seen] == ["book"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_booking_whose_answer_was_lost_is_asked_for_elsewhere_by_the_same_key(
    broker: Broker, other: Broker, transport: str
) -> None:
    broker.faults.append("drop-after")
    async with connected(broker.url, other.url, transport=transport) as client:
        assert (await book(client, key="mine-alone")).state == "reserved"
    assert broker.seen[-1][1].key == other.seen[-1][1].key == "mine-alone"


async def test_a_refusal_is_the_answer_and_nobody_else_is_asked(
    broker: Broker, other: Broker
) -> None:
    broker.faults.append(Conflict("it is taken"))
    async with connected(broker.url, other.url) as client:
        with pytest.raises(Conflict):
            await book(client)
    assert other.seen == []


async def test_the_error_names_all_addresses_that_were_tried() -> None:
    async with connected(GONE, "http://127.0.0.1:7") as client:
        with pytest.raises(Unavailable) as caught:
            await book(client)
    assert caught.value.where == f"{GONE},http://127.0.0.1:7"
    assert f"{GONE}, http://127.0.0.1:7: nothing listens there" in caught.value.detail


@pytest.mark.parametrize("urls", [["http://a", "ftp://b"], ["http://a", ""], []])
def test_each_address_has_to_be_one(urls: list[str]) -> None:
    with pytest.raises(InvalidInput, match="is not the address of a server"):
        connected(*urls)


class Door:
    """A way to a server that says what it is told; `asked` are the waits and the times it was given."""

    def __init__(self, *said: Any, took_s: float = 0.0) -> None:
        self.said = list(said)
        self.took_s = took_s
        self.asked: list[tuple[float, float]] = []
        self.now_s = [0.0]

    async def call(self, operation: Any, body: Any, timeout_s: float) -> Any:
        self.asked.append((body.wait_ms / 1000, timeout_s))
        self.now_s[0] += min(self.took_s, timeout_s)
        answer = self.said.pop(0) if self.said else ConnectionFailed("silent", sent=True)
        if isinstance(answer, Exception):
            raise answer
        return answer


def in_turn(*doors: Door) -> tuple[SeveralServers, list[float]]:
    now_s = [0.0]
    for door in doors:
        door.now_s = now_s
    ways: dict[str, Any] = {f"http://{number}": door for number, door in enumerate(doors)}
    return SeveralServers(ways, lambda: now_s[0]), now_s


BOOK = calls.Finish(id=request_id(NOW_S * 1_000, 5), wait_ms=30_000)


async def asked(servers: SeveralServers, timeout_s: float = 60.0) -> Any:
    return await servers.call(OPERATION["cancel"], BOOK, timeout_s)


async def test_all_addresses_together_have_the_wait_and_the_time_of_one_call() -> None:
    silent, answers = Door(took_s=1_000.0), Door("done")
    servers, _ = in_turn(silent, answers)
    assert await asked(servers) == "done"
    assert silent.asked == [(30.0, 30.0 + SILENT_S_MAX)]
    assert answers.asked == [(0.0, 60.0 - 40.0)]


@given(
    count=st.integers(1, 5),
    timeout_s=st.floats(0.1, 100.0),
    took_s=st.lists(st.floats(0.0, 200.0), min_size=5, max_size=5),
)
async def test_however_silent_they_are_no_call_takes_longer_than_its_time(
    count: int, timeout_s: float, took_s: list[float]
) -> None:
    servers, now_s = in_turn(*(Door(took_s=took_s[number]) for number in range(count)))
    with pytest.raises(ConnectionFailed):
        await asked(servers, timeout_s)
    assert now_s[0] <= timeout_s + 1e-6


@pytest.mark.parametrize(
    "end",
    [
        LimitExceeded("too many calls", retry_after_s=1.0),
        NotAuthenticated("expired"),
        Unavailable("it has failed", request_id="2" * 26),
    ],
)
async def test_after_a_lost_answer_an_end_that_says_nothing_of_it_leaves_the_outcome_open(
    end: KalendsError,
) -> None:
    lost = ConnectionFailed("the connection broke", sent=True)
    servers, _ = in_turn(Door(lost), Door(end))
    with pytest.raises(ConnectionFailed) as caught:
        await asked(servers)
    assert caught.value.sent


async def test_servers_that_all_refuse_have_done_nothing() -> None:
    servers, _ = in_turn(
        Door(Unavailable("draining", retry_after_s=5.0)),
        Door(Unavailable("no store", retry_after_s=2.0)),
    )
    with pytest.raises(Unavailable, match="http://0: draining; http://1: no store") as caught:
        await asked(servers)
    assert caught.value.retry_after_s == 2.0


@pytest.mark.parametrize(
    ("first", "second", "mend"), [("", "ca", ""), ("ca", "ca", "ca"), ("ca", "", "")]
)
async def test_only_where_every_address_has_to_be_mended_no_retry_helps(
    first: str, second: str, mend: str
) -> None:
    servers, _ = in_turn(
        Door(ConnectionFailed("one", sent=False, mend=first)),
        Door(ConnectionFailed("two", sent=False, mend=second)),
    )
    with pytest.raises(ConnectionFailed) as caught:
        await asked(servers)
    assert caught.value.mend == mend


async def test_an_unknown_outcome_at_one_server_is_asked_of_the_next() -> None:
    servers, _ = in_turn(Door(OutcomeUnknown("the store failed")), Door("done"))
    assert await asked(servers) == "done"


async def test_if_no_server_knows_the_outcome_stays_unknown() -> None:
    def door() -> Door:
        return Door(OutcomeUnknown("the store failed"), OutcomeUnknown("the store failed"))

    async def at_once(seconds: float) -> None: ...

    servers, _ = in_turn(door(), door())
    way: Transport = servers
    sender = CallSender(
        way, url="http://0,http://1", timeout_s=60.0, backoff=Backoff(tries_max=2),
        clock=lambda: 0.0, sleep=at_once, fraction=lambda: 0.5,
    )  # fmt: skip
    with pytest.raises(OutcomeUnknown, match="the store failed"):
        await sender.call(BOOK, "cancel", calls.RequestView)


class Stories:
    """What all replicas know of requests: their stories, which grow."""

    def __init__(self, view: calls.RequestView) -> None:
        self.view = view
        self.events: tuple[calls.Event, ...] = ()

    def happen(self, number: int, kind: str, state: Any = "open") -> calls.Event:
        event = calls.Event(number=number, at_ms=number, id=self.view.id, kind=kind)
        self.events = (*self.events, event)
        self.view = msgspec.structs.replace(self.view, state=state)
        return event

    async def show(self, id: str) -> calls.RequestView:
        return msgspec.structs.replace(self.view, note=f"{len(self.events)} events")

    async def why(self, id: str) -> calls.Story:
        return calls.Story(request=self.view, events=self.events)

    async def list(self, *, count: int = 0) -> calls.RequestViews:
        return calls.RequestViews([await self.show("")])


@pytest.fixture
async def stories(broker: Broker) -> Stories:
    async with connected(broker.url) as client:
        return Stories(await book(client))


@pytest.mark.parametrize("all_of_them", [True, False])
async def test_a_watch_that_went_on_elsewhere_tells_what_it_was_not_told_once_and_nothing_older(
    stories: Stories, all_of_them: bool
) -> None:
    missed = MissedEvents(stories, "" if all_of_them else stories.view.id)
    stories.happen(10, "waiting")
    await missed.begin()
    assert await missed.at("http://one", 10) == []
    told = msgspec.structs.replace(stories.happen(20, "held"), number=25)
    missed.note(told)
    assert await missed.at("http://one", 25) == []
    gone = stories.happen(30, "reserved", "reserved")
    assert await missed.at("http://other", 25) == [gone]
    assert await missed.at("http://other", 25) == []
    later = stories.happen(40, "cancelled", "cancelled")
    assert await missed.at("http://other", 25) == [later]


async def test_the_end_of_a_request_is_told_whatever_its_number(stories: Stories) -> None:
    missed = MissedEvents(stories, stories.view.id)
    stories.happen(10, "waiting")
    await missed.begin()
    await missed.at("http://one", 100)
    end = stories.happen(90, "reserved", "reserved")
    assert await missed.at("http://other", 100) == [end]


async def test_an_end_between_the_first_look_and_the_death_of_a_server_is_told(
    stories: Stories,
) -> None:
    missed = MissedEvents(stories, stories.view.id)
    await missed.begin()
    end = stories.happen(90, "reserved", "failed")
    assert await missed.at("http://one", 90) == []
    assert await missed.at("http://other", 90) == [end]
