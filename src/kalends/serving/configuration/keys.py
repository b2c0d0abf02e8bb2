"""Keys and certificates that a server trusts, and its own for outgoing calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, field

from kalends.contract.messages import Url
from kalends.core.errors import InvalidInput
from kalends.serving.auth.addresses import check_fetched
from kalends.serving.configuration.sections import DurationS, Name, NameIfAny, Section, Text

ClaimName = Annotated[str, Meta(min_length=1, max_length=128)]


TokenScope = Literal["use", "audit", "admin", "broker", "near"]


VouchedPattern = Annotated[str, Meta(min_length=1, max_length=128)]


class ClaimsConfiguration(Section, frozen=True, kw_only=True):
    """Names of claims in the tokens of an issuer (`kalends.serving.auth.claim_names`).

    `audiences` are accepted instead of this server's name. `scopes` are patterns of the issuer's scopes for
    each scope of kalends: ``{ use = ["compute.*"] }``, or ``["*"]`` for every token.
    """

    user: ClaimName = "sub"
    groups: ClaimName = "groups"
    scope: ClaimName = "scope"
    audiences: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    scoped: bool = False
    """The claim `user` includes the realm, e.g. ``ada@kit.edu``; any other realm is refused."""
    scopes: dict[TokenScope, Annotated[tuple[Text, ...], Meta(max_length=64)]] = {}


class KeyConfiguration(Section, frozen=True, kw_only=True):
    """Keys whose tokens are accepted, for this issuer ("" any) and these scopes.

    They are in a `file` (PEM or JWKS), at the address `jwks`, or published by the OpenID provider `openid`.
    `ca` is the authority that signed that server's certificate, if the system does not know it. Users of
    keys with a `realm` are called ``ada@realm`` here; without one, by their plain names.

    `users` and `groups` are those that the key may vouch for, by name or by a pattern such as ``*@campus-b``.
    `brokers` are the names of brokers that may use it at a site; without any, a name belongs to the key
    that used it first. With `hosts`, callers must show a certificate for one of these names. `client` is the
    name of kalends programs at the provider. A token that is valid for more than `longest_s` is refused.
    """

    file: Path | None = None
    jwks: Url = ""
    openid: Url = ""
    client: Annotated[str, Meta(max_length=200)] = ""
    ca: Path | None = None
    issuer: Text = ""
    realm: NameIfAny = ""
    scopes: tuple[TokenScope, ...] = ("use",)
    users: Annotated[tuple[VouchedPattern, ...], Meta(max_length=10_000)] = ("*",)
    groups: Annotated[tuple[VouchedPattern, ...], Meta(max_length=10_000)] = ("*",)
    brokers: Annotated[tuple[Name, ...], Meta(max_length=1_000)] = ()
    hosts: Annotated[tuple[Text, ...], Meta(max_length=64)] = ()
    longest_s: DurationS = field(name="longest", default=DurationS(366 * 86_400))
    claims: ClaimsConfiguration = ClaimsConfiguration()

    @property
    def place(self) -> str:
        """The place of the keys: a file, or an address."""
        return str(self.file or self.openid or self.jwks)


class TlsConfiguration(Section, frozen=True, kw_only=True):
    """The certificate of a server. `clients` is the authority that signs certificates of calling servers."""

    certificate: Path
    key: Path
    clients: Path | None = None
    """Other servers must show a certificate of this authority; users need none."""


class CallsConfiguration(Section, frozen=True, kw_only=True):
    """The own certificate of a server in calls to others, and the authority that it trusts.

    `ca` is the authority of servers whose entry has none, if the system does not know it.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class SiteCallsConfiguration(CallsConfiguration, frozen=True, kw_only=True):
    """Calls of a site. At addresses that brokers name, it calls only those that match `to`, if set."""

    to: Annotated[tuple[Url, ...], Meta(max_length=1_000)] = ()


def check_key(key: KeyConfiguration, where: str) -> None:
    if sum(map(bool, (key.file, key.jwks, key.openid))) != 1:
        raise InvalidInput(
            "a key needs one place", where=where, remedy="write one of file, jwks and openid"
        )
    if key.file is None:
        _check_published_key(key, where)
    if key.claims.scoped and not key.realm:
        raise InvalidInput(
            "scoped names need the realm of the key",
            where=f"{where}.claims.scoped",
            remedy="write `realm`, or leave out `scoped`",
        )


def _check_published_key(key: KeyConfiguration, where: str) -> None:
    check_fetched(key.jwks or key.openid, f"{where}.{'jwks' if key.jwks else 'openid'}")
    servers = {"broker", "near"}.intersection(key.scopes)
    if servers:
        raise InvalidInput(
            f"the scope {min(servers)} is only for keys in files",
            where=f"{where}.scopes",
            remedy="list the key of that server as a file",
        )
    if key.jwks and not key.issuer:
        raise InvalidInput(
            "keys at `jwks` need an issuer",
            where=f"{where}.issuer",
            remedy="write the issuer (`iss`) of their tokens",
        )
    if key.openid and key.issuer not in ("", key.openid):
        raise InvalidInput(
            "the issuer of an OpenID provider must be its address",
            where=f"{where}.issuer",
            remedy="leave it out, or write what `openid` says",
        )
