"""One process is one replica, and a lease says for how long it lives."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kalends.broker.replica.leases import LEASE_MS, Leases, ReplicaLock
from kalends.core.errors import Conflict, Unavailable


def test_a_replica_is_locked_until_it_is_released(tmp_path: Path) -> None:
    store = tmp_path / "npaci.sqlite"
    first = ReplicaLock(store, "npaci-1")
    other = ReplicaLock(store, "npaci-2")
    with pytest.raises(Conflict) as refused:
        ReplicaLock(store, "npaci-1")
    assert "npaci-1" in refused.value.detail
    first.release()
    ReplicaLock(store, "npaci-1").release()
    other.release()


def test_a_lock_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as refused:
        ReplicaLock(tmp_path / "missing" / "npaci.sqlite", "npaci-1")
    assert "missing" in refused.value.where


ONE, OTHER = "npaci-1:1", "npaci-2:4"


def test_an_owner_lives_as_long_as_its_beats_are_seen_to_go_on() -> None:
    leases = Leases()
    assert not leases.alive(ONE)
    for now_ms in range(0, 10 * LEASE_MS, LEASE_MS - 1):
        leases.look({ONE: now_ms + 1, OTHER: 1}, now_ms, now_ms)
        assert leases.alive(ONE)
        assert leases.alive(OTHER) == (now_ms < LEASE_MS)
    assert leases.all_alive() == (ONE,)


def test_an_owner_that_is_silent_for_a_lease_is_dead_until_it_beats_again() -> None:
    leases = Leases()
    leases.look({ONE: 7}, 1_000, 1_000)
    leases.look({ONE: 7}, 1_000 + LEASE_MS, 1_000 + LEASE_MS)
    assert not leases.alive(ONE)
    leases.look({ONE: 8}, 2_000 + LEASE_MS, 2_000 + LEASE_MS)
    assert leases.alive(ONE)
    leases.look({}, 2_001 + LEASE_MS, 2_001 + LEASE_MS)
    assert not leases.alive(ONE)


def test_who_was_paused_buries_nobody_that_went_on_meanwhile() -> None:
    leases = Leases()
    leases.look({ONE: 7}, 1_000, 1_000)
    leases.look({ONE: 90}, 1_000 + 100 * LEASE_MS, 1_000 + 100 * LEASE_MS)
    assert leases.alive(ONE)


@given(
    beats=st.lists(st.integers(1, 2 * LEASE_MS), max_size=20),
    looks=st.lists(st.tuples(*[st.integers(0, LEASE_MS)] * 3), min_size=1, max_size=20),
)
def test_however_late_it_is_heard_no_owner_is_dead_that_was_never_silent_for_a_lease(
    beats: list[int], looks: list[tuple[int, int, int]]
) -> None:
    """Each look is asked for some time after the one before, made some time later, and heard later yet."""
    beaten_ms = [sum(beats[: number + 1]) for number in range(len(beats))]
    leases, now_ms = Leases(), 0
    for pause_ms, until_seen_ms, until_heard_ms in looks:
        asked_ms = now_ms + pause_ms
        seen_ms = asked_ms + until_seen_ms
        now_ms = seen_ms + until_heard_ms
        count = sum(each <= seen_ms for each in beaten_ms)
        leases.look({ONE: 1 + count}, asked_ms, now_ms)
        heard_ms = max((each for each in beaten_ms if each <= seen_ms), default=0)
        if not leases.alive(ONE):
            assert asked_ms - heard_ms >= LEASE_MS
