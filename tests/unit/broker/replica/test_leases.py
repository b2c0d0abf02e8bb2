"""One process is one replica, and a lease says for how long it lives."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        leases.look({ONE: now_ms + 1, OTHER: 1}, now_ms)
        assert leases.alive(ONE)
        assert leases.alive(OTHER) == (now_ms < LEASE_MS)
    assert leases.all_alive() == (ONE,)


def test_an_owner_that_is_silent_for_a_lease_is_dead_until_it_beats_again() -> None:
    leases = Leases()
    leases.look({ONE: 7}, 1_000)
    leases.look({ONE: 7}, 1_000 + LEASE_MS)
    assert not leases.alive(ONE)
    leases.look({ONE: 8}, 2_000 + LEASE_MS)
    assert leases.alive(ONE)
    leases.look({}, 2_001 + LEASE_MS)
    assert not leases.alive(ONE)


def test_who_was_paused_buries_nobody_that_went_on_meanwhile() -> None:
    leases = Leases()
    leases.look({ONE: 7}, 1_000)
    leases.look({ONE: 90}, 1_000 + 100 * LEASE_MS)
    assert leases.alive(ONE)
