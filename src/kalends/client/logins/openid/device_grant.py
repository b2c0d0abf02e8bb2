"""The device authorization grant (RFC 8628): a person consents in any browser, and this program polls.

Pure: answers and times are parameters.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kalends.core.errors import Expired, InvalidInput, KalendsError, NotAllowed
from kalends.rim.web_addresses import is_guarded

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"

INTERVAL_S: Final = 5
"""Interval in seconds if a provider names none (section 3.2)."""

SLOWER_S: Final = 5
"""Added to the interval by ``slow_down`` (section 3.5)."""

INTERVAL_S_MAX: Final = 60
LIFE_S_MAX: Final = 3_600
CODE_MAX: Final = 64


class DeviceCode(msgspec.Struct, frozen=True):
    """A provider's answer to a program that asks (section 3.2): `user_code` is for the person."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    verification_uri_complete: str = ""
    interval: int = INTERVAL_S

    def check(self, where: str) -> None:
        """Raise `InvalidInput` for an answer that cannot be shown to a person, or used to poll."""
        fine = (
            self.user_code.isprintable()
            and 0 < len(self.user_code) <= CODE_MAX
            and is_guarded(self.verification_uri)
            and (not self.verification_uri_complete or is_guarded(self.verification_uri_complete))
            and self.device_code
            and self.expires_in > 0
        )
        if not fine:
            raise InvalidInput(
                "the provider's code, or the address to enter it at, is invalid",
                where=where,
                remedy="inform the operator of the provider",
            )


class TokenAnswer(msgspec.Struct, frozen=True):
    """The answer of a token endpoint: tokens, or an `error` (RFC 6749, section 5)."""

    access_token: str = ""
    refresh_token: str = ""
    error: str = ""
    error_description: str = ""


class Polls:
    """The times to poll for the person's consent, in seconds of a clock that never goes back."""

    def __init__(self, code: DeviceCode, now_s: float) -> None:
        self._interval_s = float(min(max(code.interval, 1), INTERVAL_S_MAX))
        self._until_s = now_s + min(code.expires_in, LIFE_S_MAX)

    def wait_s(self, error: str, now_s: float, where: str) -> float:
        """Return the wait after an answer with this `error` ("": there was no answer in time).

        Raises `NotAllowed` if the person declined, and `Expired` if they did not answer in time.
        """
        if error == "slow_down":
            self._interval_s = min(self._interval_s + SLOWER_S, INTERVAL_S_MAX)
        elif not error:
            self._interval_s = min(self._interval_s * 2, INTERVAL_S_MAX)
        elif error != "authorization_pending":
            raise refusal(error, "", where)
        if now_s + self._interval_s >= self._until_s:
            raise refusal("expired_token", "", where)
        return self._interval_s


def refusal(error: str, description: str, where: str) -> KalendsError:
    """Return the typed error for an `error` of a token endpoint, in words for the person who logs in."""
    if error == "access_denied":
        return NotAllowed(
            "you, or the provider, declined the login", where=where, remedy="kalends login"
        )
    if error == "expired_token":
        return Expired(
            "the code has expired before it was entered", where=where, remedy="kalends login"
        )
    if error == "invalid_grant":
        return NotAllowed("the login has ended", where=where, remedy="kalends login")
    if error in ("invalid_client", "unauthorized_client"):
        return NotAllowed(
            "the provider does not allow this client id to log in with a code",
            where=where,
            remedy="ask its operator for the client id of kalends, and give it as --client",
        )
    said = f": {description[:200]!a}" if description else ""
    return InvalidInput(
        f"the provider refused: {error[:64]!a}{said}",
        where=where,
        remedy="ask the operator of the provider",
    )
