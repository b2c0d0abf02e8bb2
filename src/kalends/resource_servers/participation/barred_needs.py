"""Needs of a query that the owner's rules refuse at every time, whatever is booked, and the rules.

The rule is the one that would refuse a booking at the first start that the need could have: so looking, and
booking at a time, name the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from kalends.calendars import ResourceCalendar
from kalends.calendars.profiles import Step, at_least
from kalends.contract.messages import Barred, Query, RoomNeed, Want
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.grains import Grain
from kalends.resource_servers.participation.claims.claim_table import ClaimTable

STEPS_LOOKED_AT_MAX: Final = 20_000
"""For all needs on one resource: twice as many as the longest view has."""


def barred(
    book: ClaimTable,
    query: Query,
    want: Want,
    wall_s: int,
    caps: Sequence[Sequence[Step]],
    shown: Sequence[Step],
) -> tuple[Barred, ...]:
    """Return the needs of `query` that have no start at all in `want`; `shown` is what is free of it.

    `caps` are as in `ResourceCalendar.free_steps`.
    """
    calendar = book.calendars[want.resource]
    grain, capacity = calendar.grain, calendar.info.capacity
    about = [
        (place, need)
        for place, need in enumerate(query.needs)
        if need.resource in ("", want.resource) and need.units <= capacity
        if not need.length_s % grain.seconds
    ]
    lacking = [each for each in _few(about, shown) if not _fits(shown, each[1], grain)]
    if not lacking:
        return ()
    allowed, until = calendar.free_steps(
        query.principal, want.start, want.end, wall_s, limits.VIEW_STEPS_MAX, (), caps, booked=False
    )
    return tuple(
        Barred(place, refusal)
        for place, need in _few(lacking, allowed)
        if until >= min(want.end, need.end) and not _fits(allowed, need, grain)
        if (refusal := _refusal(book, calendar, query, need, wall_s)) is not None
    )


def _few(
    needs: Sequence[tuple[int, RoomNeed]], steps: Sequence[Step]
) -> Sequence[tuple[int, RoomNeed]]:
    """Return as many of `needs` as may be looked for in `steps`: the first, where it is too much for all."""
    return needs[: max(1, STEPS_LOOKED_AT_MAX // max(1, len(steps)))]


def _fits(steps: Iterable[Step], need: RoomNeed, grain: Grain) -> bool:
    return any(
        grain.end_of(grain.ceil(max(window.start, need.start)), need.length_s)
        <= min(window.end, need.end)
        for window in at_least(steps, need.units)
    )


def _refusal(
    book: ClaimTable, calendar: ResourceCalendar, query: Query, need: RoomNeed, wall_s: int
) -> Refusal | None:
    principal, grain = query.principal, calendar.grain
    first = grain.ceil(need.start)
    if grain.end_of(grain.ceil(max(first, grain.floor(wall_s))), need.length_s) > need.end:
        if need.end - need.length_s < wall_s:
            return calendar.too_late(need.length_s, need.end, wall_s)
        start = need.start  # It is not on the grain, and nothing of the grain is in its window.
    else:
        soonest = grain.ceil(max(first, calendar.earliest_start(principal, wall_s)))
        start = soonest if grain.end_of(soonest, need.length_s) <= need.end else first
    want = Want(calendar.info.name, start, grain.end_of(start, need.length_s), need.units)
    may_lock = calendar.access.may_ever(principal, "lock")
    actions = ("hold", "lock") if may_lock else ("hold",)
    found = book.refusals(principal, [want], actions, wall_s, replaces=query.replaces)
    return found[0] if found else None
