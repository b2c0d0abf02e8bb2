"""Signed calls of webhooks, by the rules of Standard Webhooks (standardwebhooks.com, version 1.0.0).

The HMAC-SHA256 of ``id.time.body`` is sent in the header ``webhook-signature``, as ``v1,`` and base64. Sender
and receiver share a secret, written ``whsec_`` and base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Final

from kalends.core.errors import InvalidInput, NotAuthenticated

SECRET_PREFIX: Final = "whsec_"
SECRET_BYTES_MIN: Final = 24
SECRET_BYTES_MAX: Final = 64
"""The bounds of Standard Webhooks."""

AGE_S_MAX: Final = 300
"""Maximum age, or lead, of a call in seconds: beyond it, the call may be a replay."""

VERSION: Final = "v1,"


def secret_text(secret: bytes) -> str:
    """Return a secret as people and configurations write it."""
    return SECRET_PREFIX + base64.b64encode(secret).decode()


def secret_bytes(text: str) -> bytes:
    """Return the secret that is written `text`, with or without ``whsec_``.

    Raises `InvalidInput`, without the text, if it is not base64, or is too short or too long.
    """
    try:
        secret = base64.b64decode(text.strip().removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        raise InvalidInput(
            f"not the secret of a webhook: base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes",
            where="secret",
            remedy="write it as it was shown, whsec_...; `openssl rand -base64 32` makes a new one",
        )
    return secret


def signed_headers(secret: bytes, id: str, time_s: int, body: bytes) -> dict[str, str]:
    """Return the headers that sign `body`, sent at `time_s` (seconds UTC) as the delivery `id`."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(time_s),
        "webhook-signature": VERSION + _signature(secret, id, str(time_s), body),
    }


def verify_webhook(
    secret: str, headers: Mapping[str, str], body: bytes, *, now_s: float | None = None
) -> str:
    """Return the id of a delivery with a genuine, recent signature; receivers drop an id seen before.

    `headers` may be in any case, and `now_s` is the time of the call (None: by this computer's clock). Raises
    `NotAuthenticated` for every other call, and `InvalidInput` for an invalid secret.
    """
    key = secret_bytes(secret)
    named = {name.lower(): value for name, value in headers.items()}
    id, sent = named.get("webhook-id", ""), named.get("webhook-timestamp", "")
    now_s = time.time() if now_s is None else now_s
    if not id or not (sent.isascii() and sent.isdigit() and len(sent) <= 12):
        raise _refused("it is not signed")
    if abs(now_s - int(sent)) > AGE_S_MAX:
        raise _refused(f"it is not from the last {AGE_S_MAX} s")
    true = _signature(key, id, sent, body).encode()
    for signature in named.get("webhook-signature", "").split():
        given = signature.removeprefix(VERSION).encode()
        if signature.startswith(VERSION) and hmac.compare_digest(given, true):
            return id
    raise _refused("its signature does not match this secret")


def _signature(secret: bytes, id: str, time_s: str, body: bytes) -> str:
    signed = b".".join((id.encode(), time_s.encode(), body))
    return base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()


def _refused(why: str) -> NotAuthenticated:
    return NotAuthenticated(
        f"not a genuine call of this webhook: {why}",
        where="webhook",
        remedy="answer with status 401, and do nothing else",
    )
