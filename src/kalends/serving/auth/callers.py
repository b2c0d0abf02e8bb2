"""Callers, and their rights.

There are two ways in. With keys, a signed token identifies the caller (`kalends.serving.auth.tokens`).
Without keys, access is open, and every caller is accepted under the given name. So such a server may be
reached only from its own machine (`require_loopback`), and not from a web page that a user of that machine
visits (`OpenAccess` requires a header that pages of other origins cannot send, and a loopback host).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from kalends.core.conversion import convert
from kalends.core.errors import InvalidInput, NotAllowed, NotAuthenticated
from kalends.core.principals import ANYBODY, Principal, VouchedNames
from kalends.rim.web_addresses import is_loopback

SCOPES: Final = frozenset({"use", "audit", "admin", "broker", "near"})
"""All scopes that a token can have (`kalends.contract.calls.Scope`)."""

ANY: Final = "any"
"""The scope of calls that any accepted token may make."""

OPEN: Final = "open"
"""The key of callers under open access; keys of tokens are thumbprints."""

USER_HEADER: Final = "Kalends-User"
GROUPS_HEADER: Final = "Kalends-Groups"


def _never() -> bool:
    return False


class Caller(msgspec.Struct, frozen=True):
    """An authenticated principal; `expires_at` (seconds UTC) is 0 if the rights do not expire.

    `key` is the id of the key that vouches, "open" under open access; `audiences` are the first audiences of
    the token. `is_revoked` returns whether the token, or that key, has been revoked since. With `hosts`, the
    caller must show a certificate for one of these.
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

        "" requires nothing, and `ANY` any accepted token. A session keeps its caller for hours, so both are
        checked on every call.
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
    """Authentication of callers by the headers of a request, or of a session's upgrade."""

    def authenticate(self, headers: Mapping[str, str], now_s: int) -> Caller:
        """Raises `NotAuthenticated` with the reason."""

    def follow(self, older: Authenticator) -> None:
        """Take over the knowledge of `older`, which this replaces."""

    def believes(self, caller: Caller) -> bool:
        """Return whether `caller`, authenticated some time ago, would still get the same rights."""

    async def prepare(self, headers: Mapping[str, str], monotonic_s: float) -> None:
        """Fetch keys that `authenticate` needs for `headers`, if they are missing; never raises."""

    async def close(self) -> None:
        """Stop fetching keys."""

    def security_schemes(self) -> dict[str, dict[str, object]]:
        """Return the OpenAPI security schemes of this way in, by name; any one is enough."""


class OpenAccess:
    """Access without keys: a header names the caller, who has every scope."""

    def authenticate(self, headers: Mapping[str, str], now_s: int) -> Caller:
        """Return the caller named by ``Kalends-User`` (and comma-separated ``Kalends-Groups``).

        Raises `NotAuthenticated` without the header, for a name that cannot be one, and when the
        request was addressed to a host that is not loopback (a name that an attacker pointed at
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
    """Return whether a request was addressed to a loopback host, not to another name that points here."""
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
