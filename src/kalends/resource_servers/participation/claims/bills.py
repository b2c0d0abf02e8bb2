"""The bill of a stake: what it costs, and which lots of credit pay.

A bill is made when slots are held, and its terms stand from then on. What it reserves is not stored anywhere
else: it is the sum over the bills of what is promised.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kalends.contract.costs import SlotCost
from kalends.contract.fields import Want
from kalends.core.money import NO_CAP


class Share(msgspec.Struct, frozen=True, array_like=True):
    """`amount` parts of a `lot` of `account`; the lot "" is the account's debt."""

    account: str
    lot: str
    amount: int


class Bill(msgspec.Struct, frozen=True, omit_defaults=True):
    """`account` pays for `slots`, at most `at_most` more than what it is paid back (-1: no limit).

    `considered`: a person thinks about what is held. `reclaimed`: what it replaces gives way to an owner. The
    rest is fixed with the promise. Its `shares` are charged when it is locked. `back` is paid back then for
    what it replaces, as `returns`.
    """

    account: str
    slots: tuple[SlotCost, ...]
    at_most: int = NO_CAP
    considered: bool = False
    reclaimed: bool = False
    back: int = 0
    shares: tuple[Share, ...] = ()
    returns: tuple[Share, ...] = ()

    @property
    def charge(self) -> int:
        return sum(slot.charge for slot in self.slots)

    def slots_of(self, wants: Iterable[Want]) -> tuple[SlotCost, ...]:
        """Return the terms of those of `wants` that have some, each once."""
        left = [*self.slots]
        found = []
        for want in wants:
            slot = next((each for each in left if each.want == want), None)
            if slot is not None:
                left.remove(slot)
                found.append(slot)
        return tuple(found)
