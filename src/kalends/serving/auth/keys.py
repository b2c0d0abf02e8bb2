"""Ed25519 key files: a private key, and its public half.

A private key is one PEM file (PKCS 8) that only its owner may read. Its public half is next to it, as
``<file>.pub``, which the owners of other servers list (`kalends.serving.auth.public_keys`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kalends.core.errors import InvalidInput
from kalends.rim.private_files import PRIVATE, check_private, write_new
from kalends.serving.auth.public_keys import read_key_file

_MODE_PUBLIC: Final = 0o644


def generate_key() -> Ed25519PrivateKey:
    """Return a new private key from the system's randomness."""
    return Ed25519PrivateKey.generate()


def write_key_pair(path: Path) -> Path:
    """Make a key: private half to `path` (mode 0600), public half to the returned ``<path>.pub``.

    Raises `Conflict` when either file exists: a key is never overwritten, because all tokens that it signed
    would become invalid. On failure neither file is left behind.
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
    content = read_key_file(path)
    if b"PUBLIC KEY" in content:
        raise InvalidInput(
            "this is the public half of a key, which signs nothing",
            where=str(path),
            remedy="name the private key: the file next to it, without .pub",
        )
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
