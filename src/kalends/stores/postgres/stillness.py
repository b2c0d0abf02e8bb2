"""Owners whose beats stand still, as this process sees them, by its own monotonic clock.

No wall clock takes part, nor what others say of the time. Beats only rise: an owner with the same number of
them at two looks has not beaten in between, however far apart the looks are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

from kalends.stores.postgres import fence
from kalends.stores.postgres.session import WriterSession

LOOK_EVERY_S: Final = 0.2


class StillOwners:
    """Finds owners that have not beaten for `still_s`."""

    def __init__(self, still_s: float) -> None:
        self._still_s = still_s
        self._seen: dict[str, tuple[int, float]] = {}
        """For each owner its beats, and when the last of them was first seen."""

    def look(self, beats: Mapping[str, int], now_s: float) -> dict[str, int]:
        """Take note of all owners' `beats`, and return those that stand still."""
        known = self._seen
        self._seen = {
            owner: known[owner] if known.get(owner, (-1, 0.0))[0] == count else (count, now_s)
            for owner, count in beats.items()
        }
        return {
            owner: count
            for owner, (count, since_s) in self._seen.items()
            if now_s - since_s >= self._still_s
        }


def present(session: WriterSession, name: str) -> dict[str, int]:
    """Return the owners ``name:...`` that are connected, with their beats."""
    return dict(session.message([fence.present(name)])[0])


async def is_silent(session: WriterSession, name: str, still_s: float) -> bool:
    """Return True once no owner ``name:...`` lives, and False as soon as one beats.

    An owner lives as long as it is connected, and has beaten within `still_s`. Sessions of killed processes
    are gone in a moment, and so are those that this process has closed. Raises `psycopg.Error`.
    """
    still_owners = StillOwners(still_s)
    first: dict[str, int] = {}
    while there := await asyncio.to_thread(present, session, name):
        if any(first.get(owner, count) != count for owner, count in there.items()):
            return False
        first = {**there, **first}
        if len(still_owners.look(there, time.monotonic())) == len(there):
            break
        await asyncio.sleep(LOOK_EVERY_S)
    return True


def others_standing_still(
    session: WriterSession, owner: str, still_s: float
) -> Callable[[], Mapping[str, int]]:
    """Return what `kalends.stores.postgres.batches.Batches` of `owner` asks while it waits for a lock.

    It looks on the session of `owner`, which has no transaction then.
    """
    still_owners = StillOwners(still_s)

    def look() -> Mapping[str, int]:
        rows = session.message([fence.BEATS])[0]
        beats = {other: count for other, count in rows if other != owner}
        return still_owners.look(beats, time.monotonic())

    return look
