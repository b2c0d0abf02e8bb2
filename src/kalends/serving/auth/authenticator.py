"""How a server knows its callers, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.serving.auth.callers import Authenticator, OpenAccess, VouchedNames
from kalends.serving.auth.keys import load_trusted_keys
from kalends.serving.auth.tokens import KeyRing
from kalends.serving.configuration import KeyConfiguration


def authenticator_of(name: str, keys: Sequence[KeyConfiguration]) -> Authenticator:
    """Return how server `name` knows its callers: by tokens of `keys`, or open access."""
    trusted = [
        found
        for key in keys
        for found in load_trusted_keys(
            key.file,
            issuer=key.issuer,
            scopes=frozenset(key.scopes),
            vouching=VouchedNames(key.users, key.groups, key.brokers),
        )
    ]
    return KeyRing(trusted, name) if trusted else OpenAccess()
