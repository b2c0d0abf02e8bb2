"""The replica of a broker that this process is: one at a time by a lock, alive by a lease.

Leases affect progress only: taking over from a replica that lives after all costs one attempt and
never safety, because the register decides.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kalends.core.errors import Conflict, Unavailable

LEASE_MS: Final = 10_000
BEAT_EVERY_S: Final = 3.0
"""Three beats to a lease: one may be late without anybody taking over."""

CLOCK_AHEAD: Final = 20_000
"""The stored bound of the logical clock runs this far ahead, so that stamps never go back."""


class ReplicaLock:
    """Held while this process is replica `name` on the store at `path`.

    Raises `Conflict` when another process is, and `Unavailable` when the lock cannot be made.
    """

    def __init__(self, path: Path, name: str) -> None:
        place = path.with_name(f"{path.name}.{name}.lock")
        try:
            self._descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Unavailable(
                f"the lock of this replica cannot be made: {error.strerror}",
                where=str(place),
                remedy="check that the store's directory exists and is writable",
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise Conflict(
                f"another process serves as {name} on this store",
                where="replica",
                remedy="give each replica of a broker its own `replica`, or stop the other process",
            ) from None

    def release(self) -> None:
        os.close(self._descriptor)


class Leases:
    """Which replicas live, by what this one sees: one that has beaten within `LEASE_MS`.

    Every replica counts its beats in the store, and every other looks there and measures on its own
    monotonic clock how long nothing new has come. So no wall clock, right or wrong, makes a replica seem
    dead or alive. It is judged as of the last look: one who was paused has not seen what others did
    meanwhile. A replica that was never seen before has just beaten.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}
        """For each owner its beats, and when the last of them was first seen (monotonic ms)."""
        self._looked_ms = 0

    def look(self, beats: Mapping[str, int], asked_ms: int, seen_ms: int) -> None:
        """Take note of the `beats` of all replicas; who has none there is gone.

        They were `asked_ms` for, and came later: so who seems silent was silent at least as long as that.
        """
        known = self._seen
        self._looked_ms = asked_ms
        self._seen = {
            owner: known[owner] if known.get(owner, (0, 0))[0] == count else (count, seen_ms)
            for owner, count in beats.items()
        }

    def alive(self, owner: str) -> bool:
        return owner in self.all_alive()

    def all_alive(self) -> tuple[str, ...]:
        """Every replica that lives, in no order that means anything."""
        return tuple(
            owner
            for owner, (_, since_ms) in self._seen.items()
            if self._looked_ms - since_ms < LEASE_MS
        )
