"""The logical clock over restarts and beside clocks that are wrong: it stays near its wall clock."""

from __future__ import annotations

from kalends.broker.replica.leases import CLOCK_AHEAD
from kalends.core.clock import ASTRAY_MS, SKEW_MS_MAX, LogicalClock

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


YEAR_MS = 366 * 86_400_000


def test_a_peer_far_ahead_is_followed_for_minutes_only() -> None:
    clock = LogicalClock(WALL_MS)
    clock.merge(WALL_MS + YEAR_MS, WALL_MS)
    assert clock.tick(WALL_MS) == WALL_MS + SKEW_MS_MAX + 1
    assert clock.tick(WALL_MS + YEAR_MS) == WALL_MS + YEAR_MS


def test_a_clock_that_was_led_astray_by_its_wall_clock_comes_back_with_it() -> None:
    clock = LogicalClock(WALL_MS)
    assert clock.tick(WALL_MS + YEAR_MS) == WALL_MS + YEAR_MS
    assert clock.tick(WALL_MS) == WALL_MS + 1
    assert clock.tick(WALL_MS) == WALL_MS + 2


def test_a_restart_after_the_wall_clock_was_set_back_begins_at_the_right_time() -> None:
    assert LogicalClock.resumed(WALL_MS + ASTRAY_MS + 1, WALL_MS).value == WALL_MS
