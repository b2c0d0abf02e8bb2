"""Starts near a given one, earlier or later: as a wish of a request, and the nearest that is free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import structs

from kalends.core.requests import Request, TimePreference

STEPS: Final = 12
"""Into so many steps the way from a start is divided: within a step, all starts are worth the same."""

_WEIGHT: Final = 0.001
"""What a step nearer is worth: all steps together are less than any preference that people write."""


def near(request: Request, start: int, give_s: int) -> Request:
    """Return `request`, of the fixed `start`, for a start at most `give_s` away: the nearer, the better."""
    steps = tuple(
        TimePreference(start=start - away, end=start + away + 1, weight=_WEIGHT)
        for away in _ways(give_s)
    )
    return structs.replace(
        request,
        not_before=request.not_before - give_s,
        not_after=request.not_after + give_s,
        preferences=(*request.preferences, *steps),
    )


def fixed(request: Request, give_s: int) -> Request:
    """Return the opposite of `near`."""
    return structs.replace(
        request,
        not_before=request.not_before + give_s,
        not_after=request.not_after - give_s,
        preferences=request.preferences[: len(request.preferences) - len(_ways(give_s))],
    )


def nearest(earliest: Callable[[int, int], int | None], start: int, reach_s: int) -> int | None:
    """Return the start nearest to `start`, at most `reach_s` away, of two equal ones the later.

    `earliest` returns the earliest from a first to a last start, None if there is none.
    """
    after = earliest(start, start + reach_s)
    within = reach_s if after is None else after - start - 1
    before = earliest(start - within, start - 1) if within > 0 else None
    if before is None:
        return after
    none_within, away = 0, start - before
    while away - none_within > 1:
        middle = (none_within + away) // 2
        found = earliest(start - middle, start - 1)
        if found is None:
            none_within = middle
        else:
            away = start - found
    return start - away


def _ways(give_s: int) -> list[int]:
    """Return how far each step reaches, in seconds; none for a start that is fixed."""
    return sorted({give_s * step // STEPS for step in range(STEPS)}) if give_s else []
