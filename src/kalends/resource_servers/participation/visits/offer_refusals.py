"""Why a term has no slot on offer: the owner's rules first, then that there is no room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kalends.calendars import ResourceCalendar, unknown_resource
from kalends.core.errors import Refusal
from kalends.core.principals import Principal
from kalends.core.scripts import Ask, Starts

_TRIED_MAX: Final = 16
"""Common starts, evenly over all, that are looked at: an explanation, not a proof."""


def why_unoffered(
    calendars: Mapping[str, ResourceCalendar],
    principal: Principal,
    ask: Ask,
    starts: Starts,
    wall_s: int,
) -> Refusal:
    """The refusal for `ask`, which no common start of `starts` could serve."""
    calendar = calendars.get(ask.resource)
    if calendar is None:
        return unknown_resource(ask.resource)
    by_rule: Refusal | None = None
    for common in _some(starts):
        start = calendar.grain.ceil(common + ask.offset_s)
        end = calendar.grain.end_of(start, ask.length_s)
        refusal = calendar.refusal(principal, ("hold",), start, end, ask.units, wall_s)
        if refusal is None:
            return calendar.busy(principal, start, end, ask.units, wall_s)
        by_rule = by_rule or refusal
    return by_rule or unknown_resource(ask.resource)


def _some(starts: Starts) -> Iterator[int]:
    if starts.only:
        yield from starts.only[:: max(1, len(starts.only) // _TRIED_MAX)]
        return
    count = max(0, starts.last - starts.first) // starts.step_s + 1
    for number in range(min(count, _TRIED_MAX)):
        yield starts.first + starts.step_s * (
            number * count // _TRIED_MAX if count > _TRIED_MAX else number
        )
