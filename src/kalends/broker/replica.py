"""Which replica of a broker this process is: one at a time by a lock, alive by a lease.

Leases affect progress only: taking over from a replica that lives after all costs one attempt and
never safety, because the register decides. All replicas of a store share a host, and so its clock.
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
                remedy="see that the store's directory exists and may be written to",
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
    """The leases of all replicas as they were when they were last looked at."""

    def __init__(self) -> None:
        self._until_ms: Mapping[str, int] = {}

    def look(self, until_ms: Mapping[str, int]) -> None:
        self._until_ms = until_ms

    def alive(self, owner: str, wall_ms: int) -> bool:
        return self._until_ms.get(owner, 0) > wall_ms
