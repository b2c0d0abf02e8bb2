"""Whose tokens and certificates are believed, and with which a server calls others."""

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
    """Where tokens of an issuer say who, of which groups and what for (`kalends.serving.auth.claim_names`).

    `audiences` are what they may be for, instead of this server's name. `scopes` are patterns of their
    scopes for each of ours: ``{ use = ["compute.*"] }``, or ``["*"]`` for every token.
    """

    user: ClaimName = "sub"
    groups: ClaimName = "groups"
    scope: ClaimName = "scope"
    audiences: Annotated[tuple[Text, ...], Meta(max_length=16)] = ()
    scoped: bool = False
    """The claim `user` brings the realm along, as ``ada@kit.edu``; any other realm is refused."""
    scopes: dict[TokenScope, Annotated[tuple[Text, ...], Meta(max_length=64)]] = {}


class KeyConfiguration(Section, frozen=True, kw_only=True):
    """Keys whose tokens are believed, for this issuer ("" any) and these scopes.

    They are in a `file` (PEM or JWKS), at the address `jwks`, or where the OpenID provider `openid` says.
    `ca` is the authority that signed that server's certificate, where the system does not know it. The
    users of keys with a `realm` are called ``ada@realm`` here; without one, by their plain names.

    `users` and `groups` are those for whom it may vouch, by name or by a pattern such as ``*@campus-b``.
    `brokers` are the names of brokers that may use it at a site; without any, a name belongs to the key
    that came with it first. With `hosts`, its tokens count only from who shows a certificate for one of
    these names. `client` is what a program of ours calls itself at the provider. A token that is good for
    more than `longest_s` is refused.
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
        """Where the keys are: a file, or an address."""
        return str(self.file or self.openid or self.jwks)


class TlsConfiguration(Section, frozen=True, kw_only=True):
    """The certificate of a server. `clients` is the authority that signs those of servers that call it."""

    certificate: Path
    key: Path
    clients: Path | None = None
    """Other servers must show a certificate of this authority; users need none."""


class CallsConfiguration(Section, frozen=True, kw_only=True):
    """How a server calls others: with which certificate, and believing whose.

    `ca` is the authority that signed theirs, where nothing else is said and the system does not know it.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


class SiteCallsConfiguration(CallsConfiguration, frozen=True, kw_only=True):
    """A site also calls at addresses that brokers name: only at those like one of `to`, if there are any."""

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
