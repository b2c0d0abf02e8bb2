"""The logical clock that orders requests: Lamport's, kept near wall time (a hybrid logical clock).

A stamp is ``(L, rid)``; smaller is older. ``L = max(L + 1, wall milliseconds)`` gives first come
first served as people expect it, while no safety rule depends on it (Lamport 1978; Kulkarni et al.
2014 for the hybrid). Received values are merged, but only up to `SKEW_MS_MAX` above our wall clock: a
broken or hostile peer cannot drive the clock ahead, and is not shut out either. A server whose own wall
clock was wrong recovers as soon as that is set. Its stamps then go back, which costs at most a place in a
wait queue.
"""

from __future__ import annotations

from typing import Final

SKEW_MS_MAX: Final = 15 * 60 * 1000
"""Maximum lead of an accepted peer's L over our wall clock: above any tolerable skew between hosts."""

ASTRAY_MS: Final = 2 * SKEW_MS_MAX
"""A lead of our own L over our wall clock that is possible only if the wall clock was wrong before."""


class LogicalClock:
    """A hybrid logical clock; one per process, not thread-safe.

    `persisted` is a bound that was stored durably before: the clock starts above it, so that stamps
    never go back over a restart.
    """

    def __init__(self, persisted: int = 0) -> None:
        self._value = persisted

    @classmethod
    def resumed(cls, persisted: int, wall_ms: int) -> LogicalClock:
        """Return the clock of a new start: above `persisted`, and close enough to wall time for peers.

        A bound is stored ahead of the clock, so each start begins ahead of the previous one. Without a
        limit, a server that is restarted again and again would leave all its peers behind. A stored bound
        beyond the limit is ignored.
        """
        if persisted > wall_ms + ASTRAY_MS:
            return cls(wall_ms)
        return cls(min(persisted, wall_ms + SKEW_MS_MAX * 4 // 5))

    @property
    def value(self) -> int:
        return self._value

    def tick(self, wall_ms: int) -> int:
        """Return a new stamp, greater than every stamp seen here before, unless the wall clock was wrong."""
        if self._value > wall_ms + ASTRAY_MS:
            self._value = wall_ms
        self._value = max(self._value + 1, wall_ms)
        return self._value

    def merge(self, seen: int, wall_ms: int) -> None:
        """Merge a peer's clock, up to the maximum lead."""
        self._value = max(self._value, min(seen, wall_ms + SKEW_MS_MAX))
