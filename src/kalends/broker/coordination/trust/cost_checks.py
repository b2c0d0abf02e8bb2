"""Checks of the costs in a site's promise: its slots, its payer, and the user's limit.

A site sets its prices as it likes. It charges for nothing else, and nobody pays for it what was not allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kalends.contract.costs import Cost, PaidPiece, SlotCost
from kalends.contract.fields import Want
from kalends.core.identifiers import machine_of
from kalends.core.money import COST_MAX, NO_CAP, PIECES_MAX


def complaint_about_cost(cost: Cost, wants: Sequence[Want], *, changes: bool) -> str:
    """Return what is wrong with `cost` for `wants`; "" for nothing. Only what `changes` is paid back."""
    left = Counter(want for want in wants if not machine_of(want.resource))
    for slot in cost.slots:
        if not left[slot.want]:
            return "charges for slots that it was not asked for"
        left[slot.want] -= 1
        if not _lies_within(slot):
            return "charges for more than a slot"
    pieces = sum(len(slot.pieces) for slot in cost.slots)
    if pieces > PIECES_MAX or cost.charge > COST_MAX:
        return "charges more than a request may cost"
    return "pays back for a change that there is not" if cost.back and not changes else ""


def complaint_about_payer(cost: Cost, user: str, project: str) -> str:
    """Return what is wrong with the account that pays; "" for nothing."""
    account = f"project:{project}" if project else f"user:{user}"
    return "" if cost.account == account else "charges another account than it was told"


def complaint_about_limit(cost: Cost, at_most: int) -> str:
    """Return what is wrong with a promise at this `cost` for a user who allows `at_most`."""
    over = NO_CAP < at_most < cost.charge - cost.back
    return "charges more than the user allows" if over else ""


def _lies_within(slot: SlotCost) -> bool:
    """Whether the pieces of `slot` are of its time, and together never more than its units."""
    want = slot.want
    if not all(want.start <= each.start < each.end <= want.end for each in slot.pieces):
        return False
    return _most_units(slot.pieces) <= want.units


def _most_units(pieces: Sequence[PaidPiece]) -> int:
    changes = sorted(
        change for each in pieces for change in ((each.start, each.units), (each.end, -each.units))
    )
    most = had = 0
    for _, units in changes:
        had += units
        most = max(most, had)
    return most
