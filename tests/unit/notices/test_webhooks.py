"""Webhooks: signed, to listed hosts only, and what their answers mean."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import mail_relay as relays
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from kalends.core.errors import InvalidInput
from kalends.notices.address_book import AddressBook
from kalends.notices.delivery import Delivery, FailedTry
from kalends.notices.webhooks import WebhookCalls, owners_secret
from kalends.rim.webhook_signatures import secret_text, verify_webhook
from kalends.serving.configuration import DurationS, NoticeRules

SECRET = b"0123456789abcdef0123456789abcdef"
NOW = 1_800_000_000


@pytest.fixture
async def receiver() -> AsyncIterator[relays.WebhookReceiver]:
    async with relays.webhook_receiver() as receiver:
        yield receiver


async def called(
    to: str,
    *hosts: str,
    wait_s: int = 20,
    number: int = 1,
    resolver: AbstractResolver | None = None,
    networks: tuple[str, ...] = (),
    secret: bytes | None = SECRET,
) -> FailedTry | None:
    rules = NoticeRules(webhook_hosts=hosts, wait_s=DurationS(wait_s), webhook_networks=networks)
    tls = ssl.create_default_context()
    book = AddressBook(rules)

    async def secret_of(delivery: Delivery) -> bytes | None:
        return secret

    calls = WebhookCalls(rules, book, tls, lambda: NOW, secret_of, resolver)
    delivery = Delivery(
        id="lab/box/17-end", user="ann", to=to, subject="it is over", text="all",
        facts={"event": "end", "id": "not this one"}, made_s=NOW - 60,
    )  # fmt: skip
    try:
        for _ in range(number):
            failed = await calls.carry(delivery)
        return failed
    finally:
        await calls.close()


async def test_a_call_is_signed_with_its_time(receiver: relays.WebhookReceiver) -> None:
    assert await called(f"{receiver.url}/jobs", receiver.place, number=2) is None
    first, second = receiver.calls
    assert first.body == second.body
    assert json.loads(first.body) == {
        "id": first.headers["webhook-id"], "subject": "it is over", "text": "all", "made": NOW - 60,
        "event": "end",
    }  # fmt: skip
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["webhook-timestamp"] == str(NOW)
    id = verify_webhook(secret_text(SECRET), first.headers, first.body, now_s=NOW)
    assert id == first.headers["webhook-id"]


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
    receiver: relays.WebhookReceiver, status: int, kind: str | None
) -> None:
    receiver.status = status
    failed = await called(f"{receiver.url}/jobs", receiver.place)
    assert (failed and failed.kind) == kind
    assert receiver.strays == 0


async def test_a_receiver_that_hangs_is_left(receiver: relays.WebhookReceiver) -> None:
    receiver.hangs = True
    failed = await called(f"{receiver.url}/jobs", receiver.place, wait_s=1)
    assert failed is not None
    assert failed.kind == "blocked"


async def test_a_receiver_that_is_away_blocks_its_way() -> None:
    async with relays.webhook_receiver() as receiver:
        url, place = receiver.url, receiver.place
    failed = await called(f"{url}/jobs", place)
    assert failed is not None
    assert failed.kind == "blocked"


async def test_a_host_that_is_listed_no_more_is_not_called(
    receiver: relays.WebhookReceiver,
) -> None:
    failed = await called(f"{receiver.url}/jobs", "hooks.example.org")
    assert failed is not None
    assert failed.kind == "refused"
    assert not receiver.calls


def test_a_secret_that_can_be_guessed_is_refused_when_the_site_starts(tmp_path: Path) -> None:
    path = tmp_path / "webhooks"
    path.write_text("c2hvcnQ=\n")
    path.chmod(0o600)
    with pytest.raises(InvalidInput, match="24 to 64 bytes") as refused:
        owners_secret(path, "site.notices.webhook_key")
    assert refused.value.where == "site.notices.webhook_key"
    assert "c2hvcnQ" not in str(refused.value)


class Names(AbstractResolver):
    """Leads every name to the next of its addresses, the last one for ever."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        address = self.addresses.pop(0) if len(self.addresses) > 1 else self.addresses[0]
        flags = socket.AI_NUMERICHOST
        return [ResolveResult(
            hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=flags
        )]  # fmt: skip

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.8", "169.254.169.254"])
async def test_a_name_that_leads_to_a_private_address_is_not_called(address: str) -> None:
    failed = await called("https://hooks.example.org/x", "*", resolver=Names(address))
    assert failed is not None
    assert failed.kind == "refused"
    assert "private address" in failed.why


async def test_the_address_that_was_looked_at_is_the_one_that_is_connected_to(
    receiver: relays.WebhookReceiver,
) -> None:
    """Where the network is opened it gets as far as TLS, which a plain receiver does not speak."""
    port = receiver.place.rpartition(":")[2]
    names = Names("127.0.0.1", "10.0.0.8")
    failed = await called(
        f"https://hooks.example.org:{port}/jobs", f"hooks.example.org:{port}",
        resolver=names, networks=("127.0.0.0/8",),
    )  # fmt: skip
    assert failed is not None
    assert failed.kind == "blocked"
    assert names.addresses == ["10.0.0.8"], "the name was looked up once"
    assert not receiver.calls


async def test_a_webhook_that_its_user_has_removed_is_not_called(
    receiver: relays.WebhookReceiver,
) -> None:
    failed = await called(f"{receiver.url}/jobs", receiver.place, secret=None)
    assert failed is not None
    assert failed.kind == "refused"
    assert not receiver.calls
