"""Public keys whose tokens an owner accepts: read from PEM, or from a JWKS (RFC 7517).

Each kind of key has one algorithm, whatever a token claims: Ed25519 with EdDSA, RSA with RS256, the curve
P-256 with ES256. A key is known by its id: the ``kid`` of a JWKS file, else its RFC 7638 thumbprint.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from kalends.core.errors import InvalidInput
from kalends.core.principals import ANYBODY, VouchedNames
from kalends.serving.auth.claim_names import OUR_CLAIMS, ClaimNames

KEY_FILE_BYTES_MAX: Final = 256 * 1024
"""A JWKS of a large identity provider is a few kilobytes."""

KEYS_MAX: Final = 256
"""Keys in one JWKS."""

RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 8192
RSA_EXPONENT_MAX: Final = 1 << 32
"""Larger moduli and exponents only make the check of a signature slower."""

LIFETIME_S_MAX: Final = 366 * 86_400
"""Maximum life of a token, unless an owner sets a shorter one."""

PublicKey = Ed25519PublicKey | RSAPublicKey | EllipticCurvePublicKey


class KeyTerms(msgspec.Struct, frozen=True):
    """The terms on which an owner trusts keys: only for `issuer` ("" for any) and these scopes.

    `vouching` has the users and groups that their tokens may name, `claims` the names of claims, and
    `longest_s` the maximum life of a token. With `hosts`, callers must show a certificate for one of these.
    """

    issuer: str = ""
    scopes: frozenset[str] = frozenset({"use"})
    vouching: VouchedNames = ANYBODY
    claims: ClaimNames = OUR_CLAIMS
    longest_s: int = LIFETIME_S_MAX
    hosts: tuple[str, ...] = ()


class TrustedKey(msgspec.Struct, frozen=True):
    """A public key that an owner trusts on `terms`; `name` is its ``kid`` in tokens."""

    public_key: PublicKey
    key_id: str
    terms: KeyTerms = KeyTerms()
    name: str = ""

    @property
    def algorithm(self) -> str:
        return algorithm_of(self.public_key)

    def is_called(self, kid: object) -> bool:
        return kid in (self.key_id, self.name or self.key_id)


class _JsonWebKey(msgspec.Struct):
    kty: str
    crv: str = ""
    x: str = ""
    y: str = ""
    n: str = ""
    e: str = ""
    d: str = ""
    kid: str = ""
    use: str = "sig"
    alg: str = ""


class _JsonWebKeySet(msgspec.Struct):
    keys: list[_JsonWebKey]


def algorithm_of(key: PublicKey) -> str:
    """Return the one algorithm with which tokens of `key` are signed."""
    if isinstance(key, Ed25519PublicKey):
        return "EdDSA"
    return "RS256" if isinstance(key, RSAPublicKey) else "ES256"


def key_id(key: PublicKey) -> str:
    """Return the key's RFC 7638 thumbprint: the same on every machine, whatever the file is called."""
    canonical = json.dumps(_members(key), sort_keys=True, separators=(",", ":"))
    return _base64url(hashlib.sha256(canonical.encode()).digest())


def load_trusted_keys(path: Path, terms: KeyTerms) -> tuple[TrustedKey, ...]:
    """Return the keys in `path`, a public PEM file or a JWKS file, trusted on `terms`.

    Keys of other kinds in a JWKS are skipped, because identity providers list several. Raises
    `InvalidInput` when the file cannot be read, holds no usable key, or holds a private key.
    """
    content = read_key_file(path)
    if b"PRIVATE KEY-----" in content:
        raise InvalidInput(
            "this is a private key: only its owner may have it",
            where=str(path),
            remedy="list the public key, the file that ends in .pub",
        )
    if content.lstrip().startswith(b"-----BEGIN"):
        public = _from_pem(content, str(path))
        return (TrustedKey(public, key_id(public), terms),)
    return tuple(
        TrustedKey(public, name or key_id(public), terms)
        for name, public in keys_of_set(content, str(path))
    )


def keys_of_set(content: bytes, where: str) -> list[tuple[str, PublicKey]]:
    """Return the usable keys of a JWKS, each with its ``kid`` or "".

    Raises `InvalidInput` at `where` if there is none, or if this is not a JWKS.
    """
    try:
        listed = msgspec.json.decode(content, type=_JsonWebKeySet).keys[:KEYS_MAX]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            "neither a public key in PEM form nor a JWKS",
            where=where,
            remedy="list a .pub file, or a JSON file of the form {'keys': [...]}",
        ) from error
    found = []
    reasons = []
    for index, each in enumerate(listed):
        try:
            found.append((each.kid, _from_jwk(each)))
        except ValueError as error:
            reasons.append(f"keys[{index}]: {error}")
    if not found:
        raise InvalidInput(
            f"this JWKS lists no key that can be used here{': ' + '; '.join(reasons[:4]) if reasons else ''}",
            where=where,
            remedy="let the identity provider sign with EdDSA (Ed25519), ES256 or RS256",
        )
    return found


def read_key_file(path: Path) -> bytes:
    """Return the content of `path`; raises `InvalidInput` when it is unreadable, or too large for a key."""
    try:
        with path.open("rb") as file:
            content = file.read(KEY_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInput(
            f"cannot read the key file: {error.strerror}",
            where=str(path),
            remedy="correct the path, or make a key with `kalends admin key FILE`",
        ) from error
    if len(content) > KEY_FILE_BYTES_MAX:
        raise InvalidInput("the file is too large for a key file", where=str(path))
    return content


def _from_pem(content: bytes, where: str) -> PublicKey:
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            "not a public key in PEM form",
            where=where,
            remedy="list the file ending in .pub that `kalends admin key FILE` wrote",
        ) from error
    try:
        return _usable(key)
    except ValueError as error:
        raise InvalidInput(
            f"this key cannot be used: {error}",
            where=where,
            remedy="make a key with `kalends admin key FILE`, or take one of P-256 or RSA",
        ) from error


def _from_jwk(listed: _JsonWebKey) -> PublicKey:
    """Return a listed key; raises `ValueError` for one that cannot be used."""
    if listed.use != "sig":
        raise ValueError("it is not for signatures")
    if listed.d:
        raise ValueError("it is a private key, which only its owner may have")
    key: object
    if listed.kty == "OKP" and listed.crv == "Ed25519":
        key = Ed25519PublicKey.from_public_bytes(_bytes_of(listed.x))
    elif listed.kty == "RSA":
        key = RSAPublicNumbers(_number_of(listed.e), _number_of(listed.n)).public_key()
    elif listed.kty == "EC" and listed.crv == "P-256":
        x, y = _number_of(listed.x), _number_of(listed.y)
        key = EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key()
    else:
        raise ValueError(f"it is of another kind, {(listed.kty + ' ' + listed.crv)[:40].strip()!a}")
    usable = _usable(key)
    if listed.alg not in ("", algorithm_of(usable)):
        raise ValueError(f"it is for the algorithm {listed.alg[:20]!a}")
    return usable


def _usable(key: object) -> PublicKey:
    """Return `key`; raises `ValueError` for a kind or strength that is not accepted."""
    match key:
        case Ed25519PublicKey():
            return key
        case RSAPublicKey():
            if not RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX:
                raise ValueError(f"an RSA key here has {RSA_BITS_MIN} to {RSA_BITS_MAX} bits")
            if key.public_numbers().e > RSA_EXPONENT_MAX:
                raise ValueError("its exponent is too large")
            return key
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return key
    raise ValueError("only Ed25519, P-256 and RSA keys are")


def _members(key: PublicKey) -> dict[str, str]:
    """Return the members of the key's JWK that RFC 7638 requires."""
    if isinstance(key, Ed25519PublicKey):
        return {"crv": "Ed25519", "kty": "OKP", "x": _base64url(key.public_bytes_raw())}
    if isinstance(key, RSAPublicKey):
        rsa = key.public_numbers()
        return {"e": _base64url(_shortest(rsa.e)), "kty": "RSA", "n": _base64url(_shortest(rsa.n))}
    point = key.public_numbers()
    x, y = (_base64url(each.to_bytes(32, "big")) for each in (point.x, point.y))
    return {"crv": "P-256", "kty": "EC", "x": x, "y": y}


def _number_of(text: str) -> int:
    return int.from_bytes(_bytes_of(text), "big")


def _bytes_of(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _shortest(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
