"""Calendar feeds of a real broker: what a program reads at a secret address, and when it reads nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import aiohttp
import icalendar
import pytest

from kalends.broker.desk import feeds
from kalends.client.client import Client
from kalends.core.errors import LimitExceeded, NotFound
from kalends.testing import LocalFacility

NOW, NINE = "2027-03-01T09:00Z", "2027-03-02T09:00Z"


class Read(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def events(self) -> dict[str, icalendar.Event]:
        calendar = icalendar.Calendar.from_ical(self.body)
        return {str(event["UID"]): event for event in calendar.walk("VEVENT")}


async def read(address: str, **headers: str) -> Read:
    async with aiohttp.ClientSession() as http, http.get(address, headers=headers) as answer:
        return Read(answer.status, answer.headers, await answer.read())


@pytest.fixture
async def servers() -> AsyncIterator[LocalFacility]:
    async with LocalFacility({"sdsc": {"sp2": 64}, "ncsa": {"cave": 1}}, now=NOW) as servers:
        yield servers


@pytest.fixture
async def ann(servers: LocalFacility) -> AsyncIterator[Client]:
    async with servers.client("ann") as ann:
        yield ann


async def test_a_feed_follows_a_reservation_through_its_life(ann: Client) -> None:
    address = (await ann.add_feed()).address
    booked = await ann.book("sdsc/sp2:8 + ncsa/cave", duration="1h", at=NINE, note="run 7")
    uid = f"{booked.id}-1@kalends"
    seen = [(await read(address)).events[uid]]
    await ann.move(booked.id, "2027-03-03T09:00Z")
    seen.append((await read(address)).events[uid])
    await ann.cancel(booked.id)
    seen.append((await read(address)).events[uid])
    assert [(int(each["SEQUENCE"]), str(each["STATUS"])) for each in seen] == [
        (0, "CONFIRMED"), (1, "CONFIRMED"), (2, "CANCELLED"),
    ]  # fmt: skip
    assert [each["DTSTART"].dt.day for each in seen] == [2, 3, 3]


async def test_a_feed_is_a_calendar_that_programs_read_again_only_after_changes(
    ann: Client,
) -> None:
    address = (await ann.add_feed()).address
    held = await ann.hold("ncsa/cave", duration="1h", at=NINE)
    first = await read(address)
    assert first.headers["Content-Type"] == "text/calendar; charset=utf-8"
    assert first.headers["Cache-Control"] == "private, no-cache"
    assert b"REFRESH-INTERVAL;VALUE=DURATION:PT15M\r\n" in first.body
    again = await read(address, **{"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    await ann.lock(held.id)
    after = await read(address, **{"If-None-Match": first.headers["ETag"]})
    assert after.status == 200
    statuses = [str(event["STATUS"]) for each in (first, after) for event in each.events.values()]
    assert statuses == ["TENTATIVE", "CONFIRMED"]


async def test_a_feed_has_the_reservations_of_its_user_and_of_nobody_else(
    servers: LocalFacility, ann: Client
) -> None:
    async with servers.client("bob") as bob:
        mine = await ann.book("sdsc/sp2:8", duration="1h", at=NINE)
        await bob.book("sdsc/sp2:8", duration="1h", at=NINE, note="bob's secret")
        found = await read((await ann.add_feed("phone")).address)
        assert [*found.events] == [f"{mine.id}-1@kalends"]
        assert [each.name for each in await ann.feeds()] == ["phone"]
        assert await bob.feeds() == ()
        with pytest.raises(NotFound):
            await bob.revoke_feed("phone")


async def test_a_revoked_address_leads_nowhere_and_so_does_one_that_was_replaced(
    ann: Client,
) -> None:
    first = (await ann.add_feed()).address
    second = (await ann.add_feed()).address
    assert [(await read(each)).status for each in (first, second)] == [404, 200]
    await ann.revoke_feed()
    assert (await read(second)).status == 404
    assert await ann.feeds() == ()
    with pytest.raises(NotFound, match="no calendar feed"):
        await ann.revoke_feed()


async def test_the_secret_is_in_no_listing_no_text_and_no_store(
    servers: LocalFacility, ann: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    view = await ann.add_feed()
    secret = view.address.rpartition("/")[2].removesuffix(".ics")
    assert len(secret) == 43
    await read(view.address)
    assert secret not in repr(view) + repr(await ann.feeds()) + "".join(capfd.readouterr())
    configured = servers._configured[servers.broker].broker
    assert configured is not None
    stored = [*configured.store.folder.glob("**/*")]
    assert stored
    assert not [each for each in stored if each.is_file() and secret.encode() in each.read_bytes()]


async def test_a_user_has_a_limited_number_of_feeds(ann: Client) -> None:
    for number in range(feeds.FEEDS_MAX):
        await ann.add_feed(f"n{number}")
    with pytest.raises(LimitExceeded, match="the maximum"):
        await ann.add_feed("another")
    assert (await ann.add_feed("n0")).address


async def test_events_lie_around_now_and_are_limited(
    servers: LocalFacility, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "PAGE", 2)
    monkeypatch.setattr(feeds, "EVENTS_MAX", 4)
    address = (await ann.add_feed()).address
    near = [await ann.book("sdsc/sp2:1", duration="1h", at=NINE) for _ in range(3)]
    await ann.book("sdsc/sp2:1", duration="1h", at="2027-09-20T09:00Z")
    assert [*(await read(address)).events] == sorted(f"{each.id}-1@kalends" for each in near)
    newer = [await ann.book("sdsc/sp2:1", duration="1h", at=NINE) for _ in range(3)]
    found = (await read(address)).events
    assert len(found) == 4
    assert {f"{each.id}-1@kalends" for each in newer} < found.keys()


async def test_who_reads_too_often_or_guesses_is_refused_for_a_while(
    servers: LocalFacility, ann: Client
) -> None:
    address = (await ann.add_feed()).address
    statuses = [(await read(address)).status for _ in range(feeds.READS_BURST + 1)]
    assert statuses == [*[200] * feeds.READS_BURST, 429]
    wrong = address.replace(address[-47:], f"{'x' * 43}.ics")
    statuses = [(await read(wrong)).status for _ in range(12)]
    assert statuses[0] == 404
    assert statuses[-1] == 429
    other = await read(address)
    assert (other.status, "Retry-After" in other.headers) == (429, True)
