"""Choice of the reservations that a reclaim moves, and of those that may stay.

Of what an owner takes back whole, all are to go. Of a part, as few as have what lacks: rather those with many
units, and of equals those that begin last, for they have most time to move. Who has been asked already goes
before anybody else is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kalends.calendars.covers import Cover, Lack, fewest
from kalends.core import limits
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.reclaims.owner_room import OwnerRoom
from kalends.resource_servers.participation.reclaims.reclaims import Reclaimed, ReclaimedSlot

WORK_MAX: Final = 200_000
"""Bookings looked at by one choice, before good ones are good enough: tens of milliseconds."""


class InTheWay(NamedTuple):
    """Reservations in what was reclaimed: those `going`, those `spared` by the notice, and those `beside`.

    `exact`: no fewer could go.
    """

    going: tuple[Stake, ...]
    spared: tuple[Stake, ...]
    beside: tuple[Stake, ...] = ()
    exact: bool = True


@dataclass(frozen=True)
class ReclaimChoice:
    """Reads the book, and changes nothing."""

    book: ClaimTable
    room: OwnerRoom

    def in_the_way(self, reclaimed: Reclaimed) -> InTheWay:
        there = list(self._standing_there(reclaimed))
        spared = tuple(stake for stake in there if not claims_to_go(stake, reclaimed))
        free_to_go = [stake for stake in there if claims_to_go(stake, reclaimed)]
        if not reclaimed.units:
            return InTheWay(tuple(free_to_go), spared)
        free_to_go.sort(key=lambda stake: _begin(stake, reclaimed), reverse=True)
        told = {number for number, stake in enumerate(free_to_go) if stake.rid in reclaimed.told}
        cover = _fewest_beyond(told, self._lacks(reclaimed, free_to_go))
        going = [stake for number, stake in enumerate(free_to_go) if number in cover.places]
        beside = [stake for number, stake in enumerate(free_to_go) if number not in cover.places]
        return InTheWay(tuple(going), spared, tuple(beside), cover.exact)

    def _lacks(self, reclaimed: Reclaimed, free_to_go: Sequence[Stake]) -> list[Lack]:
        holders = [
            (number, claim)
            for number, stake in enumerate(free_to_go)
            for claim in claims_to_go(stake, reclaimed)
        ]
        return self.room.lacks(reclaimed.key, holders)

    def _standing_there(self, reclaimed: Reclaimed) -> Iterator[Stake]:
        """Every reservation that has a locked slot in what was reclaimed, once, by start."""
        calendar = self.book.calendars[reclaimed.resource].calendar
        rids = dict.fromkeys(
            booking.reservation
            for booking in calendar.listing(reclaimed.start, reclaimed.end, limits.LISTING_MAX)
            if booking.state == "locked"
            and booking.reservation in self.book.stakes
            and reclaimed.only in ("", booking.reservation)
        )
        for rid in rids:  # What a batch system has not given up yet is booked, too, and nobody's.
            stake = self.book.stakes[rid]
            if claims_there(stake, reclaimed):
                yield stake


def claims_there(stake: Stake, reclaimed: Reclaimed) -> list[Claim]:
    """Return what `stake` has locked of what was reclaimed."""
    return [
        claim
        for claim in stake.claims_in("locked")
        if claim.resource == reclaimed.resource and reclaimed.overlaps(claim.start, claim.end)
    ]


def claims_to_go(stake: Stake, reclaimed: Reclaimed) -> list[Claim]:
    """Return what is to go of that: each slot that does not begin too soon to be moved.

    If it is to be cancelled, also what has begun; if it is to be kept, nothing.
    """
    if reclaimed.standing == "keep":
        return []
    there = claims_there(stake, reclaimed)
    if reclaimed.standing == "cancel":
        return there
    return [claim for claim in there if claim.start > reclaimed.spared_until]


def place_of(stake: Stake, claims: Sequence[Claim]) -> ReclaimedSlot:
    """Return what `claims` of a reservation are together."""
    return ReclaimedSlot(
        claims[0].resource,
        min(claim.start for claim in claims),
        max(claim.end for claim in claims),
        max(claim.units for claim in claims),
        stake.principal.user,
    )


def _fewest_beyond(told: Collection[int], lacks: Sequence[Lack]) -> Cover:
    """Return the fewest of those that were `told`, or, where they are not enough, besides them."""
    rest, known = [], []
    for lack in lacks:
        mine = {number: has for number, has in lack.held_by.items() if number in told}
        left = lack.units - sum(mine.values())
        if left > 0:
            others = {each: has for each, has in lack.held_by.items() if each not in told}
            rest.append(Lack(left, others))
        else:
            known.append(Lack(lack.units, mine))
    wanted = rest or known
    tries_max = WORK_MAX // max(1, sum(len(lack.held_by) for lack in wanted))
    found = fewest(wanted, tries_max=tries_max)
    if not rest:
        return found
    staying = {number for lack in lacks for number in lack.held_by if number in told}
    return Cover(found.places.union(staying), found.exact)


def _begin(stake: Stake, reclaimed: Reclaimed) -> int:
    return min(claim.start for claim in claims_to_go(stake, reclaimed))
