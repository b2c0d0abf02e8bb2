"""A user's notices go where the owner says, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from kalends.core.errors import InvalidInput, NotAllowed
from kalends.notices.address_book import AddressBook
from kalends.serving.configuration import NoticesConfiguration

RULES = NoticesConfiguration(
    smtp="127.0.0.1:25",
    sender="kalends@example.org",
    address="{user}@example.org",
    addresses={"bob": "robert@elsewhere.example"},
    mail_domains=("uni.example",),
    webhook_hosts=("Hooks.example.org", "127.0.0.1:8080", "plain.example.org:80"),
)
BOOK = AddressBook(RULES)


@pytest.mark.parametrize(
    ("user", "to", "address"),
    [
        ("ann", "", "ann@example.org"),
        ("ann", "ann@example.org", "ann@example.org"),
        ("bob", "", "robert@elsewhere.example"),
        ("ann", "a.smith@UNI.example", "a.smith@UNI.example"),
        ("ann", "https://hooks.example.org/x?job=1", "https://hooks.example.org/x?job=1"),
        ("ann", "https://HOOKS.example.org:443", "https://hooks.example.org/"),
        ("ann", "http://127.0.0.1:8080/jobs", "http://127.0.0.1:8080/jobs"),
    ],
)
def test_what_the_owner_allows_is_taken(user: str, to: str, address: str) -> None:
    assert BOOK.address_of(user, to) == address


@pytest.mark.parametrize(
    "to",
    [
        "bob@example.org",
        "ann@example.com",
        "ann@evil.uni.example",
        "https://example.org/x",
        "https://hooks.example.org:8443/x",
        "https://hooks.example.org.evil.example/x",
        "http://hooks.example.org/x",
        "http://plain.example.org/x",
        "https://127.0.0.1/x",
    ],
)
def test_other_addresses_are_not_allowed(to: str) -> None:
    with pytest.raises(NotAllowed) as refused:
        BOOK.address_of("ann", to)
    assert refused.value.where == "notify.to"
    assert refused.value.remedy


@pytest.mark.parametrize(
    "to",
    [
        "ann@example.org\nBcc: all@example.org",
        "ann@example.org,eve@example.org",
        "<ann@example.org>",
        "ann",
        "@example.org",
        "ann@",
        "a..b@uni.example",
        "ftp://hooks.example.org/x",
        "https:///x",
        "https://hooks.example.org:99999/x",
        "https://hooks.example.org\\@evil.example/x",
        "https://ann:secret@hooks.example.org/x",
        "https://hooks.example.org/x#part",
        "https://[hooks/x",
    ],
)
def test_what_is_no_address_is_refused(to: str) -> None:
    with pytest.raises((InvalidInput, NotAllowed)) as refused:
        BOOK.address_of("ann", to)
    assert isinstance(refused.value, InvalidInput)


@pytest.mark.parametrize("user", ["ann\nbcc", "ann smith", "ann@campus", "ann,eve", "", "ann>"])
def test_a_name_that_makes_no_address_has_none(user: str) -> None:
    with pytest.raises(NotAllowed, match="no mail address of"):
        BOOK.address_of(user, "")


def test_a_site_without_mail_says_what_there_is() -> None:
    book = AddressBook(msgspec.structs.replace(RULES, smtp=""))
    with pytest.raises(NotAllowed, match="this server sends no mail") as refused:
        book.address_of("ann", "")
    assert "Hooks.example.org" in str(refused.value.remedy)


def test_a_site_without_webhooks_says_who_could_allow_them() -> None:
    book = AddressBook(msgspec.structs.replace(RULES, webhook_hosts=()))
    with pytest.raises(NotAllowed, match="this server calls no webhook at hooks") as refused:
        book.address_of("ann", "https://hooks.example.org/x")
    assert "webhook_hosts" in str(refused.value.remedy)


ANYWHERE = AddressBook(
    msgspec.structs.replace(RULES, webhook_hosts=("*",), webhook_networks=("10.1.0.0/16",))
)


@pytest.mark.parametrize(
    "to",
    ["https://hooks.of.anybody.example/x", "https://93.184.216.34/x", "https://10.1.2.3/x"],
)
def test_where_any_host_may_be_called_public_and_opened_ones_are(to: str) -> None:
    assert ANYWHERE.address_of("ann", to) == to


@pytest.mark.parametrize(
    "to",
    [
        "https://10.2.0.1/x",
        "https://127.0.0.1/x",
        "http://127.0.0.1/x",
        "https://localhost/x",
        "https://intranet/x",
        "https://169.254.169.254/x",
        "https://[::1]/x",
        "https://[::ffff:10.2.0.1]/x",
        "https://[64:ff9b::a02:1]/x",
        "https://hooks.example.org:8443/x",
        "http://hooks.example.org/x",
    ],
)
def test_where_any_host_may_be_called_private_ones_are_not(to: str) -> None:
    with pytest.raises(NotAllowed):
        ANYWHERE.address_of("ann", to)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "0x7F.1", "017700000001",
        "127.0.0.1.1", "256.0.0.1", "127.0.0.01", "hooks.example.1", "hooks.example.0x", "1.", "127.1.",
        "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u0661\u0662\u0667.0.0.1",
        "hooks\u2024example.org", "\u24d7ooks.example.org",
    ],
)  # fmt: skip
def test_a_host_that_is_a_number_in_another_form_is_no_host(host: str) -> None:
    for hosts in (("*",), (host,), ("*", host)):
        book = AddressBook(msgspec.structs.replace(RULES, webhook_hosts=hosts))
        with pytest.raises(InvalidInput, match="not the URL of a webhook"):
            book.address_of("ann", f"https://{host}/x")
        assert not book.allows_webhook(f"https://{host}/x"), "stored by an earlier version"


def test_a_dot_at_the_end_of_a_host_changes_nothing() -> None:
    book = AddressBook(msgspec.structs.replace(RULES, webhook_hosts=("*", "hooks.example.org.")))
    assert book.address_of("ann", "https://hooks.example.org./x") == "https://hooks.example.org/x"
    assert BOOK.address_of("ann", "https://hooks.example.org./x") == "https://hooks.example.org/x"
    for private in ("127.0.0.1.", "10.0.0.1.", "localhost."):
        with pytest.raises(NotAllowed):
            book.address_of("ann", f"https://{private}/x")
