"""Users are told by mail and by webhooks what others make of their requests; nobody of another's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import icalendar
import mail_relay as relays
import pytest

import kalends
from kalends.core.errors import InvalidInput, LimitExceeded, NotAllowed, NotFound
from kalends.core.identifiers import short_id
from kalends.testing import LocalFacility

NOW = "2027-03-01T09:00Z"
NINE, NOON = "2027-03-02T09:00Z", "2027-03-02T12:00Z"


@pytest.fixture
async def relay() -> AsyncIterator[relays.MailRelay]:
    async with relays.mail_relay() as relay:
        yield relay


@pytest.fixture
async def receiver() -> AsyncIterator[relays.WebhookReceiver]:
    async with relays.webhook_receiver() as receiver:
        yield receiver


def facility(
    relay: relays.MailRelay, receiver: relays.WebhookReceiver, **rules: Any
) -> LocalFacility:
    notices = {
        "smtp": f"127.0.0.1:{relay.port}", "encryption": "none", "from": "kalends@broker.example",
        "address": "{user}@users.example", "webhook_hosts": [receiver.place], **rules,
    }  # fmt: skip
    deputies = [{"who": "user:ann", "users": {"bob": []}}]
    return LocalFacility(
        {"sdsc": {"sp2": 8}, "ncsa": {"cave": 1}},
        now=NOW,
        settings={"notices": notices, "deputies": deputies},
    )


@pytest.fixture
async def servers(
    relay: relays.MailRelay, receiver: relays.WebhookReceiver
) -> AsyncIterator[LocalFacility]:
    async with facility(relay, receiver) as servers:
        yield servers


def text_of(mail: relays.Mail) -> str:
    body = mail.message.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def texts(mails: list[relays.Mail]) -> list[str]:
    return [text_of(mail) for mail in mails]


def invited(mail: relays.Mail) -> tuple[str, list[tuple[str, ...]]]:
    """Return the method of the invitation of a mail, and what its events have in common with a file."""
    body = mail.message.get_body(("calendar",))
    (part,) = [each for each in mail.message.walk() if each.get_content_subtype() == "calendar"]
    assert body is None or body is part
    return str(part.get_param("method")), in_calendar(part.get_content())


def in_calendar(text: str) -> list[tuple[str, ...]]:
    keys = ("UID", "SEQUENCE", "DTSTART", "DTEND", "STATUS", "SUMMARY", "LOCATION")
    events = icalendar.Calendar.from_ical(text).walk("VEVENT")
    return [tuple(event[key].to_ical().decode() if hasattr(event[key], "to_ical") else str(event[key])
                  for key in keys) for event in events]  # fmt: skip


async def test_an_owner_s_move_is_told_by_mail_and_by_a_signed_webhook_and_shown(
    servers: LocalFacility, relay: relays.MailRelay, receiver: relays.WebhookReceiver
) -> None:
    async with (
        servers.client("ann") as ann,
        servers.client("bob") as bob,
        servers.client("owner", at="sdsc") as owner,
    ):
        await ann.add_notice_address(zone="Europe/Berlin")
        hook = await ann.add_notice_address(f"{receiver.url}/jobs")
        booked = await ann.book("sdsc/sp2:8 + ncsa/cave", duration="1h", at=NINE, note="run 7")
        others = await bob.book("sdsc/sp2:8", duration="1h", at=NOON)
        await owner.reclaim("sdsc/sp2", at=NINE, duration="1h", reason="a new pump")
        (mail,) = await relay.mail()
        (call,) = await receiver.calls_made()
        kalends.verify_webhook(hook.secret, call.headers, call.body, now_s=servers.clock.wall_s())
        shown, listed = await ann.show(booked.id), (await ann.list())[0]
        assert (await bob.show(others.id)).changed is None
    assert mail.to == "TO:<ann@users.example>"
    assert (
        mail.message["Subject"] == f"kalends: reservation {short_id(booked.id)} was moved by sdsc"
    )
    assert invited(mail) == ("REQUEST", in_calendar(ann.ics(shown)))
    text = text_of(mail)
    assert "was      ncsa/cave:1, sdsc/sp2:8 from Tue 2027-03-02 10:00" in text, text
    assert "reason   a new pump" in text
    assert "note     run 7" in text
    assert f"kalends cancel {short_id(booked.id)}" in text
    changed = shown.changed
    assert changed is not None
    assert (changed.made, changed.by, changed.reason) == ("moved", "sdsc", "a new pump")
    assert {want.start for want in changed.was} == {booked.start}
    assert listed.changed == changed
    told = json.loads(call.body)
    assert (told["event"], told["request"], told["by"]) == ("moved", booked.id, "sdsc")
    assert {slot["start"] for slot in told["slots"]} == {shown.start}
    assert {slot["start"] for slot in told["was"]} == {booked.start}


async def test_what_its_user_does_is_not_told_and_takes_the_mark_of_others_away(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with (
        servers.client("ann") as ann,
        servers.client("owner", at="sdsc") as owner,
    ):
        await ann.add_notice_address()
        booked = await ann.book("sdsc/sp2:8", duration="1h", at=NINE)
        await owner.reclaim("sdsc/sp2", at=NINE, duration="1h", reason="a new pump")
        await relay.mail()
        moved = await ann.move(booked.id, NOON)
        assert moved.changed is None
        await ann.cancel(booked.id)
        await ann.test_notice_address()
        first, second = await relay.mail(2)
    assert "was moved" in first.message["Subject"]
    assert second.message["Subject"] == "kalends: a test of your notices", "and nothing between"


async def test_what_cannot_be_moved_is_cancelled_and_told(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with (
        servers.client("ann") as ann,
        servers.client("owner", at="sdsc") as owner,
    ):
        await ann.add_notice_address()
        window = (NINE, "2027-03-02T11:00Z")
        booked = await ann.book("sdsc/sp2:8", duration="90m", window=window)
        await owner.reclaim("sdsc/sp2", at=NINE, duration="2h", reason="a new pump")
        (mail,) = await relay.mail()
        shown = await ann.show(booked.id)
    assert mail.message["Subject"] == f"kalends: {short_id(booked.id)} was cancelled by sdsc"
    assert invited(mail) == ("CANCEL", in_calendar(ann.ics(shown)))
    assert "reason   a new pump" in text_of(mail)
    assert shown.state == "cancelled"
    assert shown.changed is not None
    assert (shown.changed.made, shown.changed.by) == ("cancelled", "sdsc")


async def test_a_recalled_hold_and_what_was_waited_for_are_told(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with (
        servers.client("ann") as ann,
        servers.client("bob") as bob,
        servers.client("eve") as eve,
    ):
        await ann.add_notice_address()
        await bob.add_notice_address()
        taken = await eve.book("ncsa/cave", duration="1h", at=NINE)
        both = "sdsc/sp2:8 + ncsa/cave"
        waits = await bob.book(both, duration="1h", at=NINE, patience="taken", wait_s=0.5)
        held = await ann.hold("sdsc/sp2:8", duration="1h", at=NINE)
        await eve.cancel(taken.id)
        (recalled,) = await relay.mail()
        await ann.release(held.id)
        _, came = await relay.mail(2)
    assert recalled.to == "TO:<ann@users.example>"
    assert recalled.message["Subject"] == f"kalends: hold {short_id(held.id)} is recalled"
    assert f"or it is lost: kalends lock {short_id(held.id)}" in text_of(recalled)
    assert came.to == "TO:<bob@users.example>"
    assert (
        came.message["Subject"] == f"kalends: {short_id(waits.id)} has the slots that it waited for"
    )


async def test_whoever_is_booked_for_is_told_by_whom_with_an_invitation(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann, servers.client("bob") as bob:
        for each in (ann, bob):
            await each.add_notice_address(zone="Europe/Berlin")
        booked = await ann.book("ncsa/cave", duration="1h", at=NINE, on_behalf_of="bob")
        (mail,) = await relay.mail()
        invitation = in_calendar(bob.ics(await bob.show(booked.id)))
        await bob.extend(booked.id, by="1h")
        await bob.cancel(booked.id)
    assert mail.to == "TO:<bob@users.example>"
    assert mail.message["Subject"] == (
        f"kalends: reservation {short_id(booked.id)} was booked in your name by ann"
    )
    assert invited(mail) == ("REQUEST", invitation)


async def test_what_an_operator_cancels_is_told_with_their_name(
    servers: LocalFacility, relay: relays.MailRelay
) -> None:
    async with servers.client("ann") as ann:
        await ann.add_notice_address()
        booked = await ann.book("sdsc/sp2", duration="1h", at=NINE)
        async with servers.client("root") as root:
            await root.cancel(booked.id)
        (mail,) = await relay.mail()
        shown = await ann.show(booked.id)
    assert mail.message["Subject"] == f"kalends: {short_id(booked.id)} was cancelled by root"
    assert shown.changed is not None
    assert shown.changed.by == "root"


async def test_what_is_too_much_for_a_minute_comes_in_one_delivery(
    relay: relays.MailRelay, receiver: relays.WebhookReceiver
) -> None:
    async with (
        facility(relay, receiver, minute_max=2) as servers,
        servers.client("ann") as ann,
        servers.client("owner", at="sdsc") as owner,
    ):
        await ann.add_notice_address()
        for _ in range(5):
            await ann.book("sdsc/sp2", duration="1h", at=NINE)
        await owner.reclaim("sdsc/sp2", at=NINE, duration="1h", reason="a new pump")
        mails = await relay.mail(2)
        for _ in range(3):
            if sum(text.count("a new pump") for text in texts(mails)) == 5:
                break
            servers.clock.advance("1m")
            mails = await relay.mail(len(mails) + 1)
    told = "".join(texts(mails))
    assert told.count("a new pump") == 5
    assert any("changes of your requests" in mail.message["Subject"] for mail in mails)


async def test_only_what_the_operator_allows_is_added_and_only_one_s_own_is_seen(
    servers: LocalFacility, receiver: relays.WebhookReceiver
) -> None:
    async with (
        servers.client("ann") as ann,
        servers.client("bob") as bob,
    ):
        for to in ("bob@users.example", "https://10.0.0.1/x", "http://127.0.0.1:1/x"):
            with pytest.raises(NotAllowed):
                await ann.add_notice_address(to)
        with pytest.raises(InvalidInput):
            await ann.add_notice_address(zone="Mars/Olympus")
        for number in range(8):
            await ann.add_notice_address(f"{receiver.url}/jobs?{number}")
        with pytest.raises(LimitExceeded):
            await ann.add_notice_address()
        assert [each.secret for each in await ann.notice_addresses()] == [""] * 8
        with pytest.raises(NotFound, match="no notices go to your own address") as other:
            await ann.test_notice_address()
        assert "notify list" in other.value.remedy
        assert await bob.notice_addresses() == ()
        with pytest.raises(NotFound, match="no address for notices yet") as none:
            await bob.test_notice_address()
        assert "notify add" in none.value.remedy
        with pytest.raises(NotFound):
            await bob.remove_notice_address(f"{receiver.url}/jobs?0")
        gone = await ann.remove_notice_address(f"{receiver.url}/jobs?0")
        assert gone.kind == "webhook"
        assert len(await ann.notice_addresses()) == 7


async def test_a_broker_without_notices_says_so() -> None:
    async with LocalFacility({"sdsc": {"sp2": 8}}, now=NOW) as servers, servers.client("a") as ann:
        with pytest.raises(NotAllowed, match="this server sends no notices") as refused:
            await ann.add_notice_address()
        assert "broker.notices" in refused.value.remedy
