"""Notices about jobs and reservations: mail and webhooks."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from kalends.core import identifiers
from kalends.core.errors import InvalidInput
from kalends.core.identifiers import whole
from kalends.rim.web_addresses import is_loopback
from kalends.serving.configuration.sections import (
    MAIL_ADDRESS,
    ClockTime,
    DurationS,
    MailAddress,
    Section,
    check_at_most,
)

ANY_HOST: Final = "*"


class NoticeRules(Section, frozen=True, kw_only=True):
    """Settings of notices by mail, by webhooks, or both.

    Mail goes through the relay `smtp`, `from` one address. A user's address is in `addresses`, or made from
    their name by `address`; users may choose others only in `mail_domains`. Webhooks go only to
    `webhook_hosts` ("*": any), and to private addresses only in `webhook_networks`. `login` is a file with
    the name and the password for the relay, in two lines. `ca` is the authority of its certificate and those
    of `webhook_hosts`, if the system does not know it.
    """

    smtp: Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.PORT_PATTERN)))] = ""
    encryption: Literal["starttls", "tls", "none"] = "starttls"
    sender: Annotated[str, Meta(pattern=whole(identifiers.perhaps(identifiers.MAIL_PATTERN)))] = (
        field(name="from", default="")
    )
    login: Path | None = None
    ca: Path | None = None
    address: Annotated[str, Meta(max_length=256)] = ""
    """With ``{user}`` for the user's name."""
    addresses: Annotated[dict[str, MailAddress], Meta(max_length=100_000)] = {}
    mail_domains: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.DOMAIN_PATTERN))], ...],
        Meta(max_length=1_000),
    ] = ()
    webhook_hosts: Annotated[
        tuple[Annotated[str, Meta(pattern=whole(identifiers.WEBHOOK_HOST_PATTERN))], ...],
        Meta(max_length=64),
    ] = ()
    webhook_networks: Annotated[
        tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=64)
    ] = ()
    """Networks such as ``10.1.0.0/16``."""
    wait_s: DurationS = field(name="wait", default=DurationS(20))
    """Time limit for an answer of a relay or receiver."""
    pause_s: DurationS = field(name="pause", default=DurationS(30))
    """Time before the second try; doubled for each further try, up to an hour."""
    give_up_s: DurationS = field(name="give_up", default=DurationS(86_400))


class NoticesConfiguration(NoticeRules, frozen=True, kw_only=True):
    """Notices of a site about jobs; the secret in the file `webhook_key` signs webhook calls.

    At the local time `morning`, the owner's day goes to the addresses `morning_to` ("": never).
    """

    webhook_key: Path | None = None
    hourly_max: Annotated[int, Meta(ge=1, le=10_000)] = 60
    """Notices to one user in an hour."""
    morning: ClockTime | Literal[""] = ""
    morning_to: Annotated[tuple[MailAddress, ...], Meta(max_length=8)] = ()


class BrokerNotices(NoticeRules, frozen=True, kw_only=True):
    """Notices of a broker about requests; each webhook has a separate secret."""

    minute_max: Annotated[int, Meta(ge=1, le=1_000)] = 6
    """Mails to one user in a minute; the last one lists all remaining changes."""


def check_notices(notices: NoticeRules, where: str) -> None:
    if not (notices.smtp or notices.webhook_hosts):
        raise InvalidInput(
            "notices need a mail relay, or hosts of webhooks",
            where=where,
            remedy='write smtp = "host:port" for mail, or webhook_hosts',
        )
    if notices.smtp and not notices.sender:
        raise InvalidInput(
            "no sender address for mail",
            where=f"{where}.from",
            remedy='write from = "kalends@example.org"',
        )
    if isinstance(notices, NoticesConfiguration):
        _check_key(notices, where)
        _check_morning(notices, where)
    for index, network in enumerate(notices.webhook_networks):
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise InvalidInput(
                str(error), where=f"{where}.webhook_networks[{index}]", remedy="write 10.1.0.0/16"
            ) from error
    if notices.address and not any(
        MAIL_ADDRESS.fullmatch(notices.address.replace("{user}", user))
        for user in ("ann", "ann@example.org")
    ):
        raise InvalidInput(
            f"{notices.address!r} does not make a mail address from a user's name",
            where=f"{where}.address",
            remedy='write address = "{user}@example.org"',
        )
    host = notices.smtp.rpartition(":")[0].strip("[]")
    if notices.login is not None and notices.encryption == "none" and not is_loopback(host):
        raise InvalidInput(
            "the password would be sent unencrypted",
            where=f"{where}.encryption",
            remedy='write encryption = "starttls", or "tls"; or leave login out',
        )
    check_at_most(notices.wait_s, 300, f"{where}.wait")
    for name in ("wait_s", "pause_s", "give_up_s"):
        if getattr(notices, name) < 1:
            raise InvalidInput(
                "the time is too short",
                where=f"{where}.{name.removesuffix('_s')}",
                remedy="write at least 1s",
            )


def _check_morning(notices: NoticesConfiguration, where: str) -> None:
    if notices.morning and not notices.smtp:
        raise InvalidInput(
            "the owner's day goes by mail only",
            where=f"{where}.morning",
            remedy='write smtp = "host:port", or leave morning out',
        )
    if bool(notices.morning) != bool(notices.morning_to):
        raise InvalidInput(
            "the owner's day needs a time and addresses",
            where=f"{where}.morning_to" if notices.morning else f"{where}.morning",
            remedy='write morning = "07:00" and morning_to = ["owner@example.org"], or neither',
        )


def _check_key(notices: NoticesConfiguration, where: str) -> None:
    if notices.webhook_hosts and notices.webhook_key is None:
        raise InvalidInput(
            "webhooks need a key that signs the calls",
            where=f"{where}.webhook_key",
            remedy="name a file with a secret, e.g. made by `openssl rand -base64 32`",
        )
