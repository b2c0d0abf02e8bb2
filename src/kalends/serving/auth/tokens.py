"""Signed tokens: JWTs (RFC 7519).

A token names its user and groups (``sub``, ``groups``), servers (``aud``), scopes (``scope``,
separated by spaces), issuer (``iss``) and end (``exp``). A server accepts it if one of the
keys that its owner lists has signed it, within the limits of that key. Reasons
for a refusal are precise and never contain the token. Tokens of kalends are signed with EdDSA over Ed25519.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.utils import base64url_decode

from kalends.core import limits
from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.serving.auth.callers import SCOPES, Authenticator, Caller, principal_of
from kalends.serving.auth.claims import (
    Revoked,
    SignedClaims,
    caller_from,
    can_be_listed,
    expired,
    refused,
    short,
    was_revoked,
)
from kalends.serving.auth.providers import Provider
from kalends.serving.auth.public_keys import LIFETIME_S_MAX, TrustedKey, key_id

VERIFIED_MAX: Final = 4_096
"""Verified tokens remembered: each saves a signature check of about 0.1 ms per call."""

ALGORITHMS: Final = ("EdDSA", "ES256", "RS256")
"""Each is for keys of its kind only, whatever a token claims."""

_P256_BYTES: Final = 32
_P256_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve P-256 (SEC 2, section 2.4.2)."""

_JWS: Final = jwt.PyJWS(algorithms=ALGORITHMS)


class _Claims(msgspec.Struct, omit_defaults=True):
    sub: str
    exp: int
    aud: list[str]
    iss: str = ""
    jti: str = ""
    scope: str = ""
    groups: list[str] = []
    iat: int = 0
    nbf: int = 0


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
    kind: str = "JWT",
) -> str:
    """Return a token for `user` at the servers named in `audience`, valid from `now_s` for `lifetime_s`.

    `kind` is its ``typ``. Raises `InvalidInput` for an empty audience, an unknown scope, a lifetime outside
    one second to a year, and for names that no server would take.
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
    headers = {"kid": key_id(private_key.public_key()), "typ": kind}
    token = _JWS.encode(msgspec.json.encode(claims), private_key, "EdDSA", headers)
    if len(token) > limits.TOKEN_CHARACTERS_MAX:
        raise InvalidInput(
            f"a token of {len(token)} characters would not fit into a header field",
            where="groups",
            remedy="name fewer groups or servers in one token",
        )
    return token


def id_of(token: str) -> str:
    """Return the id by which a token is revoked: its ``jti``, or else the hash of header and payload.

    The token need not be valid. Raises `NotAuthenticated` for a text that is not a token.
    """
    jti = _unverified(token)[1].jti
    return jti if can_be_listed(jti) else _hash(_signed_part(token))


class KeyRing:
    """The keys that one owner lists, and the audience that tokens must have.

    Keys of `providers` may change. Verified tokens are remembered by their text until they expire, the
    least recently used leaving first; a refused token is never remembered. Not thread-safe.
    """

    def __init__(
        self,
        keys: Sequence[TrustedKey],
        audience: str,
        *,
        providers: Sequence[Provider] = (),
        revoked: Revoked = lambda token_id, key_id: False,
    ) -> None:
        if not (keys or providers) or not audience:
            raise InvalidInput(
                "tokens cannot be verified without a key and a name of this server", where="keys"
            )
        self._listed = tuple(keys)
        self._audience = audience
        self._providers = tuple(providers)
        self._listed_ids = frozenset(key.key_id for key in keys)
        self._revoked = revoked
        self._verified: OrderedDict[str, Caller] = OrderedDict()

    def authenticate(self, headers: Mapping[str, str], now_s: int) -> Caller:
        """Verify the token in the ``Authorization`` header, see `verify`."""
        kind, token = _bearer(headers)
        if kind.lower() != "bearer" or not token:
            raise NotAuthenticated(
                "no token was sent"
                if not kind
                else "the Authorization header carries no bearer token",
                where="Authorization",
                remedy="send Authorization: Bearer TOKEN; on the command line --token-file FILE",
            )
        return self.verify(token, now_s)

    async def prepare(self, headers: Mapping[str, str], monotonic_s: float) -> None:
        """Have the providers fetch their keys if a token may need newer ones."""
        if not self._providers or (token := _bearer(headers)[1]) == "":
            return
        try:
            header, claims = _unverified(token)
        except NotAuthenticated:
            return
        for provider in self._providers:
            if provider.issuer == claims.iss:
                await provider.prepare(header.get("kid", ""), monotonic_s)

    async def close(self) -> None:
        await asyncio.gather(*(each.close() for each in self._providers))

    def verify(self, token: str, now_s: int) -> Caller:
        """Return the caller whom `token` vouches for, with the scopes both the token and its key allow.

        Raises `NotAuthenticated` with the reason: malformed, another algorithm than its key's, signed by a
        key that is not listed, by another issuer than its key is listed for, for another audience, not
        valid yet, valid for too long, revoked, or expired.
        """
        digest = _hash(token)
        known = self._verified.get(digest)
        if known is not None:
            if now_s >= known.expires_at:
                del self._verified[digest]
                raise expired(known.expires_at, now_s)
            if known.is_revoked():
                raise was_revoked()
            self._verified.move_to_end(digest)
            return known
        signed = self._check_signature(token)
        caller = caller_from(signed, self._audience, self._is_revoked, now_s)
        self._verified[digest] = caller
        if len(self._verified) > VERIFIED_MAX:
            self._verified.popitem(last=False)
        return caller

    def follow(self, older: Authenticator) -> None:
        """Take over the keys that `older`, which this replaces, has fetched."""
        for before in older._providers if isinstance(older, KeyRing) else ():
            for each in self._providers:
                each.take_over(before)

    def believes(self, caller: Caller) -> bool:
        """Return whether the key of `caller` is listed, for all rights that they have here."""
        return any(
            key.key_id == caller.key
            and caller.scopes <= key.terms.scopes
            and key.terms.vouching == caller.vouching
            and key.terms.hosts == caller.hosts
            for key in self._keys()
        )

    def security_schemes(self) -> dict[str, dict[str, object]]:
        token: dict[str, object] = {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": f"A signed token for the audience {self._audience!r}.",
        }
        logins = (scheme for each in self._providers if (scheme := each.security_scheme()))
        return {"token": token} | {f"openid-{n}": each for n, each in enumerate(logins, 1)}

    def _is_revoked(self, token_id: str, key_id: str) -> bool:
        """Return whether the owner has revoked token or key, or a provider has withdrawn the key."""
        listed = key_id in self._listed_ids or any(each.has(key_id) for each in self._providers)
        return not listed or self._revoked(token_id, key_id)

    def _keys(self) -> list[TrustedKey]:
        return [*self._listed, *(key for each in self._providers for key in each.keys)]

    def _check_signature(self, token: str) -> SignedClaims:
        """Return the claims of `token`, and the listed key that signed it."""
        header = _header(token)
        keys = self._keys()
        # A key listed as a PEM file has no name, so every key must be tried.
        candidates = [key for key in keys if key.is_called(header.get("kid", ""))] or keys
        algorithm = header.get("alg")
        fitting = [key for key in candidates if key.algorithm == algorithm]
        if not fitting:
            raise _of_another_algorithm(algorithm, candidates)
        for key in fitting:
            try:
                complete = _JWS.decode_complete(token, key.public_key, [key.algorithm])
            except jwt.InvalidSignatureError:
                continue
            except jwt.InvalidTokenError as error:
                raise refused("it is malformed") from error
            kind = str(complete["header"].get("typ", ""))
            return SignedClaims(
                complete["payload"], kind, key, _hashes(token, complete["signature"], key.algorithm)
            )
        raise refused(
            "it is signed by a key that this owner does not list",
            remedy="ask the owner of this server to list the public key of the issuer",
        )


def _signed_part(token: str) -> str:
    """Return header and payload as they are signed: no character of them can be changed."""
    return token.rpartition(".")[0]


def _hashes(token: str, signature: bytes, algorithm: str) -> tuple[str, ...]:
    """Return the ids of a verified token that has none of its own.

    The first is the hash of the signed part. Earlier versions revoked tokens by the others, which are hashes
    of the whole text: as it was sent, and as its issuer may have written it.
    """
    signed = _signed_part(token)
    signatures = [signature]
    if algorithm == "ES256":
        # (r, -s) can be computed from (r, s), and is as valid.
        r, s = signature[:_P256_BYTES], int.from_bytes(signature[_P256_BYTES:], "big")
        signatures.append(r + (_P256_ORDER - s).to_bytes(_P256_BYTES, "big"))
    padded = [base64.urlsafe_b64encode(each).decode() for each in signatures]
    texts = (f"{signed}.{text}" for each in padded for text in (each, each.rstrip("=")))
    return tuple(dict.fromkeys(map(_hash, (signed, token, *texts))))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _bearer(headers: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind and the value of the ``Authorization`` header."""
    kind, _, token = headers.get("Authorization", "").partition(" ")
    return kind, token.strip()


def _header(token: str) -> Mapping[str, Any]:
    if len(token) > limits.TOKEN_CHARACTERS_MAX:
        raise refused(f"it is longer than {limits.TOKEN_CHARACTERS_MAX} characters")
    if not token.isascii():
        raise _malformed()
    try:
        return _JWS.get_unverified_header(token)
    except jwt.InvalidTokenError as error:
        raise _malformed() from error


def _malformed() -> NotAuthenticated:
    return refused("it is malformed", remedy="send the token exactly as it was issued")


class _Unverified(msgspec.Struct):
    iss: str = ""
    jti: str = ""


def _unverified(token: str) -> tuple[Mapping[str, Any], _Unverified]:
    """Return the header and some claims of an unverified token."""
    header = _header(token)
    try:
        payload = base64url_decode(token.split(".")[1])
        return header, msgspec.json.decode(payload, type=_Unverified)
    except (ValueError, RecursionError) as error:
        raise _malformed() from error


def _of_another_algorithm(algorithm: object, candidates: Iterable[TrustedKey]) -> NotAuthenticated:
    theirs = " or ".join(sorted({key.algorithm for key in candidates}))
    if not theirs:
        return refused(
            "the keys of its issuer are not known here yet", remedy="try again in a minute"
        )
    return refused(
        f"its algorithm is {short(algorithm)}, not {theirs}",
        remedy=f"ask for a token that is signed with {theirs}",
    )
