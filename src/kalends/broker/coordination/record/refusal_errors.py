"""The broker's own refusals and errors, and which refusals of sites another start would meet again."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import Final

from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.planning.directory import SiteEntry
from kalends.contract.calls import RequestView
from kalends.core.errors import (
    Conflict,
    Expired,
    KeyReused,
    Refusal,
    RefusalCode,
)

PERMANENT: Final = frozenset(
    {
        RefusalCode.UNKNOWN_RESOURCE,
        RefusalCode.NOT_ALLOWED,
        RefusalCode.NO_ACCOUNT,
        RefusalCode.ADVISORY,
        RefusalCode.TOO_MUCH,
        RefusalCode.TOO_LONG,
        RefusalCode.TOO_SHORT,
        RefusalCode.INCOMPLETE,
        RefusalCode.LIMIT,
        RefusalCode.DRAINED,
        RefusalCode.BAD_ANSWER,
        RefusalCode.OLDER_VERSION,
        RefusalCode.NO_PLACE,
        RefusalCode.TOO_LATE,
        RefusalCode.PAYER,
    }
)
"""Refusals that another start of the same request would meet again."""


def may_answer_later(refusals: Iterable[Refusal]) -> bool:
    """Return whether only time may help: a site did not answer, and no other has refused for good."""
    codes = {refusal.code for refusal in refusals}
    return RefusalCode.SITE_DOWN in codes and not codes & PERMANENT


def site_down(site: str, detail: str) -> Refusal:
    return Refusal(where=site, code=RefusalCode.SITE_DOWN, detail=detail)


def site_away(entry: SiteEntry) -> Refusal:
    """The refusal for a site that is not connected: it may come back, or an operator has to act."""
    if entry.unusable:
        return Refusal(where=entry.name, code=RefusalCode.SITE_UNUSABLE, detail=entry.detail)
    return site_down(entry.name, entry.detail or "not connected")


def site_unknown(site: str) -> Refusal:
    return Refusal(
        where=site,
        code=RefusalCode.UNKNOWN_RESOURCE,
        detail="this broker does not know that site",
    )


def key_reused(key: str) -> KeyReused:
    return KeyReused(
        "this key was used before with another request",
        where="key",
        remedy=f"make a new key; `kalends show --key {quote(key)}` shows the old request"
        if not key.startswith(("by:", "for:"))  # Made of the key of a caller for another user.
        else "make a new key; `kalends list` shows the old request",
    )


def hold_ran_out() -> Expired:
    return Expired("the hold has expired", remedy="hold or book it again")


def under_way(change: RequestView) -> Conflict:
    """Return the refusal of another change of a reservation, while `change` of it is open."""
    waits = change.waiting is not None and change.waiting.approval
    how = "waits for an owner's approval" if waits else "is under way"
    return Conflict(
        f"another change of the reservation {how}",
        remedy=f"`kalends cancel {change.changing}` gives that change up, "
        f"`kalends show {change.changing} --follow` waits for it",
        request_id=change.id,
    )


def check_not_over(record: Record, now_s: int) -> None:
    """Raise `Conflict` for a reservation whose slots have all ended: used time cannot be given back.

    A job may still wait, or run, after the time that was foreseen.
    """
    over = record.spec.placement is None and all(want.end <= now_s for want in record.wants)
    if record.state == "commit" and over:
        raise Conflict(
            "the reservation has ended, and time that has passed cannot be given back",
            remedy=f"`kalends show {record.reservation}` shows when it ended",
            request_id=record.reservation,
        )
