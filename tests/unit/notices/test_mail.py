"""Deliveries as mail, handed to a real relay on loopback: as good ones and as bad ones answer."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import mail_relay as relays
import msgspec
import pytest
from certificates import write_certificate
from tests.support.ports import free_ports

from kalends.core.errors import InvalidInput
from kalends.notices.delivery import Delivery
from kalends.notices.mail import MailRelay, message_of
from kalends.serving.configuration import DurationS, NoticesConfiguration

LETTER = Delivery(
    id="lab/box/17-end",
    user="ann",
    to="ann@example.org",
    subject="lab/box/17 is over",
    text="It is over.\n.\nA dot.\n",
    facts={},
    made_s=1_800_000_000,
)


@pytest.fixture
async def relay() -> AsyncIterator[relays.MailRelay]:
    async with relays.mail_relay() as relay:
        yield relay


def carrier(port: int, tls: ssl.SSLContext | None = None, **more: Any) -> MailRelay:
    fields = {"encryption": "none", "wait_s": DurationS(20), **more}
    rules = NoticesConfiguration(smtp=f"127.0.0.1:{port}", sender="kalends@example.org", **fields)
    return MailRelay(rules, tls or ssl.create_default_context())


async def test_a_delivery_arrives_as_it_was_written(relay: relays.MailRelay) -> None:
    assert await carrier(relay.port).carry(LETTER) is None
    (mail,) = await relay.mail()
    assert (mail.sender, mail.to) == ("FROM:<kalends@example.org>", "TO:<ann@example.org>")
    message = mail.message
    assert message["From"] == "kalends@example.org"
    assert message["To"] == "ann@example.org"
    assert message["Subject"] == "lab/box/17 is over"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"] == "Fri, 15 Jan 2027 08:00:00 +0000"
    assert message.get_content().splitlines() == LETTER.text.splitlines()


async def test_the_same_delivery_has_the_same_message_id_and_others_have_others(
    relay: relays.MailRelay,
) -> None:
    other = msgspec.structs.replace(LETTER, id="lab/box/18-end")
    for each in (LETTER, LETTER, other):
        assert await carrier(relay.port).carry(each) is None
    ids = [mail.message["Message-ID"] for mail in relay.mails]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].endswith("@example.org>")


@pytest.mark.parametrize(
    "hostile",
    ["a\r\nBcc: eve@example.org", "a\nTo: eve@example.org\n\nbody", "\x00\x1b[31m", "ä" * 500],
)
def test_no_name_makes_a_header(hostile: str) -> None:
    delivery = msgspec.structs.replace(LETTER, subject=f"job ({hostile})", text=f"job {hostile}\n")
    written = message_of(delivery, "kalends@example.org")
    message = message_from_bytes(written, policy=default)
    assert sorted(message.keys()) == [
        "Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From",
        "MIME-Version", "Message-ID", "Subject", "To",
    ]  # fmt: skip
    assert message["To"] == "ann@example.org"
    assert max(map(len, written.splitlines())) <= 998
    assert written.isascii()


@pytest.mark.parametrize(
    ("word", "answer", "kind"),
    [
        ("RCPT", "550 no such user", "refused"),
        ("RCPT", "450 come again", "later"),
        ("MESSAGE", "554 spam", "refused"),
        ("MESSAGE", "451 disk full", "later"),
        ("RCPT", "421 closing", "blocked"),
        ("MAIL", "550 you may not send", "blocked"),
        ("HELLO", "554 go away", "blocked"),
        ("HELLO", "HTTP/1.1 400 Bad Request", "blocked"),
        ("HELLO", "220-" + "x" * 10_000, "blocked"),
        ("RCPT", "250-on\r\n" * 200, "blocked"),
    ],
)
async def test_what_a_relay_answers_says_whose_fault_it_is(
    relay: relays.MailRelay, word: str, answer: str, kind: str
) -> None:
    relay.answers[word] = answer
    failed = await carrier(relay.port).carry(LETTER)
    assert failed is not None
    assert failed.kind == kind
    assert failed.why.isprintable()
    assert len(failed.why) < 300
    assert not relay.mails


@pytest.mark.parametrize(
    "to",
    ["ann@example.org>\r\nRCPT TO:<eve@example.org", "ann@example.org\n", "änn@example.org", ""],
)
async def test_no_address_makes_a_command(relay: relays.MailRelay, to: str) -> None:
    failed = await carrier(relay.port).carry(msgspec.structs.replace(LETTER, to=to))
    assert failed == ("refused", "this server has no mail address for the user")
    assert relay.connections == 0


async def test_a_relay_of_the_old_kind_gets_mail(relay: relays.MailRelay) -> None:
    relay.answers["EHLO"] = "502 what?"
    assert await carrier(relay.port).carry(LETTER) is None


@pytest.mark.parametrize("word", ["HELLO", "EHLO", "RCPT", "DATA", "MESSAGE"])
async def test_a_relay_that_hangs_is_left(relay: relays.MailRelay, word: str) -> None:
    relay.answers[word] = ""
    failed = await carrier(relay.port, wait_s=DurationS(1)).carry(LETTER)
    assert failed == ("blocked", "no answer within 1 s")


async def test_a_relay_that_is_away_blocks_the_way() -> None:
    (port,) = free_ports(1)
    failed = await carrier(port).carry(LETTER)
    assert failed is not None
    assert failed.kind == "blocked"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return write_certificate(tmp_path / "relay.pem")


@pytest.fixture
async def guarded(certificate: Path) -> AsyncIterator[relays.MailRelay]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    async with relays.mail_relay(tls) as relay:
        yield relay


async def test_the_password_goes_over_an_encrypted_line(
    guarded: relays.MailRelay, certificate: Path, tmp_path: Path
) -> None:
    login = tmp_path / "login"
    login.write_text("kalends\nsecret word\n")
    login.chmod(0o600)
    trusting = ssl.create_default_context(cafile=certificate)
    sender = carrier(guarded.port, trusting, encryption="starttls", login=login)
    assert await sender.carry(LETTER) is None
    (mail,) = await guarded.mail()
    assert (mail.login, mail.encrypted) == ("\0kalends\0secret word", True)
    assert mail.message.get_content().splitlines() == LETTER.text.splitlines()
    guarded.answers["AUTH"] = "535 wrong"
    failed = await sender.carry(LETTER)
    assert failed == ("blocked", "535 wrong"), "that is nothing of this delivery's"


async def test_a_relay_of_an_unknown_authority_gets_nothing(guarded: relays.MailRelay) -> None:
    failed = await carrier(guarded.port, encryption="starttls").carry(LETTER)
    assert failed is not None
    assert failed.kind == "blocked"
    assert not guarded.mails


async def test_a_relay_without_encryption_gets_nothing_where_the_owner_wants_it(
    relay: relays.MailRelay,
) -> None:
    failed = await carrier(relay.port, encryption="starttls").carry(LETTER)
    assert failed is not None
    assert "STARTTLS" in failed.why


@pytest.mark.parametrize("text", ["", "kalends", "kalends\n", "x" * 5_000])
def test_a_login_that_is_none_is_refused_when_the_site_starts(tmp_path: Path, text: str) -> None:
    path = tmp_path / "login"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInput) as refused:
        carrier(25, login=path)
    assert refused.value.where == "site.notices.login"


def test_a_login_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "login"
    path.write_text("kalends\nsecret\n")
    path.chmod(0o644)
    with pytest.raises(InvalidInput, match="every user of this machine can read"):
        carrier(25, login=path)
    with pytest.raises(InvalidInput, match=os.strerror(2)):
        carrier(25, login=tmp_path / "absent")
