"""Users are reminded of reservations that begin soon: each once, by the time at which it really begins."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import mail_relay as relays
import pytest
from tests.unit.broker.register.test_register import KEYS, RIDS, record_of

from kalends.broker.desk.reminders import posted
from kalends.broker.register.contract import DueReminder
from kalends.broker.register.writes import NoticeAddress
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import short_id
from kalends.testing import LocalFacility

NOW = "2027-03-01T09:00Z"
NINE, TEN, NOON = "2027-03-02T09:00Z", "2027-03-02T10:00Z", "2027-03-02T12:00Z"


@pytest.fixture
async def relay() -> AsyncIterator[relays.MailRelay]:
    async with relays.mail_relay() as relay:
        yield relay


@pytest.fixture
async def receiver() -> AsyncIterator[relays.WebhookReceiver]:
    async with relays.webhook_receiver() as receiver:
        yield receiver


@pytest.fixture
async def servers(
    relay: relays.MailRelay, receiver: relays.WebhookReceiver
) -> AsyncIterator[LocalFacility]:
    notices = {
        "smtp": f"127.0.0.1:{relay.port}", "encryption": "none", "from": "kalends@broker.example",
        "address": "{user}@users.example", "webhook_hosts": [receiver.place],
    }  # fmt: skip
    resources = {"sdsc": {"sp2": 8}, "ncsa": {"cave": 1}}
    async with LocalFacility(resources, now=NOW, settings={"notices": notices}) as servers:
        yield servers


def subjects(mails: list[relays.Mail]) -> list[str]:
    return [mail.message["Subject"].removeprefix("kalends: ") for mail in mails]


TEST = "a test of your notices"


def reminder(id: str, begins: str) -> str:
    return f"reservation {short_id(id)} begins at {begins}"


async def test_a_reminder_comes_once_by_each_address_that_asks_for_it_also_across_a_restart(
    servers: LocalFacility, relay: relays.MailRelay, receiver: relays.WebhookReceiver
) -> None:
    async with servers.client("ann") as ann, servers.client("bob") as bob:
        await ann.add_notice_address(zone="Europe/Berlin", remind="1h")
        await ann.add_notice_address(f"{receiver.url}/jobs", remind="2h")
        await bob.add_notice_address()
        booked = await ann.book("sdsc/sp2:8 + ncsa/cave", duration="1h", at=NOON, note="run 7")
        await bob.book("sdsc/sp2:8", duration="1h", at=NINE)
        servers.clock.advance(hours=25, minutes=1)
        await receiver.calls_made()
        assert relay.mails == [], "an hour too early"
        servers.stop("broker")
        servers.start("broker")
        servers.clock.advance(hours=1)
        (mail,) = await relay.different()
        servers.stop("broker")
        servers.start("broker")
        servers.clock.advance(minutes=30)
        await ann.test_notice_address()
        mails = await relay.different(2)
    assert subjects(mails) == [reminder(booked.id, "Tue 2027-03-02 13:00:00 CET (UTC+01:00)"), TEST]
    assert mail.to == "TO:<ann@users.example>"
    body = mail.message.get_body(("plain",))
    assert body is not None
    assert "note     run 7" in body.get_content()
    assert [part.get_content_subtype() for part in mail.message.walk()] == ["plain"], (
        "no invitation"
    )
    calls = await receiver.calls_made()
    assert len({each.headers["webhook-id"] for each in calls}) == 1
    told = json.loads(calls[0].body)
    assert (told["event"], told["request"]) == ("begins", booked.id)
    assert {slot["start"] for slot in told["slots"]} == {booked.start}
    assert told["at"] == booked.start - 7_200


async def test_a_reminder_moves_with_its_reservation_and_is_gone_when_that_is_cancelled(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann, servers.client("owner", at="sdsc") as owner:
        moved = await ann.book("sdsc/sp2", duration="1h", at=NINE)
        by_owner = await ann.book("sdsc/sp2:2", duration="1h", at=TEN)
        gone = await ann.book("ncsa/cave", duration="1h", at=NINE)
        await ann.add_notice_address(remind="30m")
        await ann.move(moved.id, NOON)
        await owner.reclaim("sdsc/sp2", at=TEN, duration="1h", reason="a new pump")
        await relay.mail()
        await ann.cancel(gone.id)
        servers.clock.advance(hours=23, minutes=45)
        await relay.different(2)
        servers.clock.advance(hours=2, minutes=50)
        await relay.different(3)
        await ann.test_notice_address()
        mails = await relay.different(4)
    assert subjects(mails) == [
        f"reservation {short_id(by_owner.id)} was moved by sdsc",
        reminder(by_owner.id, "Tue 2027-03-02 09:00:00 UTC (UTC+00:00)"),
        reminder(moved.id, "Tue 2027-03-02 12:00:00 UTC (UTC+00:00)"),
        TEST,
    ]


async def test_a_reminder_is_repeated_for_a_new_start_and_for_no_other_change(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann:
        await ann.add_notice_address(remind="1h")
        booked = await ann.book("sdsc/sp2:4", duration="1h", at=TEN)
        servers.clock.advance(hours=24, minutes=10)
        await relay.mail()
        await ann.extend(booked.id, by="1h")
        await ann.add_notice_address(remind="1h", zone="Europe/Berlin")
        servers.clock.advance(minutes=5)
        await ann.move(booked.id, NOON)
        servers.clock.advance(hours=1, minutes=50)
        await relay.different(2)
        await ann.test_notice_address()
        mails = await relay.different(3)
    assert subjects(mails) == [
        reminder(booked.id, "Tue 2027-03-02 10:00:00 UTC (UTC+00:00)"),
        reminder(booked.id, "Tue 2027-03-02 13:00:00 CET (UTC+01:00)"),
        TEST,
    ]


async def test_there_is_no_reminder_of_what_was_booked_later_or_is_over_or_only_held(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann:
        await ann.add_notice_address(remind="2h")
        await ann.book("sdsc/sp2", duration="1h", at="2027-03-01T10:00Z")
        await ann.hold("sdsc/sp2", duration="1h", at="2027-03-01T11:05Z")
        over = await ann.book("ncsa/cave", duration="1h", at=NINE)
        servers.clock.advance(minutes=6)
        servers.stop("broker")
        servers.clock.advance(hours=24)
        servers.start("broker")
        assert (await ann.show(over.id)).state == "reserved"
        await ann.test_notice_address()
        mails = await relay.mail()
    assert subjects(mails) == [TEST]


async def test_a_reminder_that_cannot_be_sent_in_time_is_dropped(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann:
        await ann.add_notice_address(remind="1h")
        await ann.book("ncsa/cave", duration="1h", at=NINE)
        relay.answers["MESSAGE"] = "451 later"
        servers.clock.advance(hours=23, minutes=10)
        await relay.hears()
        servers.clock.advance(hours=1)
        del relay.answers["MESSAGE"]
        servers.clock.advance(hours=1)
        await ann.test_notice_address()
        mails = await relay.mail()
    assert subjects(mails) == [TEST]


async def test_the_time_of_reminders_is_shown_and_checked(servers: LocalFacility) -> None:
    async with servers.client("ann") as ann:
        assert (await ann.add_notice_address(remind="1d")).remind_s == 86_400
        (listed,) = await ann.notice_addresses()
        assert listed.remind_s == 86_400
        await ann.add_notice_address()
        (listed,) = await ann.notice_addresses()
        assert listed.remind_s == 0, "no reminder is the default, also when it is added again"
        for wrong in ("31d", "soon", 0):
            with pytest.raises(InvalidInput):
                await ann.add_notice_address(remind=wrong)


def test_of_a_page_that_is_full_only_the_last_address_waits_for_the_next() -> None:
    """Many users begin at one hour, and are told at one address of their own."""
    due_s = record_of(RIDS[0], KEYS[0]).created_ms // 1_000 + 60
    anna, bert, carl = (
        NoticeAddress(user, "", "UTC", 1, remind_s=60) for user in ("anna", "bert", "carl")
    )
    due = [
        DueReminder(due_s, address, record_of(rid, key))
        for address, rid, key in zip(
            (anna, anna, bert, carl), RIDS[:2] * 2, KEYS[:2] * 2, strict=True
        )
    ]
    found = [(each.address, each.until, len(each.notices)) for each in posted(due, 4)]
    assert found == [(anna, due_s, 2), (bert, due_s, 1)]
    assert len(posted(due, 5)) == 3
    assert [len(each.notices) for each in posted(due[:2], 2)] == [2], "it goes on, whatever is lost"
