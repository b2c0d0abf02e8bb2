"""Needs of each term of a request, and those that an owner's rules refuse at every time.

Sites are asked with it, so that they can name the rule in place of showing nothing that is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kalends.broker.planning.demand import stage_of, start_window
from kalends.broker.planning.start_ranges import added
from kalends.contract.messages import FreeSteps, RoomNeed
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.requests import Request
from kalends.core.spans import Range, Stage

BarredNeeds = Mapping[tuple[str, RoomNeed], Refusal]
"""For each resource that was asked about, the needs that its owner's rules refuse, and by which rule."""

NOTHING_BARRED: Final[BarredNeeds] = {}


def needs_of(request: Request) -> tuple[RoomNeed, ...]:
    """Return what all alternatives need, each need once."""
    every = dict.fromkeys(
        need for number in range(len(request.alternatives)) for need in _of(request, number)
    )
    return tuple(every)[: limits.NEEDS_MAX]


def need_of(resource: str, stage: Stage, window: Range) -> RoomNeed:
    """Return the need of `stage` where the request may start in `window`; `resource` "" is any."""
    first, last = window
    start = max(first + stage.offset_s, 0)
    end = min(max(last + stage.end_s, start), limits.TIME_S_MAX)
    return RoomNeed(resource, start, end, stage.units, stage.length_s)


def barred_needs(
    views: Sequence[FreeSteps], needs: Sequence[RoomNeed]
) -> dict[tuple[str, RoomNeed], Refusal]:
    """Return what `views` say of `needs`, with which they were asked for."""
    return {
        (view.resource, needs[each.need]): each.refusal
        for view in views
        for each in view.barred
        if each.need < len(needs)
    }


def _of(request: Request, number: int) -> Iterator[RoomNeed]:
    window = start_window(request, number)
    named: dict[str, list[Stage]] = {}
    for term in request.alternatives[number].terms:
        stage = stage_of(request, term)
        if term.resource:
            named.setdefault(term.resource, []).append(stage)
        else:
            yield need_of("", stage, window)
    for name, stages in named.items():
        for stage in added(stages):
            yield need_of(name, stage, window)
