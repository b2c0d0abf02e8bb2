"""The time for which a session between servers is trusted after its peer has proved its identity.

A token is checked once, when the session is opened. From then on the session lives by the
server's own monotonic clock, and no wall clock of either side can end it. The far end sends a fresh
token with a frame every `PROVE_EVERY_S`, and each accepted one extends the session by `BELIEVED_S`. So three
tokens in a row may be refused or lost, for example while a clock is wrong, and no message is lost.
"""

from __future__ import annotations

from typing import Final

from kalends.core.errors import NotAllowed, NotAuthenticated
from kalends.serving.auth.callers import Caller
from kalends.serving.auth.claims import was_revoked

BELIEVED_S: Final = 300
"""Seconds after which a peer whose key was removed is shut out."""

PROVE_EVERY_S: Final = 60


class Belief:
    """The trust in one session; `caller` has the principal and scopes of the newest proof."""

    def __init__(self, caller: Caller, monotonic_ms: int) -> None:
        self.caller = caller
        self._until_ms = monotonic_ms + BELIEVED_S * 1000

    @property
    def runs_out(self) -> bool:
        """Whether proofs are needed; under open access they are not."""
        return bool(self.caller.expires_at)

    def renew(self, caller: Caller, monotonic_ms: int) -> None:
        """Extend trust to `BELIEVED_S` from now; raises `NotAllowed` for a proof of another peer.

        Also for a proof by another key, because the key that opened a session decided its rights.
        """
        if caller.principal.user != self.caller.principal.user:
            raise NotAllowed(
                f"this session is that of {self.caller.principal.user}, and the new token is that of"
                f" {caller.principal.user}",
                where="proof",
                remedy="open one session for each name",
            )
        if caller.key != self.caller.key:
            raise NotAllowed(
                "this session was opened with another key",
                where="proof",
                remedy="connect again with the new key",
            )
        self.caller = caller
        self._until_ms = monotonic_ms + BELIEVED_S * 1000

    def left_s(self, monotonic_ms: int) -> float | None:
        """Return the remaining seconds of trust, at least 0; None: for ever."""
        return max(self._until_ms - monotonic_ms, 0) / 1000 if self.runs_out else None

    def check(self, monotonic_ms: int) -> None:
        """Raises `NotAuthenticated` if the last proof is too old, or its token or key is revoked."""
        if self.caller.is_revoked():
            raise was_revoked()
        if self.left_s(monotonic_ms) == 0:
            raise NotAuthenticated(
                f"no proof of identity was accepted for {BELIEVED_S} s",
                where="proof",
                remedy="connect again with a new token",
            )
