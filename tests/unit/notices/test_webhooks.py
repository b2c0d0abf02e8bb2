"""Webhooks: signed, to listed hosts only, and what their answers mean."""

from __future__ import annotations

import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import mail_relay as relays
import pytest

from kalends.core.errors import InvalidInput
from kalends.notices.address_book import AddressBook
from kalends.notices.letter import FailedTry, Letter
from kalends.notices.webhooks import WebhookCalls
from kalends.serving.configuration import DurationS, NoticesConfiguration

SECRET = b"0123456789abcdef"
NOW = 1_800_000_000


@pytest.fixture
async def receiver() -> AsyncIterator[relays.WebhookReceiver]:
    async with relays.webhook_receiver() as receiver:
        yield receiver


def secret(folder: Path, content: bytes = SECRET) -> Path:
    path = folder / "webhooks"
    path.write_bytes(content)
    path.chmod(0o600)
    return path


async def called(
    folder: Path, to: str, *hosts: str, wait_s: int = 20, number: int = 1
) -> FailedTry | None:
    rules = NoticesConfiguration(
        webhook_hosts=hosts, webhook_key=secret(folder), wait_s=DurationS(wait_s)
    )
    tls = ssl.create_default_context()
    calls = WebhookCalls(rules, AddressBook(rules), tls, lambda: NOW)
    letter = Letter(
        id="lab/box/17-end", user="ann", to=to, subject="it is over", text="all",
        facts={"event": "end", "id": "not this one"}, made_s=NOW - 60,
    )  # fmt: skip
    try:
        for _ in range(number):
            failed = await calls.carry(letter)
        return failed
    finally:
        await calls.close()


async def test_a_call_is_signed_with_its_time(
    tmp_path: Path, receiver: relays.WebhookReceiver
) -> None:
    assert await called(tmp_path, f"{receiver.url}/jobs", receiver.place, number=2) is None
    first, second = receiver.calls
    assert first.body == second.body
    assert json.loads(first.body) == {
        "id": "lab/box/17-end", "subject": "it is over", "text": "all", "made": NOW - 60,
        "event": "end",
    }  # fmt: skip
    assert first.headers["Kalends-Delivery"] == second.headers["Kalends-Delivery"]
    assert first.headers["Content-Type"] == "application/json"
    signed = first.headers["Kalends-Time"].encode() + b"." + first.body
    expected = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
    assert first.headers["Kalends-Signature"] == f"sha256={expected}"
    assert first.headers["Kalends-Time"] == str(NOW)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, None),
        (302, "refused"),
        (404, "refused"),
        (410, "refused"),
        (429, "later"),
        (503, "later"),
    ],
)
async def test_the_status_says_what_becomes_of_it_and_nobody_is_sent_elsewhere(
    tmp_path: Path, receiver: relays.WebhookReceiver, status: int, kind: str | None
) -> None:
    receiver.status = status
    failed = await called(tmp_path, f"{receiver.url}/jobs", receiver.place)
    assert (failed and failed.kind) == kind
    assert receiver.strays == 0


async def test_a_receiver_that_hangs_is_left(
    tmp_path: Path, receiver: relays.WebhookReceiver
) -> None:
    receiver.hangs = True
    failed = await called(tmp_path, f"{receiver.url}/jobs", receiver.place, wait_s=1)
    assert failed is not None
    assert failed.kind == "blocked"


async def test_a_receiver_that_is_away_blocks_its_way(tmp_path: Path) -> None:
    async with relays.webhook_receiver() as receiver:
        url, place = receiver.url, receiver.place
    failed = await called(tmp_path, f"{url}/jobs", place)
    assert failed is not None
    assert failed.kind == "blocked"


async def test_a_host_that_is_listed_no_more_is_not_called(
    tmp_path: Path, receiver: relays.WebhookReceiver
) -> None:
    failed = await called(tmp_path, f"{receiver.url}/jobs", "hooks.example.org")
    assert failed is not None
    assert failed.kind == "refused"
    assert not receiver.calls


async def test_a_secret_that_can_be_guessed_is_refused_when_the_site_starts(tmp_path: Path) -> None:
    rules = NoticesConfiguration(
        webhook_hosts=("hooks.example.org",), webhook_key=secret(tmp_path, b"short\n")
    )
    with pytest.raises(InvalidInput, match="can be guessed"):
        WebhookCalls(rules, AddressBook(rules), ssl.create_default_context(), lambda: NOW)
