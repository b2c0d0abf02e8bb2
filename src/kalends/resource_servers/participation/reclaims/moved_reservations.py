"""Present places of reservations that were moved by an owner's reclaim."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.reclaims.reclaim_choice import claims_to_go, place_of
from kalends.resource_servers.participation.reclaims.reclaims import Reclaimed, ReclaimedSlot


@dataclass(eq=False)
class MovedReservations:
    """What is known of them until it is stored with the reclaim, by the request that had to go."""

    book: ClaimTable
    _went: dict[str, ReclaimedSlot] = field(default_factory=dict)

    def note(self, stake: Stake, reclaims: Collection[Reclaimed]) -> Iterator[str]:
        """Note where `stake` is, which takes the place of another; yield the reclaims that asked for it."""
        claims = self._moved(stake)
        for reclaimed in reclaims:
            if stake.replaces in reclaimed.told and stake.replaces not in reclaimed.went:
                here = [each for each in claims if each.resource == reclaimed.resource]
                self._went[stake.replaces] = place_of(stake, here or claims)
                yield reclaimed.key

    def catch_up(self, reclaims: Collection[Reclaimed]) -> None:
        """Note where those are that were moved just before the site stopped, and not noted then."""
        missing = {
            rid
            for reclaimed in reclaims
            for rid in reclaimed.told
            if rid not in reclaimed.went
            and (stake := self.book.stakes.peek(rid)) is not None
            and stake.has("replaced")
        }
        for stake in self.book.stakes.every() if missing else ():
            if stake.replaces in missing and stake.has("locked"):
                self._went[stake.replaces] = place_of(stake, self._moved(stake))

    def _moved(self, stake: Stake) -> list[Claim]:
        """Return the slots of `stake` that are not where they were: what had begun has stayed."""
        old = self.book.stakes.peek(stake.replaces)
        before = {(e.resource, e.start, e.end) for e in old.claims} if old is not None else set()
        locked = stake.claims_in("locked")
        return [e for e in locked if (e.resource, e.start, e.end) not in before] or locked

    def noted(self, reclaimed: Reclaimed, asked: Sequence[Stake]) -> Reclaimed:
        """Return the reclaim with who is `asked` now, and where those are who have gone since."""
        new = [stake for stake in asked if stake.rid not in reclaimed.told]
        went = {
            rid: self._went[rid]
            for rid in reclaimed.told
            if rid in self._went and rid not in reclaimed.went
        }
        if not (new or went):
            return reclaimed
        had = {stake.rid: place_of(stake, claims_to_go(stake, reclaimed)) for stake in new}
        return structs.replace(
            reclaimed,
            told=(*reclaimed.told, *had),
            had=reclaimed.had | had,
            went=reclaimed.went | went,
        )
