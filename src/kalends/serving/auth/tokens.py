"""Signed tokens: JWTs (RFC 7519) with EdDSA over Ed25519.

A token says who (``sub``, ``groups``), for which servers (``aud``), what it allows (``scope``,
separated by spaces), by whom (``iss``) and how long (``exp``). A server believes it when one of the
keys that its owner lists has signed it, and never more than the owner lets that key issue. Reasons
for a refusal are precise and never contain the token.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kalends.core import limits
from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.serving.auth.callers import SCOPES, Caller, principal_of
from kalends.serving.auth.keys import TrustedKey, key_id

ALGORITHM: Final = "EdDSA"

CLOCK_SKEW_S_MAX: Final = 60
"""A token may start this much in our future: the clock of the machine that made it runs ahead."""

SERVERS_SCOPES: Final = frozenset({"broker", "near"})
"""Scopes of servers; tokens with no other scope name a server and no user."""

LIFETIME_S_MAX: Final = 366 * 86_400

VERIFIED_MAX: Final = 4_096
"""Verified tokens remembered: each saves a signature check of about 0.1 ms per call."""

_JWS: Final = jwt.PyJWS(algorithms=[ALGORITHM])


class _Claims(msgspec.Struct, omit_defaults=True):
    sub: str
    exp: int | float
    aud: str | list[str]
    iss: str = ""
    jti: str = ""
    scope: str = ""
    groups: list[str] = []
    iat: int | float = 0
    nbf: int | float = 0


def mint(
    private_key: Ed25519PrivateKey,
    *,
    user: str,
    groups: Sequence[str],
    audience: Sequence[str],
    scopes: Sequence[str],
    issuer: str,
    lifetime_s: int,
    now_s: int,
) -> str:
    """Return a token for `user` at the servers named in `audience`, valid from `now_s` for `lifetime_s`.

    Raises `InvalidInput` for an empty audience, an unknown scope, a lifetime outside one second to a
    year, and for names that no server would take.
    """
    if not audience or not all(audience):
        raise InvalidInput("a token needs at least one server as its audience", where="audience")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidInput(
                f"{scope!r} is not a scope",
                where="scopes",
                remedy=f"choose from {', '.join(sorted(SCOPES))}",
            )
    if not 1 <= lifetime_s <= LIFETIME_S_MAX:
        raise InvalidInput(
            f"a lifetime of {lifetime_s} s is not between 1 s and 366 days", where="lifetime"
        )
    try:
        principal_of(user, list(groups))
    except NotAuthenticated as error:
        raise InvalidInput(error.detail, where="user", remedy=error.remedy) from error
    claims = _Claims(
        sub=user,
        groups=list(groups),
        aud=list(audience),
        scope=" ".join(scopes),
        iss=issuer,
        iat=now_s,
        nbf=now_s,
        exp=now_s + lifetime_s,
        jti=secrets.token_hex(8),
    )
    headers = {"kid": key_id(private_key.public_key())}
    token = _JWS.encode(msgspec.json.encode(claims), private_key, ALGORITHM, headers)
    if len(token) > limits.TOKEN_CHARACTERS_MAX:
        raise InvalidInput(
            f"a token of {len(token)} characters would not fit into a header field",
            where="groups",
            remedy="name fewer groups or servers in one token",
        )
    return token


class KeyRing:
    """The keys that one owner lists, and the name that tokens must be for.

    Verified tokens are remembered by their hash until they expire, the least recently used leaving
    first; a refused token is never remembered. Not thread-safe.
    """

    def __init__(self, keys: Sequence[TrustedKey], audience: str) -> None:
        if not keys or not audience:
            raise InvalidInput(
                "tokens cannot be verified without a key and a name of this server", where="keys"
            )
        self._keys = tuple(keys)
        self._audience = audience
        self._verified: OrderedDict[bytes, Caller] = OrderedDict()

    def authenticate(self, headers: Mapping[str, str], now_s: int) -> Caller:
        """Verify the token in the ``Authorization`` header, see `verify`."""
        kind, _, token = headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if kind.lower() != "bearer" or not token:
            raise NotAuthenticated(
                "no token was sent"
                if not kind
                else "the Authorization header carries no bearer token",
                where="Authorization",
                remedy="send Authorization: Bearer TOKEN; on the command line --token-file FILE",
            )
        return self.verify(token, now_s)

    def verify(self, token: str, now_s: int) -> Caller:
        """Return the caller whom `token` vouches for, with the scopes both the token and its key allow.

        Raises `NotAuthenticated` with the reason: malformed, another algorithm, signed by a key that
        is not listed, by another issuer than its key is listed for, for another audience, not valid
        yet, or expired.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._verified.get(digest)
        if known is not None:
            if now_s < known.expires_at:
                self._verified.move_to_end(digest)
                return known
            del self._verified[digest]
            raise _expired(known.expires_at, now_s)
        caller = self._verify(token, now_s)
        self._verified[digest] = caller
        if len(self._verified) > VERIFIED_MAX:
            self._verified.popitem(last=False)
        return caller

    def believes(self, caller: Caller) -> bool:
        """Return whether the key of `caller` is listed, for all that they may do here."""
        return any(
            key.key_id == caller.key
            and caller.scopes <= key.scopes_allowed
            and key.vouching == caller.vouching
            for key in self._keys
        )

    def security_scheme(self) -> tuple[str, dict[str, object]]:
        return "token", {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": f"A token signed with {ALGORITHM} for the audience {self._audience!r}.",
        }

    def _verify(self, token: str, now_s: int) -> Caller:
        key, payload = self._check_signature(token)
        try:
            claims = msgspec.json.decode(payload, type=_Claims)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _refused("its claims are not those of a kalends token") from error
        if key.issuer and claims.iss != key.issuer:
            raise _refused(
                f"its issuer is {_short(claims.iss)}, but its key is listed for {key.issuer!r}"
            )
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        if self._audience not in audiences:
            raise _refused(
                f"it is for {', '.join(_short(name) for name in audiences[:8]) or 'nobody'}, "
                f"not for {self._audience!r}",
                remedy=f"ask for a token with the audience {self._audience!r}",
            )
        starts_at = int(claims.nbf)
        if now_s < starts_at - CLOCK_SKEW_S_MAX:
            raise _refused(
                f"it is not valid yet, but in {_about(starts_at - now_s)}",
                remedy="wait, or set the clocks of both hosts (NTP)",
            )
        expires_at = int(claims.exp)
        if now_s >= expires_at:
            raise _expired(expires_at, now_s)
        principal = principal_of(claims.sub, claims.groups)
        scopes = key.scopes_allowed.intersection(claims.scope.split())
        if not scopes <= SERVERS_SCOPES:
            key.vouching.check(principal)
        return Caller(
            principal, scopes, _short(claims.jti)[1:-1], expires_at, key.key_id, key.vouching
        )

    def _check_signature(self, token: str) -> tuple[TrustedKey, bytes]:
        """Return the listed key that signed `token`, and the signed payload."""
        if len(token) > limits.TOKEN_CHARACTERS_MAX:
            raise _refused(f"it is longer than {limits.TOKEN_CHARACTERS_MAX} characters")
        if not token.isascii():
            raise _refused("it is malformed", remedy="send the token exactly as it was issued")
        try:
            header = _JWS.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise _refused(
                "it is malformed", remedy="send the token exactly as it was issued"
            ) from error
        algorithm = header.get("alg")
        if algorithm != ALGORITHM:
            raise _refused(
                f"its algorithm is {_short(algorithm)}, not {ALGORITHM}",
                remedy=f"ask for a token that is signed with {ALGORITHM} (Ed25519)",
            )
        named = header.get("kid", "")
        # A key listed as a PEM file has no name of its own: then every key may be the one.
        candidates = [key for key in self._keys if key.key_id == named] or self._keys
        for key in candidates:
            try:
                complete = _JWS.decode_complete(token, key.public_key, [ALGORITHM])
            except jwt.InvalidSignatureError:
                continue
            except jwt.InvalidTokenError as error:
                raise _refused("it is malformed") from error
            return key, complete["payload"]
        raise _refused(
            "it is signed by a key that this owner does not list",
            remedy="ask the owner of this server to list the public key of the issuer",
        )


def _refused(reason: str, *, remedy: str = "ask the issuer for a new token") -> NotAuthenticated:
    return NotAuthenticated(f"the token was refused: {reason}", where="token", remedy=remedy)


def _expired(expires_at: int, now_s: int) -> NotAuthenticated:
    return _refused(f"it expired {_about(now_s - expires_at)} ago")


def _about(seconds: int) -> str:
    """Return a length of time as people say it: the largest unit that is not zero, rounded down."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{seconds // length_s} {unit}"
    return f"{seconds} s"


def _short(value: object) -> str:
    """Quote and escape `value` for an error text, with at most 64 characters of it."""
    return ascii(str(value)[:64])
