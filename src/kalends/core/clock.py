"""The logical clock that orders requests: Lamport's, kept near wall time (a hybrid logical clock).

A stamp is ``(L, rid)``; smaller is older. ``L = max(L + 1, wall milliseconds)`` gives first come
first served as people expect it, while no safety rule depends on it (Lamport 1978; Kulkarni et al.
2014 for the hybrid). Received values are merged, but a value far ahead of our own wall clock is
followed only so far: a broken or hostile peer cannot lead the clock astray, and is not shut out for it
either. Who was astray by a wall clock of its own comes back as soon as that is set: stamps go back
then, which costs at most a place in a wait queue.
"""

from __future__ import annotations

from typing import Final

SKEW_MS_MAX: Final = 15 * 60 * 1000
"""A peer's L is followed so far ahead of our wall clock: more than any tolerable skew between hosts."""

ASTRAY_MS: Final = 2 * SKEW_MS_MAX
"""Our own L cannot be so far ahead of our wall clock, unless that was wrong before."""


class LogicalClock:
    """A hybrid logical clock; one per process, not thread-safe.

    `persisted` is a bound that was stored durably before: the clock starts above it, so that stamps
    never go back over a restart.
    """

    def __init__(self, persisted: int = 0) -> None:
        self._value = persisted

    @classmethod
    def resumed(cls, persisted: int, wall_ms: int) -> LogicalClock:
        """Return the clock of a new start: above `persisted`, but near enough to wall time to be followed.

        A bound is stored ahead of the clock, so each start begins ahead of the one before. Without an
        end to that, a server that is restarted again and again would run away from all its peers. A
        bound that is astray is no bound.
        """
        if persisted > wall_ms + ASTRAY_MS:
            return cls(wall_ms)
        return cls(min(persisted, wall_ms + SKEW_MS_MAX * 4 // 5))

    @property
    def value(self) -> int:
        return self._value

    def tick(self, wall_ms: int) -> int:
        """Return a new stamp, greater than every stamp seen here before, unless the clock was astray."""
        if self._value > wall_ms + ASTRAY_MS:
            self._value = wall_ms
        self._value = max(self._value + 1, wall_ms)
        return self._value

    def merge(self, seen: int, wall_ms: int) -> None:
        """Take note of a peer's clock, as far as it is not astray."""
        self._value = max(self._value, min(seen, wall_ms + SKEW_MS_MAX))
