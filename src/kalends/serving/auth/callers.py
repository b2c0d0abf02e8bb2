"""Callers, and what they may do.

Two ways in. With keys configured, a signed token says who it is (`kalends.serving.auth.tokens`). Without
any, access is open: every caller is believed, so it may be reached from its own
machine only (`require_loopback`), and not from a web page that a user of that machine looks at
(`OpenAccess` asks for a header that pages of other origins cannot send, and for a loopback host).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from kalends.core.conversion import convert
from kalends.core.errors import InvalidInput, NotAllowed, NotAuthenticated
from kalends.core.principals import Principal
from kalends.core.vouched_names import ANYBODY, VouchedNames
from kalends.rim.web_addresses import is_loopback

SCOPES: Final = frozenset({"use", "audit", "admin", "broker", "near"})
"""All that a token can allow (`kalends.contract.calls.Scope`)."""

ANY: Final = "any"
"""What any token will do for that is believed, whatever it allows."""

OPEN: Final = "open"
"""The key of callers where everybody is believed; those of tokens are thumbprints."""

USER_HEADER: Final = "Kalends-User"
GROUPS_HEADER: Final = "Kalends-Groups"


def _never() -> bool:
    return False


class Caller(msgspec.Struct, frozen=True):
    """An authenticated principal; `expires_at` (seconds UTC) is 0 when the right does not run out.

    `key` is the id of the key that vouches, "open" where access is open; `audiences` are the first of those
    for whom the token is. `is_revoked` says whether the token,
    or that key, has been revoked meanwhile. With `hosts`, who calls must show a certificate for one of these.
    """

    principal: Principal
    scopes: frozenset[str]
    token_id: str
    expires_at: int = 0
    key: str = OPEN
    vouching: VouchedNames = ANYBODY
    is_revoked: Callable[[], bool] = _never
    hosts: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()

    def require(self, scope: str, now_s: int) -> None:
        """Raises `NotAuthenticated` once the token has expired or was revoked, `NotAllowed` without `scope`.

        "" asks for nothing, and `ANY` only for a token that is believed. A session keeps its caller for
        hours: that is why both are looked at on every call.
        """
        if not scope:
            return
        if self.is_revoked():
            raise NotAuthenticated(
                "the token, or the key that has signed it, was revoked",
                where="token",
                remedy="ask the issuer for a new token",
            )
        if self.expires_at and now_s >= self.expires_at:
            raise NotAuthenticated(
                "the token has expired during this session",
                where="token",
                remedy="connect again with a new token",
            )
        if scope != ANY and scope not in self.scopes:
            raise NotAllowed(
                f"this call needs the scope {scope!r}, which the token does not carry",
                where="token",
                remedy=f"ask the owner for a token with the scope {scope!r}",
            )


ANYONE: Final = Caller(Principal(user=""), frozenset(), "")
"""The caller of operations that are open to everyone."""


class Authenticator(Protocol):
    """Turns the headers of a request, or of a session's upgrade, into a caller."""

    def authenticate(self, headers: Mapping[str, str], now_s: int) -> Caller:
        """Raises `NotAuthenticated` with the reason."""

    def follow(self, older: Authenticator) -> None:
        """Know what `older` knows, in whose place this is asked from now on."""

    def believes(self, caller: Caller) -> bool:
        """Return whether `caller`, who has come in some time ago, could still come with the same rights."""

    async def prepare(self, headers: Mapping[str, str], monotonic_s: float) -> None:
        """Fetch what `authenticate` will need for `headers`, if that is not here; never raises."""

    async def close(self) -> None:
        """Nothing is fetched any more."""

    def security_schemes(self) -> dict[str, dict[str, object]]:
        """Return the OpenAPI security schemes of this way in, by name: any of them will do."""


class OpenAccess:
    """Access without keys: the header names the caller, who has every scope."""

    def authenticate(self, headers: Mapping[str, str], now_s: int) -> Caller:
        """Return the caller named by ``Kalends-User`` (and comma-separated ``Kalends-Groups``).

        Raises `NotAuthenticated` without the header, for a name that cannot be one, and when the
        request was addressed to another host than a loopback one (a name that somebody pointed at
        this machine from outside: DNS rebinding).
        """
        if not asked_on_loopback(headers):
            raise NotAuthenticated(
                "this server accepts calls without tokens, but only at a loopback address",
                where="Host",
                remedy="call http://127.0.0.1 and its port, or configure keys and use tokens",
            )
        user = headers.get(USER_HEADER, "")
        if not user:
            raise NotAuthenticated(
                f"the header {USER_HEADER} is missing",
                where=USER_HEADER,
                remedy=f"send {USER_HEADER}: NAME",
            )
        groups = [text.strip() for text in headers.get(GROUPS_HEADER, "").split(",")]
        return Caller(principal_of(user, [text for text in groups if text]), SCOPES, OPEN)

    def follow(self, older: Authenticator) -> None:
        """Nothing is known."""

    def believes(self, caller: Caller) -> bool:
        return caller.key == OPEN

    async def prepare(self, headers: Mapping[str, str], monotonic_s: float) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """There is nothing to close."""

    def security_schemes(self) -> dict[str, dict[str, object]]:
        return {
            "user": {
                "type": "apiKey",
                "in": "header",
                "name": USER_HEADER,
                "description": "Access is open on loopback: the header names the caller.",
            }
        }


def asked_on_loopback(headers: Mapping[str, str]) -> bool:
    """Return whether a request was addressed to this host by its own name, not by one that points here."""
    return is_loopback(_host_of(headers.get("Host", "")))


def principal_of(user: str, groups: list[str]) -> Principal:
    """Return a validated principal; raises `NotAuthenticated` for names that are empty or not printable."""
    try:
        principal = convert({"user": user, "groups": groups}, Principal)
    except InvalidInput as error:
        raise NotAuthenticated(error.detail, where=error.where) from error
    for name in (user, *groups):
        if not name or not name.isprintable():
            raise NotAuthenticated(
                f"{name!a} cannot be the name of a user or group",
                where="user",
                remedy="names are printable and not empty",
            )
        if unicodedata.normalize("NFKC", name) != name:
            raise NotAuthenticated(
                f"{name!a} can be mistaken for another name of a user or group",
                where="user",
                remedy=f"write it as {unicodedata.normalize('NFKC', name)!a} (Unicode's form NFKC)",
            )
    return principal


def require_loopback(listen: str) -> None:
    """Raises `InvalidInput` unless `listen` (``host:port``) is reached from this machine only."""
    if not is_loopback(_host_of(listen)):
        raise InvalidInput(
            f"{listen!r} can be reached from other machines, and no keys are configured",
            where="listen",
            remedy="listen on 127.0.0.1, or list the public keys of callers under `keys`: "
            "`kalends admin key` makes a pair",
        )


def require_cover(listen: str) -> None:
    """Raises `InvalidInput` unless `listen` is reached from this machine only: tokens are unencrypted."""
    if not is_loopback(_host_of(listen)):
        raise InvalidInput(
            f"{listen!r} can be reached from other machines, and without TLS tokens are sent unencrypted",
            where="listen",
            remedy="name a certificate and its key under `tls`; or write plain_http = true if a proxy "
            "has the certificate",
        )


def split_listen(listen: str) -> tuple[str, int]:
    """Return host and port of ``"127.0.0.1:7101"`` or ``"[::1]:7101"``; raises `InvalidInput`."""
    host, colon, port = listen.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    valid_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535
    if not colon or not bare or not valid_port or (":" in bare) is not bracketed:
        raise InvalidInput(
            f"{listen!r} is not an address to listen on",
            where="listen",
            remedy="write host:port, e.g. 127.0.0.1:7101 or [::1]:7101; port 0 takes any free one",
        )
    return bare, int(port)


def _host_of(address: str) -> str:
    """Return the host of ``host:port``, ``[v6]:port`` or ``host``."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0]
