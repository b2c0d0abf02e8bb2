"""Retries of failed calls and the waits between them. Pure: time and randomness are arguments.

Exponential back-off with full jitter: the n-th wait is drawn evenly from 0 up to ``base_s * 2**n``,
at most `wait_s_max`, so that clients that failed together do not come back together. Retrying is
safe because every call is repeatable: a booking carries its key, and other calls have the same effect twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kalends.core.errors import (
    KalendsError,
    LimitExceeded,
    NotAuthenticated,
    OutcomeUnknown,
    Unavailable,
)

CLOSED: Final = "the server closed the connection"
"""Detail of a closed connection without an answer, as from a server that expects TLS."""


class ConnectionFailed(Exception):
    """A call without an answer; `sent` is whether the server may have received it.

    `mend` is the remedy for a failure that every retry would meet again; "" if it may pass.
    """

    def __init__(self, detail: str, *, sent: bool, mend: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.sent = sent
        self.mend = mend


SAYS_NOTHING_OF_EARLIER_SENDS: Final = (
    ConnectionFailed,
    Unavailable,
    LimitExceeded,
    NotAuthenticated,
    OutcomeUnknown,
)
"""Ends of a call after which an earlier, broken send may still have been carried out."""


@dataclass(frozen=True)
class Backoff:
    """The patience of a client: at most `tries_max` sends, with growing waits between them."""

    tries_max: int = 6
    base_s: float = 0.1
    wait_s_max: float = 5.0

    def wait_s(self, tries: int, fraction: float, asked_s: float = 0.0) -> float:
        """Return the wait after `tries` failed sends, for a random `fraction` in [0, 1).

        Never shorter than the server asked for (`asked_s`).
        """
        grown_s = self.base_s * float(1 << min(tries - 1, 32))
        return max(asked_s, fraction * min(self.wait_s_max, grown_s))


def is_passing(error: Exception) -> bool:
    """Return whether a retry may help: there was no answer, or the answer was "not now"."""
    if isinstance(error, LimitExceeded):
        return error.retry_after_s > 0
    if isinstance(error, ConnectionFailed):
        return not error.mend
    return isinstance(error, Unavailable)


def asked_wait_s(error: Exception) -> float:
    """Return the seconds that the server asked us to wait."""
    return error.retry_after_s if isinstance(error, KalendsError) else 0.0
