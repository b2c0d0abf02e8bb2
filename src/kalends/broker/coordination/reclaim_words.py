"""A reclaim in words: for its user, for the story of the request, and for notices."""

from __future__ import annotations

from kalends.broker.coordination.pending_reclaim import PendingReclaim
from kalends.contract.messages import Reclaim
from kalends.core.durations import format_duration
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.times import format_time


def owners(recovery: PendingReclaim) -> str:
    """Return the sites that reclaim something, by name."""
    return ", ".join(sorted(recovery.reclaims))


def reason(recovery: PendingReclaim) -> str:
    """Return why, as the sites say, each reason once; "" where none has said."""
    reasons = [
        each.reason or ("it cannot be kept" if each.lost else "")
        for _, each in sorted(recovery.reclaims.items())
    ]
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def told(recovery: PendingReclaim) -> str:
    """Return ``sdsc needs sdsc/sp2 from ... for 4h: a new pump``, or ``cannot keep``, for each site."""
    return "; ".join(
        f"{site} {'cannot keep' if each.lost else 'needs'} {_units(each)}{', '.join(each.resources)}"
        f" from {format_time(each.start, 'UTC')} for {format_duration(each.end - each.start)}"
        + (f": {each.reason}" if each.reason else "")
        for site, each in sorted(recovery.reclaims.items())
    )


def refusals(recovery: PendingReclaim) -> tuple[Refusal, ...]:
    """Return a refusal for each resource that is reclaimed."""
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


def _units(reclaim: Reclaim) -> str:
    return f"{reclaim.units} unit{'s' * (reclaim.units > 1)} of " if reclaim.units else ""
