"""Digests that distinguish calls with the same key."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")


def digest_of(*asked: object) -> str:
    """Return the same text for the same call, in any process and version of Python."""
    return hashlib.blake2b(_ENCODER.encode(asked), digest_size=16).hexdigest()
