"""Ed25519 key files: made, loaded, and listed as trusted.

A private key is one PEM file (PKCS 8) that only its owner may read; its public half lies next to it
as ``<file>.pub``. An owner trusts keys by listing such public files, or a JWKS file (RFC 7517) from
an identity provider. A key is known by its id: the ``kid`` of a JWKS, else its RFC 7638 thumbprint.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from kalends.core.errors import InvalidInput
from kalends.serving.auth.callers import ANYBODY, VouchedNames
from kalends.serving.private_files import PRIVATE, check_private, write_new

KEY_FILE_BYTES_MAX: Final = 256 * 1024
"""A JWKS of a large identity provider is a few kilobytes."""

_MODE_PUBLIC: Final = 0o644


class TrustedKey(msgspec.Struct, frozen=True):
    """A public key whose tokens an owner believes, for `issuer` ("" for any) and these scopes only.

    `vouching`: whom its tokens may name.
    """

    public_key: Ed25519PublicKey
    key_id: str
    issuer: str
    scopes_allowed: frozenset[str]
    vouching: VouchedNames = ANYBODY


class _JsonWebKey(msgspec.Struct):
    kty: str
    crv: str = ""
    x: str = ""
    kid: str = ""
    use: str = "sig"


class _JsonWebKeySet(msgspec.Struct):
    keys: list[_JsonWebKey]


def generate_key() -> Ed25519PrivateKey:
    """Return a new private key from the system's randomness."""
    return Ed25519PrivateKey.generate()


def key_id(public_key: Ed25519PublicKey) -> str:
    """Return the key's RFC 7638 thumbprint: the same on every machine, whatever the file is called."""
    canonical = f'{{"crv":"Ed25519","kty":"OKP","x":"{_base64url(public_key.public_bytes_raw())}"}}'
    return _base64url(hashlib.sha256(canonical.encode()).digest())


def write_key_pair(path: Path) -> Path:
    """Make a key: private half to `path` (mode 0600), public half to the returned ``<path>.pub``.

    Raises `Conflict` when either file exists: a key is never overwritten, for every token it signed
    would be lost with it. On failure neither file is left behind.
    """
    key = generate_key()
    public_path = path.with_name(path.name + ".pub")
    private_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public_pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write_new(public_path, public_pem, _MODE_PUBLIC)
    try:
        write_new(path, private_pem, PRIVATE)
    except BaseException:
        public_path.unlink()
        raise
    return public_path


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in `path`.

    Raises `InvalidInput` when it cannot be read, is not an unencrypted Ed25519 key, or others can read it.
    """
    content = _read(path)
    check_private(path)
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            "not a private key in PEM form without a passphrase",
            where=str(path),
            remedy="make one with `kalends admin key FILE`",
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(
            "not an Ed25519 private key",
            where=str(path),
            remedy="make one with `kalends admin key FILE`",
        )
    return key


def load_trusted_keys(
    path: Path, *, issuer: str, scopes: frozenset[str], vouching: VouchedNames = ANYBODY
) -> tuple[TrustedKey, ...]:
    """Return the Ed25519 keys in `path`, a public PEM file or a JWKS file.

    Keys of other kinds in a JWKS are passed over: identity providers list several. Raises
    `InvalidInput` when the file cannot be read, holds no usable key, or holds a private key.
    """
    content = _read(path)
    if b"PRIVATE KEY-----" in content:
        raise InvalidInput(
            "this is a private key: only its owner may have it",
            where=str(path),
            remedy="list the public key, the file that ends in .pub",
        )
    if content.lstrip().startswith(b"-----BEGIN"):
        public = _from_pem(content, path)
        return (TrustedKey(public, key_id(public), issuer, scopes, vouching),)
    return tuple(
        TrustedKey(public, name or key_id(public), issuer, scopes, vouching)
        for name, public in _from_jwks(content, path)
    )


def _from_pem(content: bytes, path: Path) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidInput(
            "not a public key in PEM form",
            where=str(path),
            remedy="list the file ending in .pub that `kalends admin key FILE` wrote",
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(
            "not an Ed25519 public key",
            where=str(path),
            remedy="tokens are signed with EdDSA: make a key with `kalends admin key FILE`",
        )
    return key


def _from_jwks(content: bytes, path: Path) -> list[tuple[str, Ed25519PublicKey]]:
    try:
        listed = msgspec.json.decode(content, type=_JsonWebKeySet).keys
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            "neither a public key in PEM form nor a JWKS",
            where=str(path),
            remedy="list a .pub file, or a JSON file of the form {'keys': [...]}",
        ) from error
    found = []
    for index, key in enumerate(listed):
        if key.kty != "OKP" or key.crv != "Ed25519" or key.use != "sig":
            continue
        try:
            raw = base64.b64decode(key.x + "=" * (-len(key.x) % 4), altchars=b"-_", validate=True)
            found.append((key.kid, Ed25519PublicKey.from_public_bytes(raw)))
        except ValueError as error:
            raise InvalidInput(
                f"keys[{index}].x is not an Ed25519 public key", where=str(path)
            ) from error
    if not found:
        raise InvalidInput(
            "this JWKS lists no Ed25519 key for signatures",
            where=str(path),
            remedy="let the identity provider sign with EdDSA (Ed25519)",
        )
    return found


def _read(path: Path) -> bytes:
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


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
