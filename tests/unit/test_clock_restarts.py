"""The logical clock over restarts: it never goes back, and never runs away from its peers."""

from __future__ import annotations

from kalends.broker.replica import CLOCK_AHEAD
from kalends.core.clock import SKEW_MS_MAX, LogicalClock

WALL_MS = 1_800_000_000_000


def test_a_server_that_is_restarted_again_and_again_is_still_accepted_by_its_peers() -> None:
    peer = LogicalClock(WALL_MS)
    bound = 0
    for restart in range(1_000):
        wall_ms = WALL_MS + restart * 1_000
        clock = LogicalClock.resumed(bound, wall_ms)
        stamp = clock.tick(wall_ms)
        bound = max(bound, stamp + CLOCK_AHEAD)
        assert stamp < wall_ms + SKEW_MS_MAX
        LogicalClock(wall_ms).merge(stamp, wall_ms)
        peer.merge(stamp, wall_ms)


def test_a_restart_goes_on_above_what_was_stored() -> None:
    assert LogicalClock.resumed(WALL_MS + 5_000, WALL_MS).tick(WALL_MS) == WALL_MS + 5_001


def test_stamps_never_go_back_over_quick_restarts() -> None:
    bound = last = 0
    for restart in range(1_000):
        wall_ms = WALL_MS + restart * 1_000
        clock = LogicalClock.resumed(bound, wall_ms)
        for _ in range(500):
            stamp = clock.tick(wall_ms)
            assert stamp > last
            last = stamp
        bound = max(bound, last + CLOCK_AHEAD)
