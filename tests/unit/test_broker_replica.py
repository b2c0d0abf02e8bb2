"""One process is one replica, and a lease says for how long it lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from kalends.broker.replica import Leases, ReplicaLock
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


def test_an_owner_lives_as_long_as_its_lease() -> None:
    leases = Leases()
    leases.look({"npaci-1:1": 10_000})
    assert leases.alive("npaci-1:1", 9_999)
    assert not leases.alive("npaci-1:1", 10_000)
    assert not leases.alive("npaci-2:1", 0)
