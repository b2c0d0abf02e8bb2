"""Letters as calls of webhooks: JSON, signed with the owner's secret."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections.abc import Callable
from typing import Final

import aiohttp
import msgspec

from kalends.core.errors import InvalidInput
from kalends.notices.address_book import AddressBook
from kalends.notices.letter import FailedTry, Letter
from kalends.notices.secret_file import read_secret
from kalends.serving.configuration import NoticesConfiguration

SECRET_MIN: Final = 16
FOR_NOW: Final = frozenset({408, 425, 429})
"""Answers of class 4 that ask to come again."""


class WebhookCalls:
    """The webhooks at the hosts that the owner lists.

    Raises `InvalidInput` for a secret that cannot be used.
    """

    def __init__(
        self,
        rules: NoticesConfiguration,
        book: AddressBook,
        tls: ssl.SSLContext,
        now_s: Callable[[], int],
    ) -> None:
        assert rules.webhook_key is not None, "the configuration was checked"
        where = "site.notices.webhook_key"
        self._secret = read_secret(rules.webhook_key, where).encode()
        if len(self._secret) < SECRET_MIN:
            raise InvalidInput(
                f"a secret of fewer than {SECRET_MIN} bytes can be guessed",
                where=where,
                remedy=f"openssl rand -hex 32 > {rules.webhook_key}",
            )
        self._book = book
        self._tls = tls
        self._now_s = now_s
        self._wait_s = rules.wait_s
        self._http: aiohttp.ClientSession | None = None

    async def carry(self, letter: Letter) -> FailedTry | None:
        """Call the webhook of a letter; return why that has failed. Only the status of the answer counts."""
        if not self._book.allows_webhook(letter.to):
            return FailedTry("refused", "the owner does not list this host any more")
        if self._http is None:
            self._http = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._wait_s),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        body, time_s = body_of(letter), self._now_s()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "kalends",
            "Kalends-Delivery": letter.id,
            "Kalends-Time": str(time_s),
            "Kalends-Signature": signature(self._secret, time_s, body),
        }
        try:
            async with self._http.post(
                letter.to, data=body, headers=headers, ssl=self._tls, allow_redirects=False
            ) as response:
                status = response.status
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


def body_of(letter: Letter) -> bytes:
    """Return a letter as JSON: its id, subject, text and time, and its facts."""
    told = {"id": letter.id, "subject": letter.subject, "text": letter.text, "made": letter.made_s}
    return msgspec.json.encode({**letter.facts, **told})


def signature(secret: bytes, time_s: int, body: bytes) -> str:
    """Return ``sha256=`` and the HMAC of the time, a dot and the body."""
    return "sha256=" + hmac.new(secret, b"%d." % time_s + body, hashlib.sha256).hexdigest()
