"""Stakes of a site, made again from the rows of its journal: one after the other, from a file or a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

import msgspec

from kalends.core.conversion import UNREADABLE
from kalends.resource_servers.participation.claims.claim_sets import Stake, decode_stake
from kalends.resource_servers.participation.claims.claims_at_rest import Restored
from kalends.resource_servers.participation.memory.unreadable import UnreadableStake

T = TypeVar("T")

LOST: Final = "its row in the journal is missing"


class StandingRow(NamedTuple):
    """The fact that stands of a request: its bytes, or None where the journal has lost them.

    `forgotten`: all sites have locked it.
    """

    rid: str
    ends_at: int
    forgotten: int
    body: bytes | None


class StandingStakes(NamedTuple):
    stakes: Restored
    forgotten: list[str]
    unreadable: list[UnreadableStake]


def standing_of(rows: Iterable[StandingRow | tuple[str, int, int, bytes | None]]) -> StandingStakes:
    """Sort out what `rows` hold, one for each request, oldest fact first."""
    stakes, forgotten, unreadable = Restored(), [], []
    take = stakes.take
    for rid, ends_at, told, body in rows:
        try:
            if body is None:
                raise msgspec.DecodeError(LOST)
            stake = stake_of(rid, body)
            take(stake, body)
        except UNREADABLE as error:
            unreadable.append(UnreadableStake(rid, ends_at, str(error)))
            continue
        if told:
            forgotten.append(stake.rid)
    return StandingStakes(stakes, forgotten, unreadable)


class FollowedStakes:
    """The stakes of a journal that is followed, and so are ready whenever a life begins with them.

    Facts come in order, each of them or only the last one of each request. However often somebody looks for
    new ones, in the end it is the same as read at once.
    """

    def __init__(self) -> None:
        self.upto = 0
        """The number of the last fact."""
        self.numbers = 0
        """The sum of the numbers of all facts that stand."""
        self._stakes = Restored()
        self._standing: dict[str, int] = {}
        self._unreadable: dict[str, UnreadableStake] = {}

    def __len__(self) -> int:
        """Return how many requests have a fact that stands."""
        return len(self._standing)

    def take(self, number: int, rid: str, ends_at: int | None, body: bytes) -> None:
        """The fact `number` of `rid` is `body`, and it stands; without `ends_at` the request is dropped."""
        self.upto = number
        self._drop(rid)
        if ends_at is not None:
            self._standing[rid] = number
            self.numbers += number
            try:
                self._stakes.take(stake_of(rid, body), body)
            except UNREADABLE as error:
                self._unreadable[rid] = UnreadableStake(rid, ends_at, str(error))

    def lose(self, rid: str, ends_at: int) -> None:
        """The fact of `rid` that stands is not in the journal."""
        self._drop(rid)
        self._unreadable[rid] = UnreadableStake(rid, ends_at, LOST)

    def standing(self, forgotten: Iterable[str]) -> StandingStakes:
        """Return all of it, oldest fact first; nothing may be taken any more.

        All sites have locked those that are `forgotten`.
        """
        readable = [rid for rid in forgotten if rid not in self._unreadable]
        return StandingStakes(self._stakes, readable, [*self._unreadable.values()])

    def _drop(self, rid: str) -> None:
        self.numbers -= self._standing.pop(rid, 0)
        if self._unreadable.pop(rid, None) is None:
            self._stakes.drop(rid)


def stake_of(rid: str, body: bytes) -> Stake:
    """The stake of `rid` that `body` holds; raises `msgspec.DecodeError` when it does not."""
    stake = decode_stake(body)
    if stake.rid != rid:
        raise msgspec.DecodeError(f"it is the claim set of {stake.rid}")
    return stake


def readable(bodies: Iterable[bytes], decode: Callable[[bytes], T]) -> list[T]:
    """Return what can be read of `bodies`, in their order."""
    read = []
    for body in bodies:
        with contextlib.suppress(*UNREADABLE):
            read.append(decode(body))
    return read
