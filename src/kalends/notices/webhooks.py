"""Deliveries as calls of webhooks: JSON, signed with a secret that the receiver shares."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from shlex import quote
from typing import Final

import aiohttp
import msgspec

from kalends.core.errors import InvalidInput
from kalends.notices.address_book import AddressBook, AddressClosed, OpenNets
from kalends.notices.delivery import Delivery, FailedTry, delivery_id
from kalends.rim.private_files import read_secret
from kalends.rim.webhook_signatures import secret_bytes, signed_headers
from kalends.serving.auth.addresses import GuardedResolver
from kalends.serving.configuration import NoticeRules

FOR_NOW: Final = frozenset({408, 425, 429})
"""Answers of class 4 that ask to come again."""

SecretOf = Callable[[Delivery], Awaitable[bytes | None]]
"""What signs a delivery; None: its receiver is not to be called any more."""


class WebhookCalls:
    """The webhooks at the hosts that the owner lists, signed with what `secret_of` gives for each delivery.

    `resolver` looks names up; what it finds is looked at before it is connected to.
    """

    def __init__(
        self,
        rules: NoticeRules,
        book: AddressBook,
        tls: ssl.SSLContext,
        now_s: Callable[[], int],
        secret_of: SecretOf,
        resolver: aiohttp.abc.AbstractResolver | None = None,
    ) -> None:
        self._secret_of = secret_of
        self._book = book
        self._tls = tls
        self._now_s = now_s
        self._wait_s = rules.wait_s
        self._nets = OpenNets(rules.webhook_networks)
        self._resolver = resolver
        self._http: aiohttp.ClientSession | None = None

    async def carry(self, delivery: Delivery) -> FailedTry | None:
        """Call the webhook of a delivery; return why that failed. Only the status of the answer counts."""
        if not self._book.allows_webhook(delivery.to):
            return FailedTry("refused", "the owner no longer lists this host")
        secret = await self._secret_of(delivery)
        if secret is None:
            return FailedTry("refused", "its user has removed this webhook")
        if self._http is None:
            self._http = self._session()
        body = body_of(delivery)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "kalends",
            **signed_headers(secret, delivery_id(delivery), self._now_s(), body),
        }
        try:
            async with self._http.post(
                delivery.to, data=body, headers=headers, ssl=self._tls, allow_redirects=False
            ) as response:
                status = response.status
        except aiohttp.ClientConnectorError as error:
            closed = isinstance(error.os_error, AddressClosed)
            return FailedTry("refused" if closed else "blocked", str(error.os_error))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return FailedTry("blocked", str(error) or f"no answer within {self._wait_s} s")
        if 200 <= status < 300:
            return None
        if status >= 500 or status in FOR_NOW:
            return FailedTry("later", f"status {status}")
        return FailedTry("refused", f"status {status}")

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    def _session(self) -> aiohttp.ClientSession:
        resolver = GuardedResolver(self._nets.allow, AddressClosed, self._resolver)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False),
            timeout=aiohttp.ClientTimeout(total=self._wait_s),
            cookie_jar=aiohttp.DummyCookieJar(),
        )


def owners_secret(path: Path, where: str) -> bytes:
    """Return the secret in the owner's file; raises `InvalidInput` for one that cannot be used."""
    try:
        return secret_bytes(read_secret(path, where))
    except InvalidInput as error:
        if error.where == where:
            raise
        raise InvalidInput(
            f"{path} has {error.detail}",
            where=where,
            remedy=f"openssl rand -base64 32 > {quote(str(path))}; chmod 600 {quote(str(path))}",
        ) from error


def body_of(delivery: Delivery) -> bytes:
    """Return a delivery as JSON: its id as in ``webhook-id``, subject, text and time, and its facts."""
    told = {
        "id": delivery_id(delivery),
        "subject": delivery.subject,
        "text": delivery.text,
        "made": delivery.made_s,
    }
    return msgspec.json.encode({**delivery.facts, **told})
