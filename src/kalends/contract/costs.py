"""Costs on the wire: who pays, at most how much, and what a site has promised to charge.

All amounts are parts of a credit (`kalends.core.money`) of the site that names them, and mean nothing at
another.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kalends.contract.fields import TimeS, Units, Want
from kalends.core import identifiers as ids
from kalends.core import limits
from kalends.core.money import COST_MAX, NO_CAP, PIECES_MAX, Parts, Rate

AccountName = Annotated[str, Meta(pattern=ids.whole(ids.ACCOUNT_PATTERN))]
ProjectName = Annotated[str, Meta(pattern=ids.whole(ids.perhaps(ids.PROJECT_PATTERN)))]
Percent = Annotated[int, Meta(ge=0, le=100)]

NOT_TOLD = -1

Refund = Annotated[int, Meta(ge=NOT_TOLD, le=COST_MAX)]
"""What was paid back; -1: that is not known."""


class Pays(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The payer of a request at one site: a `project` there; "": the user's own account.

    The site refuses what costs more than `at_most` there; -1: the user has given no limit. `reclaimed`: it
    moves a reservation of which an owner takes slots back, and what is given up costs no fee.
    """

    project: ProjectName = ""
    at_most: Annotated[int, Meta(ge=NO_CAP, le=1 << 53)] = NO_CAP
    reclaimed: bool = False


class PaidPiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`units` during ``[start, end)`` cost `rate` parts for a unit and a second."""

    start: TimeS
    end: TimeS
    units: Units
    rate: Rate

    @property
    def cost(self) -> int:
        return (self.end - self.start) * self.units * self.rate


class SlotCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The terms of one slot: its price piece by piece, and what a cancel of it costs (`CancelRule`)."""

    want: Want
    pieces: Annotated[tuple[PaidPiece, ...], Meta(max_length=2 * PIECES_MAX)]
    free_until_s: Annotated[int, Meta(ge=0, le=limits.DURATION_S_MAX)] = 0
    fee: Percent = 0
    unused: Percent = 0

    @property
    def charge(self) -> int:
        return sum(piece.cost for piece in self.pieces)


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The charge to `account` if the request is committed: the sum of its `slots`.

    `back` is paid back for the reservation that it replaces. `proof` is the site's own, which alone can
    check it: a site that has forgotten the promise believes no other cost.
    """

    account: AccountName
    slots: Annotated[tuple[SlotCost, ...], Meta(max_length=limits.CLAIMS_MAX)] = ()
    back: Parts = 0
    proof: Annotated[str, Meta(max_length=64)] = ""

    @property
    def charge(self) -> int:
        return sum(slot.charge for slot in self.slots)
