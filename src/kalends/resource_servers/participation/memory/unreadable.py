"""Unreadable records of a site's store: set aside, not forgotten, and their room kept safe.

Which room a stake has that cannot be read, nobody knows; only when all of it ends. So nothing new is taken
that begins before then, on any resource, while everything else goes on: promises are kept and decided,
reservations are cancelled, questions answered. Nothing is said about the stake itself, and nothing new is
stored under its id. Of a reclaim that cannot be read not even the end is known: nothing new at all is
taken until its owner withdraws it by its key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kalends.core import limits
from kalends.core.times import format_time


class UnreadableStake(NamedTuple):
    """The stake of `rid`, all of which has ended at `ends_at` (UTC seconds)."""

    rid: str
    ends_at: int
    reason: str


class UnreadableReclaim(NamedTuple):
    key: str
    reason: str


class SetAside:
    """Records of its own store that one site cannot read."""

    def __init__(
        self,
        stakes: Iterable[UnreadableStake] = (),
        reclaims: Iterable[UnreadableReclaim] = (),
    ) -> None:
        self._stakes = {stake.rid: stake for stake in stakes}
        self._reclaims = {reclaim.key: reclaim for reclaim in reclaims}

    def __contains__(self, rid: str) -> bool:
        return rid in self._stakes

    @property
    def closed_until_s(self) -> int:
        """Nothing new may begin before; 0 when everything can be read."""
        if self._reclaims:
            return limits.TIME_S_MAX
        return max((stake.ends_at for stake in self._stakes.values()), default=0)

    def refusal(self, start_s: int) -> str:
        """Why nothing new may begin at `start_s`, or ""."""
        if start_s >= self.closed_until_s:
            return ""
        if self._reclaims:
            return "the site cannot read its owner's reclaims, and takes no new requests"
        until = format_time(self.closed_until_s, "UTC")
        return f"the site cannot read all its promises, and takes no new requests before {until}"

    def include(self, other: SetAside) -> None:
        """Add the records of `other`."""
        self._stakes |= other._stakes
        self._reclaims |= other._reclaims

    def withdraw(self, key: str) -> bool:
        """The owner withdraws the reclaim of `key`; False when it is none of these."""
        return self._reclaims.pop(key, None) is not None

    def told(self) -> list[str]:
        """Return the records set aside, one line each, with the remedy."""
        return [
            *(
                f"the claims of request {stake.rid} cannot be read: {stake.reason}; no new requests are taken"
                f" before {format_time(stake.ends_at, 'UTC')} (restore a backup, or wait until then)"
                for stake in self._stakes.values()
            ),
            *(
                f"the reclaim {reclaim.key!r} cannot be read: {reclaim.reason}; no new requests are taken"
                " (end it by `kalends admin reclaim --end`, then take the time back again)"
                for reclaim in self._reclaims.values()
            ),
        ]
