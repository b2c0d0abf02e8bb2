"""The limits of one application, each with its reason, and the token bucket of every caller."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from kalends.core import limits
from kalends.core.errors import LimitExceeded

_RETRY_S_MIN: Final = 0.001
"""Minimum delay, because rounding must never make a caller come back at once."""


BYTES_OF_A_CALL: Final = 4_096
"""A body, or a frame of a session, counts as one more call for each multiple of this size in bytes."""


class ServingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one application. The defaults suit a site or broker that others rely on."""

    body_bytes_max: int = limits.BODY_BYTES_MAX
    body_read_s_max: float = 15.0
    """Time for a body of the largest size over a slow connection; slower ones would hold sockets."""
    answer_s_max: float = 150.0
    """Longer than the longest wait that a body may ask for (two minutes)."""
    calls_per_s: float = 2_000.0
    """Steady rate for each principal, as much as a server can book; a runaway loop is slowed down."""
    calls_burst: int = 4_000
    principals_tracked_max: int = 10_000
    """Buckets kept; the least recently used is dropped, and full again later."""
    sessions_max: int = 1_000
    calls_in_flight_max: int = limits.FRAME_MESSAGES_MAX
    """Calls of one session without a reply yet."""
    frame_bytes_max: int = limits.FRAME_BYTES_MAX
    replies_waiting_bytes_max: int = 32 * 1024 * 1024
    """Replies that a session's client has not read yet; beyond it the session is closed."""
    send_s_max: float = 30.0
    """A client that reads no bytes for this time counts as disconnected."""
    heartbeat_s: float = 20.0
    """Interval of pings on a quiet session, which find dead peers and keep proxies from closing it."""
    drain_s_max: float = 10.0
    """Seconds for calls in flight to end at a stop."""


class RateLimiter:
    """A token bucket per key: `burst` calls at once, then `per_s` a second. Not thread-safe.

    At most `tracked_max` buckets are kept, the least recently used leaving first. `now_s` is
    monotonic.
    """

    def __init__(self, *, per_s: float, burst: int, tracked_max: int) -> None:
        self._per_s = per_s
        self._burst = float(burst)
        self._tracked_max = tracked_max
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now_s: float) -> None:
        """Count one call of `key`; raises `LimitExceeded`, counting nothing, when its bucket is empty."""
        self._fill(key, self.check(key, now_s) - 1.0, now_s)

    def check(self, key: str, now_s: float) -> float:
        """Return the calls that `key` has left; raises `LimitExceeded` if there is none."""
        level = self._level(key, now_s)
        if level < 1.0:
            raise LimitExceeded(
                f"more than {self._per_s:g} calls a second, after {self._burst:g} at once",
                where="caller",
                remedy="call more slowly, or put several calls into one session",
                retry_after_s=max((1.0 - level) / self._per_s, _RETRY_S_MIN),
            )
        return level

    def fine(self, key: str, calls: int, now_s: float | None = None) -> None:
        """Count `calls` more for `key`; without `now_s` for its last call, which was faulty.

        Its bucket may be negative afterwards, by a burst at most, and must fill up first.
        """
        if now_s is not None:
            self._fill(key, max(self._level(key, now_s) - calls, -self._burst), now_s)
        elif (bucket := self._buckets.get(key)) is not None:
            self._buckets[key] = (max(bucket[0] - calls, -self._burst), bucket[1])

    def _level(self, key: str, now_s: float) -> float:
        bucket = self._buckets.get(key)
        if bucket is None:
            return self._burst
        level, filled_at_s = bucket
        return min(self._burst, level + (now_s - filled_at_s) * self._per_s)

    def _fill(self, key: str, level: float, now_s: float) -> None:
        buckets = self._buckets
        if key not in buckets and len(buckets) >= self._tracked_max:
            buckets.popitem(last=False)
        buckets[key] = (level, now_s)
        buckets.move_to_end(key)

    def __len__(self) -> int:
        return len(self._buckets)
