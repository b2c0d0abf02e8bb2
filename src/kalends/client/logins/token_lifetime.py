"""Lifetime and audience of a token, read from the token itself without verification."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode
from typing import Final, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")

SOON_S: Final = 600
SOON_SHARE: Final = 10
"""Share of its life after which a token is about to expire; or ten minutes, but not in its first half."""


class _Times(msgspec.Struct):
    exp: int | float
    iat: int | float = 0
    nbf: int | float = 0


class _Audiences(msgspec.Struct):
    aud: str | list[str]


class TokenLifetime(NamedTuple):
    """A lifetime from `begins_at` (0: not known) to `expires_at`, in seconds UTC."""

    begins_at: int
    expires_at: int

    def left_s(self, now_s: int) -> int:
        """Return the seconds until the token expires; 0 once it has expired."""
        return max(0, self.expires_at - now_s)

    def is_ending(self, now_s: int) -> bool:
        """Return whether the token has expired, or is about to."""
        if not self.begins_at:
            return self.left_s(now_s) <= SOON_S
        life_s = self.expires_at - self.begins_at
        return self.left_s(now_s) <= min(max(life_s // SOON_SHARE, SOON_S), life_s // 2)


def lifetime_of(token: str) -> TokenLifetime | None:
    """Return the life of `token`; None if it is not a JWT (RFC 7519) with an end."""
    claims = _claims_in(token, _Times)
    if claims is None:
        return None
    try:
        return TokenLifetime(int(claims.iat or claims.nbf), int(claims.exp))
    except (ValueError, OverflowError):
        return None


def audiences_of(token: str) -> tuple[str, ...]:
    """Return the audiences of `token`; none if it is not a JWT that has them."""
    claims = _claims_in(token, _Audiences)
    if claims is None:
        return ()
    return (claims.aud,) if isinstance(claims.aud, str) else tuple(claims.aud)


def _claims_in(token: str, kind: type[T]) -> T | None:
    payload = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        # Tokens have no padding; superfluous padding does no harm.
        return msgspec.json.decode(urlsafe_b64decode(payload + "=="), type=kind)
    except (ValueError, RecursionError, binascii.Error):
        return None
