"""Tokens of people and of brokers, minted as an institution would."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kalends.serving.auth.keys import load_private_key
from kalends.serving.auth.tokens import mint


def token(
    key: Ed25519PrivateKey | Path, user: str, audience: Sequence[str], scopes: Sequence[str] = ("use",),
    *, groups: Sequence[str] = (), issuer: str = "", lifetime_s: int = 600, now_s: int | None = None,
) -> str:  # fmt: skip
    """`key` may be the file that has it; `now_s` is the host's clock (seconds UTC) when None."""
    return mint(
        load_private_key(key) if isinstance(key, Path) else key, user=user, groups=groups,
        audience=audience, scopes=scopes, issuer=issuer, lifetime_s=lifetime_s,
        now_s=int(time.time()) if now_s is None else now_s,
    )  # fmt: skip
