"""Views of a reclaim for its owner: reservations moved, and where to; others to move, or staying, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from kalends.contract import owner_calls
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.reclaims.reclaim_choice import (
    InTheWay,
    ReclaimChoice,
    claims_there,
    claims_to_go,
    place_of,
)
from kalends.resource_servers.participation.reclaims.reclaims import Reclaimed


def view_of(reclaimed: Reclaimed, choice: ReclaimChoice) -> owner_calls.ReclaimView:
    """Return it as it is now, with the ids by which users call their reservations."""
    named = choice.book.stakes.reservation_of
    found = choice.in_the_way(reclaimed)
    waiting = tuple(stake.rid for stake in found.going)
    staying = {stake.rid for stake in (*found.beside, *found.spared)}
    gone = tuple(rid for rid in reclaimed.told if rid not in waiting and rid not in staying)
    return owner_calls.ReclaimView(
        key=reclaimed.key,
        resource=reclaimed.resource,
        start=reclaimed.start,
        end=reclaimed.end,
        reason=reclaimed.reason,
        waiting=tuple(map(named, waiting)),
        gone=tuple(map(named, gone)),
        spared=tuple(named(stake.rid) for stake in found.spared),
        units=reclaimed.units,
        lacking=tuple(choice.room.lacking(reclaimed.key)),
        beside=len(found.beside),
        exact=found.exact,
        closure=reclaimed.closure,
        standing=reclaimed.standing,
        reservations=(
            *_still_there(reclaimed, found, named),
            *(_gone(reclaimed, rid, choice) for rid in gone),
        ),
    )


def _still_there(
    reclaimed: Reclaimed, found: InTheWay, named: Callable[[str], str]
) -> Iterable[owner_calls.ReclaimedReservation]:
    for stake in found.going:
        yield _told_of(stake, reclaimed, named(stake.rid), "waiting")
    kept = "the owner keeps it" if reclaimed.standing == "keep" else "it begins within the notice"
    for stake in found.spared:
        yield _told_of(stake, reclaimed, named(stake.rid), "stays", kept)


def _told_of(
    stake: Stake,
    reclaimed: Reclaimed,
    id: str,
    state: Literal["waiting", "stays"],
    why: str = "",
) -> owner_calls.ReclaimedReservation:
    claims = claims_to_go(stake, reclaimed) or claims_there(stake, reclaimed)
    place = place_of(stake, claims)
    return owner_calls.ReclaimedReservation(
        id=id, user=place.user, start=place.start, end=place.end, units=place.units,
        state=state, why=why,
    )  # fmt: skip


def _gone(
    reclaimed: Reclaimed, rid: str, choice: ReclaimChoice
) -> owner_calls.ReclaimedReservation:
    had = reclaimed.had[rid]
    went = reclaimed.went.get(rid)
    stake = choice.book.stakes.peek(rid)
    cancelled = stake is not None and stake.has("cancelled")
    return owner_calls.ReclaimedReservation(
        id=choice.book.stakes.reservation_of(rid),
        user=had.user,
        start=had.start,
        end=had.end,
        units=had.units,
        state="moved" if went else "cancelled" if cancelled else "gone",
        to_resource=went.resource if went else "",
        to_start=went.start if went else 0,
        to_end=went.end if went else 0,
    )
