"""Looking at requests: by a part of an id, and all of them page after page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import msgspec
import pytest
from client_broker import NOW_S, Broker

import kalends
from kalends.client.client import Client
from kalends.client.connection import in_surroundings
from kalends.client.methods.listing_calls import PAGE
from kalends.contract import calls
from kalends.core.errors import InvalidInput, NotFound
from kalends.core.identifiers import request_id


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[Client]:
    made = kalends.connect(broker.url, user="ada", zone="UTC", transport="http")
    async with in_surroundings(made, wall_clock=lambda: NOW_S) as client:
        yield client


def listed(broker: Broker) -> int:
    return sum(name == "list" for name, _ in broker.seen)


def fill(broker: Broker, count: int) -> list[str]:
    """Put `count` reservations into the broker; their ids, the newest first."""
    for number in range(count):
        id = request_id(NOW_S * 1_000 + number, number << 40)
        broker.requests[id] = calls.RequestView(
            id=id, state="reserved", user="ada", text="caltech/onyx", created_at=NOW_S
        )
    return sorted(broker.requests, reverse=True)


async def test_all_reservations_come_page_after_page_each_when_it_is_needed(
    client: Client, broker: Broker
) -> None:
    ids = fill(broker, 2 * PAGE + 5)
    found: list[str] = []
    async for view in client.reservations():
        found.append(view.id)
        assert listed(broker) == (len(found) - 1) // PAGE + 1
    assert found == ids


def test_the_waiting_client_yields_them_as_lazily(broker: Broker) -> None:
    ids = fill(broker, PAGE + 1)
    with kalends.connect_sync(broker.url, user="ada", transport="http") as client:
        reservations = client.reservations()
        assert next(reservations).id == ids[0]
        assert listed(broker) == 1
        assert [view.id for view in reservations] == ids[1:]


async def test_other_states_are_asked_for_by_name(client: Client, broker: Broker) -> None:
    first = fill(broker, 3)[0]
    broker.requests[first] = msgspec.structs.replace(broker.requests[first], state="cancelled")
    assert [view.id async for view in client.reservations(state="cancelled")] == [first]
    assert len([view async for view in client.reservations(state="")]) == 3


@pytest.mark.parametrize("method", ["show", "why", "cancel", "wait", "lock", "release"])
async def test_a_beginning_or_an_end_names_a_request(
    client: Client, broker: Broker, method: str
) -> None:
    booked = await client.hold("caltech/onyx", duration="1h")
    for part in (booked.id[-8:], booked.id[:13], booked.id[-4:].upper(), f" {booked.id} "):
        answer = await getattr(client, method)(part)
        assert getattr(answer, "request", answer).id == booked.id


async def test_a_whole_id_costs_no_look_up(client: Client, broker: Broker) -> None:
    booked = await client.book("caltech/onyx", duration="1h")
    await client.show(booked.id)
    assert listed(broker) == 0


async def test_a_part_of_several_ids_of_none_or_too_short_is_refused(
    client: Client, broker: Broker
) -> None:
    ids = fill(broker, 3)
    with pytest.raises(InvalidInput, match="may be 3 requests"):
        await client.show(ids[0][:8])
    with pytest.raises(NotFound, match="none of your requests"):
        await client.cancel("fefefefe")
    for part in ("abc", "no id at all", ""):
        with pytest.raises(InvalidInput, match="not an id"):
            await client.show(part)


async def test_changes_take_a_part_too(client: Client) -> None:
    booked = await client.book("caltech/onyx", duration="2h")
    assert (await client.shrink(booked.id[-8:], duration=timedelta(hours=1))).id == booked.id
    assert (await client.move(booked.id[-8:], "now+1d")).start == NOW_S + 86_400


async def test_a_window_may_be_a_text(client: Client) -> None:
    midnight = (NOW_S // 86_400 + 1) * 86_400
    asked = client.request("caltech/onyx", duration="1h", window="tomorrow")
    assert (asked.not_before, asked.not_after) == (midnight, midnight + 86_400)
    today = client.request("caltech/onyx", duration="1h", window="today")
    assert (today.not_before, today.not_after) == (NOW_S, midnight)


async def test_a_calendar_without_an_end_is_a_day_long(client: Client) -> None:
    view = await client.calendar("sdsc/sp2")
    assert (view.start, view.end) == (NOW_S, NOW_S + 86_400)
