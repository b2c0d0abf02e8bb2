"""Calls of webhooks are genuine only as they were signed, and only for some minutes."""

from __future__ import annotations

import pytest

from kalends.core.errors import InvalidInput, NotAuthenticated
from kalends.rim.webhook_signatures import (
    AGE_S_MAX,
    secret_bytes,
    secret_text,
    signed_headers,
    verify_webhook,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIME, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
"""The example of the standard's own libraries."""

HEADERS = {"webhook-id": ID, "webhook-timestamp": str(TIME), "webhook-signature": SIGNATURE}


def test_it_signs_as_the_standard_does() -> None:
    assert signed_headers(secret_bytes(SECRET), ID, TIME, BODY) == HEADERS
    assert verify_webhook(SECRET, HEADERS, BODY, now_s=TIME) == ID


def test_headers_count_in_any_case_and_one_of_several_signatures_is_enough() -> None:
    loud = {name.title(): value for name, value in HEADERS.items()}
    loud["Webhook-Signature"] = f"v1,AAAA v1a,{SIGNATURE[3:]} {SIGNATURE}"
    assert verify_webhook(SECRET, loud, BODY, now_s=TIME) == ID


@pytest.mark.parametrize(
    ("change", "body", "late_s"),
    [
        ({}, BODY + b" ", 0),
        ({}, BODY, AGE_S_MAX + 1),
        ({}, BODY, -AGE_S_MAX - 1),
        ({"webhook-id": "msg_other"}, BODY, 0),
        ({"webhook-timestamp": str(TIME + 1)}, BODY, 0),
        ({"webhook-timestamp": "soon"}, BODY, 0),
        ({"webhook-timestamp": "\u0661"}, BODY, 0),
        ({"webhook-signature": ""}, BODY, 0),
        ({"webhook-signature": SIGNATURE[3:]}, BODY, 0),
        ({"webhook-signature": "v1,\u00e9"}, BODY, 0),
        ({"webhook-id": ""}, BODY, 0),
    ],
)
def test_what_differs_in_anything_is_refused(
    change: dict[str, str], body: bytes, late_s: int
) -> None:
    with pytest.raises(NotAuthenticated):
        verify_webhook(SECRET, HEADERS | change, body, now_s=TIME + late_s)


def test_another_s_secret_verifies_nothing() -> None:
    with pytest.raises(NotAuthenticated):
        verify_webhook(secret_text(bytes(32)), HEADERS, BODY, now_s=TIME)


@pytest.mark.parametrize(
    "text", ["", "whsec_", "whsec_c2hvcnQ=", "not base64 at all, but long" * 2]
)
def test_what_is_no_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        secret_bytes(text)
    assert not text.removeprefix("whsec_") or text not in str(refused.value)


def test_a_secret_is_read_as_it_is_written() -> None:
    assert secret_bytes(secret_text(bytes(range(32)))) == bytes(range(32))
