"""The interface between calls and the network, and code that both transports share."""

from __future__ import annotations

import os
import socket
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from kalends.client.transports.retry import CLOSED, ConnectionFailed
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation
from kalends.contract.versions import own_version
from kalends.core.errors import (
    InvalidInput,
    KalendsError,
    LimitExceeded,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    Problem,
    Unavailable,
    error_from_problem,
)
from kalends.rim.broken_connections import broken_words
from kalends.rim.web_addresses import addresses_in
from kalends.version import VERSION

if TYPE_CHECKING:
    import aiohttp

TRUST = (
    "give the certificate of the authority that signed it: --ca FILE, or KALENDS_CA; in Python `ca`"
)

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons for an answer that is not TLS at all."""

SAID = own_version(VERSION).headers()
"""The headers with our version, so that servers answer with words that it knows."""

UNKNOWN_THERE = "Object contains unknown field"
"""The refusal of an unknown field by servers of any version."""

OLDER = (
    "if the server runs an older kalends, leave the field out until its operator has upgraded it"
)

ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of an answer: the longest listings and calendars are shorter."""


class Transport(Protocol):
    """Carrier of one call to the server, and of its answer back."""

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        """Return the answer to one send of `body`, as plain maps, lists and scalars.

        Raises the typed error that the server answered, or `ConnectionFailed` if there was no
        answer within `timeout_s`. Cancelling gives up the answer; the server may still act.
        """

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        """Open a separate WebSocket; raises like `call`."""

    async def close(self) -> None:
        """Close all connections; calls in flight fail with `ConnectionFailed`."""

    def abandon(self) -> None:
        """Abandon connections that could not be closed because their event loop ended, without warnings."""


@dataclass(frozen=True)
class Access:
    """The server's address and the caller's identity: a token, or a name at servers without tokens.

    `url` may name several servers that stand for each other, with commas between.
    """

    url: str
    token: str = field(default="", repr=False)
    user: str = ""
    groups: tuple[str, ...] = ()
    ca: str = ""
    """A file with the certificate authority's certificates (PEM); empty trusts the system's."""

    def __post_init__(self) -> None:
        for where, text in (("url", self.url), ("token", self.token), ("user", self.user), ("ca", self.ca),
                            *(("groups", group) for group in self.groups)):  # fmt: skip
            if not isinstance(text, str):
                raise InvalidInput(
                    f"a {type(text).__name__} is not a text",
                    where=where,
                    remedy='give a text; "" for none',
                )
        for url in addresses_in(self.url):
            if _is_address(url):
                continue
            raise InvalidInput(
                f"{url!r} is not the address of a server",
                where="url",
                remedy="write http://HOST:PORT or https://HOST:PORT",
            )
        for where, text in (("token", self.token), ("user", self.user), ("groups", self._groups)):
            if not (text.isascii() and text.isprintable()):
                raise InvalidInput("contains characters that cannot be sent", where=where)

    @property
    def _groups(self) -> str:
        return ",".join(self.groups)

    def servers(self) -> tuple[Access, ...]:
        return tuple(replace(self, url=url) for url in addresses_in(self.url))

    def address(self, path: str) -> str:
        return self.url.rstrip("/") + path

    def headers(self) -> dict[str, str]:
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        named = {"Kalends-User": self.user, "Kalends-Groups": self._groups}
        return {name: value for name, value in named.items() if value}

    def tls(self) -> ssl.SSLContext | bool:
        """Return the TLS context; raises `InvalidInput` if the `ca` file cannot be used."""
        if not self.ca:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(
                f"cannot use {self.ca}: {error}",
                where="ca",
                remedy="give a file with certificates in PEM form",
            ) from error


PROXY_MEND: Final = (
    "check HTTPS_PROXY, HTTP_PROXY or ALL_PROXY (http://USER:PASSWORD@HOST:PORT), or list the server in "
    "NO_PROXY"
)
"""Remedy for a proxy of the environment that refuses."""


def _is_address(url: str) -> bool:
    """Return whether the parts name a server; reading an invalid port or host raises `ValueError`."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = parts.scheme in ("http", "https") and parts.port != 0
        return known and bool((host.isascii() and host) or host.encode("idna"))
    except ValueError:
        return False


def error_from_server(problem: Problem) -> KalendsError:
    """Return the error that the server answered, with a remedy if an older server does not know a field."""
    error = error_from_problem(problem)
    if error.detail.startswith(UNKNOWN_THERE) and not error.remedy:
        error.remedy = OLDER
    return error


def error_from_status(status: int, url: str, retry_after_s: float = 0.0) -> KalendsError:
    """Return the typed error for a refusal without problem details, as proxies and handshakes give it."""
    if status == 401:
        return NotAuthenticated(
            "the server requires a valid token",
            where=url,
            remedy="get a new token from the owner",
        )
    if status == 403:
        return NotAllowed("the server refuses access", where=url, remedy="ask the server's owner")
    if status == 404:
        return NotFound("no kalends server at this address", where=url, remedy="check the address")
    if status == 407:
        return NotAllowed("a proxy requires a password", where=url, remedy=PROXY_MEND)
    if status == 429:
        return LimitExceeded("too many calls", where=url, retry_after_s=retry_after_s or 1.0)
    if status == 503:
        return Unavailable("the server cannot answer now", where=url, retry_after_s=retry_after_s)
    return KalendsError(
        f"the server answered with status {status}, but not as a kalends server",
        where=url,
        remedy="check that a kalends server has this address",
    )


def retry_after_s(header: str | None) -> float:
    """Return the seconds in a ``Retry-After`` header; 0 for none, and for the date form."""
    return float(header) if header and header.isdecimal() else 0.0


def failure(error: BaseException, *, sent: bool) -> ConnectionFailed:
    """Return the text of a connection error; some network errors have only a number or a name."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        detail = f"the server's certificate is not trusted: {cause.verify_message}"
        return ConnectionFailed(detail, sent=sent, mend=TRUST)
    if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
        detail = "the server does not use TLS, so https:// does not work"
        return ConnectionFailed(
            detail, sent=sent, mend="write http:// if the server has no certificate"
        )
    if isinstance(cause, ssl.SSLError):
        return ConnectionFailed(f"no secure connection: {cause.reason or cause}".lower(), sent=sent)
    if isinstance(cause, socket.gaierror) and cause.errno != socket.EAI_AGAIN:
        return ConnectionFailed(
            "there is no such host", sent=sent, mend="check the name of the host"
        )
    if type(error).__name__ == "ClientHttpProxyError":  # of aiohttp, as below
        status = getattr(error, "status", 0)
        return ConnectionFailed(
            f"the proxy refuses to connect ({status})", sent=sent, mend=PROXY_MEND
        )
    if type(error).__name__ == "ClientProxyConnectionError":
        return ConnectionFailed(f"the proxy cannot be reached: {cause}", sent=sent)
    if isinstance(cause, ConnectionRefusedError):
        return ConnectionFailed("nothing listens there (connection refused)", sent=sent)
    if isinstance(cause, OSError) and cause.errno and cause.errno > 0:
        return ConnectionFailed(os.strerror(cause.errno).lower(), sent=sent)
    if (
        type(error).__name__ == "ServerDisconnectedError"
    ):  # An error of aiohttp, which is not imported only for this.
        return ConnectionFailed(CLOSED, sent=sent)
    return ConnectionFailed(broken_words(error), sent=sent)
