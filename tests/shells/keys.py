"""Keys and tokens of a facility's owners: one key for each broker, one for whoever vouches for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.shells.substitutes import WALL_AT_BEGIN_S
from tests.support.tokens import token

PEOPLE = "people"
PEOPLE_S = 300 * 86_400


class Keys:
    """Made from names, not from chance; they lie in `folder`.

    `vouches` has brokers whose keys may speak for some users only, and the pattern of those.
    """

    def __init__(
        self, folder: Path, brokers: Sequence[str], vouches: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._brokers = brokers
        self._vouches = vouches or {}
        self._private = {
            name: Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))
            for name in (*brokers, PEOPLE)
        }
        for name, private in self._private.items():
            self._write(name, private)

    def token(self, user: str, servers: Sequence[str]) -> str:
        """For a person, at all `servers`, for most of a year."""
        return token(
            self._private[PEOPLE], user, servers, ("use", "audit", "admin"), issuer=PEOPLE,
            lifetime_s=PEOPLE_S, now_s=WALL_AT_BEGIN_S,
        )  # fmt: skip

    def own(self, broker: str) -> str:
        """The line of a broker's configuration that names its private key."""
        return f'key = "{self._folder / broker}.private.pem"'

    def listed(self, section: str, *, brokers: bool) -> str:
        """The keys that a server of `section` believes: that of people, and the `brokers`'."""
        scopes = {PEOPLE: '["use", "audit", "admin"]'}
        if brokers:
            scopes |= dict.fromkeys(self._brokers, '["broker"]')
        return "".join(
            f'[[{section}.keys]]\nfile = "{self._folder / name}.public.pem"\n'
            f'issuer = "{name}"\nscopes = {allowed}\n'
            f'users = ["{self._vouches.get(name, "*")}"]\n'
            for name, allowed in scopes.items()
        )

    def _write(self, name: str, key: Ed25519PrivateKey) -> None:
        private = self._folder / f"{name}.private.pem"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        private.chmod(0o600)
        (self._folder / f"{name}.public.pem").write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
