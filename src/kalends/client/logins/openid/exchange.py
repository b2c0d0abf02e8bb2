"""Calls to an OpenID provider: a form is sent, JSON is received. No redirect is followed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from kalends.client.transports.http_line import HttpLine
from kalends.client.transports.retry import ConnectionFailed
from kalends.core.errors import InvalidInput, NotFound, Unavailable

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Maximum size of an answer: ten times the description of a server."""

ANSWER_S_MAX: Final = 10.0


class Exchange(NamedTuple):
    """Caller of providers; trusts the system's certificates and those in the file `ca`."""

    ca: str = ""

    async def fetched(self, url: str) -> bytes:
        """Return the content at `url`; raises `NotFound`, `Unavailable` and `InvalidInput`."""
        status, content = await self._asked("GET", url)
        if status != 200:
            raise NotFound(f"the answer has status {status}", where=url)
        return content

    async def told(self, url: str, form: Mapping[str, str]) -> bytes:
        """Return the answer to `form`, also a refusal; raises `Unavailable` and `InvalidInput`."""
        status, content = await self._asked("POST", url, urlencode(form).encode())
        if status == 429 or status >= 500:
            raise Unavailable(f"the provider cannot answer now ({status})", where=url)
        if status not in (200, 400, 401, 403):
            raise InvalidInput(f"the answer has status {status}", where=url)
        return content

    async def _asked(self, method: str, url: str, body: bytes = b"") -> tuple[int, bytes]:
        parts = urlsplit(url)
        headers = {
            "Host": parts.netloc,
            "Accept": "application/json",
            "User-Agent": "kalends",
        }
        if method == "POST":
            headers |= {
                "Content-Type": "application/x-www-form-urlencoded",
                "Content-Length": str(len(body)),
            }
        target = parts._replace(scheme="", netloc="", path=parts.path or "/").geturl()
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                line = await HttpLine.opened(
                    parts, self._trust() if parts.scheme == "https" else None
                )
                try:
                    answer = await line.ask(method, target, headers, body)
                finally:
                    line.drop()
        except TimeoutError as error:
            raise Unavailable(f"no answer within {ANSWER_S_MAX:.0f} s", where=url) from error
        except ConnectionFailed as error:
            kind = InvalidInput if error.mend else Unavailable
            raise kind(f"no answer: {error.detail}", where=url, remedy=error.mend) from error
        if len(answer.body) > ANSWER_BYTES_MAX:
            raise InvalidInput("the answer is too large", where=url)
        return answer.status, answer.body

    def _trust(self) -> ssl.SSLContext:
        trust = ssl.create_default_context()
        if self.ca:
            try:
                trust.load_verify_locations(self.ca)
            except (OSError, ssl.SSLError) as error:
                raise InvalidInput(
                    f"cannot use {self.ca}: {error}",
                    where="ca",
                    remedy="give a file with certificates in PEM form",
                ) from error
        return trust
