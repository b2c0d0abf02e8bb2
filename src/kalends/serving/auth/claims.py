"""The claims of a signed token, judged by the terms of the key that signed it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from kalends.core.durations import format_duration
from kalends.core.errors import NotAuthenticated
from kalends.core.principals import Principal, in_realm
from kalends.serving.auth.callers import Caller, principal_of
from kalends.serving.auth.public_keys import TrustedKey
from kalends.serving.auth.revocations import ID_CHARS_MAX

CLOCK_SKEW_S_MAX: Final = 60
"""A token may start this much in the future, because the clock of its issuer may be ahead."""

SERVERS_SCOPES: Final = frozenset({"broker", "near"})
"""Scopes of servers; tokens with no other scope name a server and no user."""

AUDIENCES_MAX: Final = 8
"""The number of a token's audiences that errors show."""

_ID: Final = re.compile(rf"[!\"$-~]{{1,{ID_CHARS_MAX}}}")
"""Printable ASCII without a space, and without the # that begins a note."""

SITE_PASS: Final = "kalends-pass+jwt"
"""The ``typ`` of a broker's pass (RFC 8725, section 3.11), which names users as the broker does."""

Revoked = Callable[[str, str], bool]
"""Whether a token or a key, each by its id, has been revoked."""


class _Registered(msgspec.Struct):
    """The registered claims of RFC 7519."""

    exp: int | float
    aud: str | list[str]
    iss: str = ""
    jti: str = ""
    iat: int | float = 0
    nbf: int | float = 0


class SignedClaims(NamedTuple):
    """A payload that `key` has signed; `kind` is the ``typ`` of the token.

    If the token has no id, the first of `hashes` is its id, and each of them revokes it.
    """

    payload: bytes
    kind: str
    key: TrustedKey
    hashes: tuple[str, ...]


def caller_from(signed: SignedClaims, audience: str, revoked: Revoked, now_s: int) -> Caller:
    """Return the caller that `signed` vouches for at the server called `audience`.

    Raises `NotAuthenticated` with the reason.
    """
    payload, kind, key, hashes = signed
    terms = key.terms
    try:
        registered = msgspec.json.decode(payload, type=_Registered)
        claims = msgspec.json.decode(payload, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused("its claims are not those of a kalends token") from error
    if terms.issuer and registered.iss != terms.issuer:
        raise refused(
            f"its issuer is {short(registered.iss)}, but its key is listed for {terms.issuer!r}"
        )
    audiences = (registered.aud,) if isinstance(registered.aud, str) else tuple(registered.aud)
    _check_audience(audiences, terms.claims.audiences or (audience,))
    expires_at = _check_times(registered, terms.longest_s, now_s)
    jti = registered.jti
    ids = (jti,) if can_be_listed(jti) else (*hashes, jti)

    def is_revoked() -> bool:
        return any(revoked(each, key.key_id) for each in ids)

    if is_revoked():
        raise was_revoked()
    try:
        scopes = terms.claims.scopes_in(claims, terms.scopes)
        principal = _principal_in(claims, key, scopes, whole=kind == SITE_PASS)
    except ValueError as error:
        raise refused(str(error)) from error
    return Caller(
        principal, scopes, ids[0], expires_at, key.key_id, terms.vouching,
        is_revoked, terms.hosts, audiences[:AUDIENCES_MAX],
    )  # fmt: skip


def can_be_listed(token_id: str) -> bool:
    """Return whether `token_id` fits, uncut, into a revocation list and an audit log."""
    return _ID.fullmatch(token_id) is not None


def _check_audience(named: tuple[str, ...], audiences: tuple[str, ...]) -> None:
    if not set(named).isdisjoint(audiences):
        return
    wanted = " or ".join(repr(each) for each in audiences)
    raise refused(
        f"it is for {', '.join(short(name) for name in named[:AUDIENCES_MAX]) or 'no server'},"
        f" not for {wanted}",
        remedy=f"ask for a token with the audience {wanted}",
    )


def _check_times(said: _Registered, longest_s: int, now_s: int) -> int:
    """Return when the token expires (seconds UTC)."""
    starts_at = int(said.nbf)
    if now_s < starts_at - CLOCK_SKEW_S_MAX:
        raise refused(
            f"it is not valid yet, but in {about(starts_at - now_s)}",
            remedy="wait, or set the clocks of both hosts (NTP)",
        )
    expires_at = int(said.exp)
    if now_s >= expires_at:
        raise expired(expires_at, now_s)
    made_at = min(int(said.iat) or starts_at or now_s, now_s + CLOCK_SKEW_S_MAX)
    if expires_at - made_at > longest_s:
        raise refused(
            f"it is valid for {format_duration(expires_at - made_at)}, and this server accepts at most"
            f" {format_duration(longest_s)}",
            remedy="ask for a token with a shorter life",
        )
    return expires_at


def _principal_in(
    claims: dict[str, Any], key: TrustedKey, scopes: frozenset[str], *, whole: bool
) -> Principal:
    """Return user and groups by their names here; raises `ValueError` and `NotAuthenticated`.

    `whole` names include their realms, as in the messages of brokers.
    """
    names, vouching = key.terms.claims, key.terms.vouching
    realm = "" if whole else vouching.realm
    user, groups = names.user_in(claims, vouching.realm), names.groups_in(claims)
    if scopes and scopes <= SERVERS_SCOPES:
        return principal_of(user, groups)
    groups = [in_realm(each, realm) for each in groups]
    if names.many_groups:
        groups = [each for each in groups if vouching.has_group(each)]
    principal = principal_of(in_realm(user, realm) if user else "", groups)
    if beyond := vouching.beyond(principal):
        kind = beyond.split()[1]
        raise NotAuthenticated(
            f"the token was refused: its key may not vouch for {beyond}",
            where="token",
            remedy=f"ask the owner of this server to add it to `{kind}s` of that key",
        )
    return principal


def refused(reason: str, *, remedy: str = "ask the issuer for a new token") -> NotAuthenticated:
    return NotAuthenticated(f"the token was refused: {reason}", where="token", remedy=remedy)


def expired(expires_at: int, now_s: int) -> NotAuthenticated:
    return refused(f"it expired {about(now_s - expires_at)} ago")


def was_revoked() -> NotAuthenticated:
    return refused("it, or the key that has signed it, was revoked")


def about(seconds: int) -> str:
    """Return a length of time as people say it: the largest unit that is not zero, rounded down."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{seconds // length_s} {unit}"
    return f"{seconds} s"


def short(value: object) -> str:
    """Quote and escape `value` for an error text, with at most 64 characters of it."""
    return ascii(str(value)[:64])
