"""The logical clock that orders requests: Lamport's, kept near wall time (a hybrid logical clock).

A stamp is ``(L, rid)``; smaller is older. ``L = max(L + 1, wall milliseconds)`` gives first come
first served as people expect it, while no safety rule depends on it (Lamport 1978; Kulkarni et al.
2014 for the hybrid). Received values are merged; one far ahead of our own wall clock is refused, so
that a broken or hostile peer cannot poison the clock.
"""

from __future__ import annotations

from kalends.core.errors import InvalidInput

SKEW_MS_MAX = 15 * 60 * 1000
"""A peer's L may be this far ahead of our wall clock: more than any tolerable skew between hosts."""

COUNT_MAX = 1_000_000
"""A peer's L may be this far ahead of our own L even when our wall clock is far behind."""


class LogicalClock:
    """A hybrid logical clock; one per process, not thread-safe.

    `persisted` is a bound that was stored durably before: the clock starts above it, so that stamps
    never go back over a restart. `reserve` tells when a new bound must be stored.
    """

    def __init__(self, persisted: int = 0) -> None:
        self._value = persisted

    @classmethod
    def resumed(cls, persisted: int, wall_ms: int) -> LogicalClock:
        """The clock of a new start: above `persisted`, but near enough to wall time to be accepted.

        A bound is stored ahead of the clock, so each start begins ahead of the one before. Without an
        end to that, a server that is restarted again and again would run away from all its peers,
        which then refuse it.
        """
        return cls(min(persisted, wall_ms + SKEW_MS_MAX * 4 // 5))

    @property
    def value(self) -> int:
        return self._value

    def tick(self, wall_ms: int) -> int:
        """A new stamp, greater than every stamp seen here before."""
        self._value = max(self._value + 1, wall_ms)
        return self._value

    def merge(self, seen: int, wall_ms: int) -> None:
        """Take note of a peer's clock.

        Raises `InvalidInput`, and leaves the clock as it was, when `seen` lies too far ahead.
        """
        if seen <= self._value:
            return
        if seen > wall_ms + SKEW_MS_MAX and seen > self._value + COUNT_MAX:
            raise InvalidInput(
                f"logical clock {seen} is too far ahead of ours ({self._value})",
                where="lc",
                remedy="set the clocks of both hosts (NTP)",
            )
        self._value = seen
