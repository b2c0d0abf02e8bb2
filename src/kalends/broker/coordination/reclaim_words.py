"""What an owner's reclaim is called in the story of a request, in errors and in notices."""

from __future__ import annotations

from kalends.broker.coordination.pending_reclaim import PendingReclaim
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.times import format_duration, format_time


def owners(recovery: PendingReclaim) -> str:
    """Return the sites that want something back."""
    return ", ".join(sorted(recovery.reclaims))


def reason(recovery: PendingReclaim) -> str:
    """Return why they do, each reason once."""
    reasons = [
        each.reason or ("it cannot be kept" if each.lost else "")
        for _, each in sorted(recovery.reclaims.items())
    ]
    return "; ".join(dict.fromkeys(each for each in reasons if each))


def told(recovery: PendingReclaim) -> str:
    """Return ``sdsc needs sdsc/sp2 from ... for 4h: a new pump``, for each who needs or cannot keep it."""
    return "; ".join(
        f"{site} {'cannot keep' if each.lost else 'needs'} {_units(each)}{', '.join(each.resources)}"
        f" from {format_time(each.start, 'UTC')} for {format_duration(each.end - each.start)}"
        + (f": {each.reason}" if each.reason else "")
        for site, each in sorted(recovery.reclaims.items())
    )


def _units(reclaim: m.Reclaim) -> str:
    return f"{reclaim.units} unit{'s' * (reclaim.units > 1)} of " if reclaim.units else ""


def refusals(recovery: PendingReclaim) -> tuple[Refusal, ...]:
    """Return the same as the refusals of an error: one for each resource."""
    return tuple(
        Refusal(
            where=name,
            code=RefusalCode.BLACKOUT,
            detail=each.reason or "its owner needs it then",
            rule="reclaim",
        )
        for _, each in sorted(recovery.reclaims.items())
        for name in each.resources
    )
