"""The order of the bids for a job, and the words that tell of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kalends.broker.federation.offered_places import OfferedPlace, best_first
from kalends.contract import messages as m
from kalends.core.durations import format_duration
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.times import format_time

TOLD_MAX: Final = 8
"""Offers that are named in the story of a request."""


def ranked_places(rid: str, bids: Mapping[str, m.Bid], end_by: int) -> list[OfferedPlace]:
    """Return all places that are offered and end by `end_by` (0: whenever), the best first."""
    return best_first((each for each in _offered(bids) if not end_by or _end(each) <= end_by), rid)


def too_late(bids: Mapping[str, m.Bid], end_by: int) -> list[Refusal]:
    """Return a refusal for each place where the job would end after `end_by` (0: none is too late)."""
    return [
        Refusal(
            where=each.resource,
            code=RefusalCode.TOO_LATE,
            detail=f"it would end by {format_time(int(_end(each)), 'UTC')}",
        )
        for each in _offered(bids)
        if end_by and _end(each) > end_by
    ]


def _offered(bids: Mapping[str, m.Bid]) -> list[OfferedPlace]:
    return [
        OfferedPlace(
            site, each.machine, each.nodes, each.start_by, each.start, each.late_start,
            each.end - each.start, bool(each.start_by),
        )
        for site, bid in bids.items()
        for each in bid.offers
    ]  # fmt: skip


def _end(place: OfferedPlace) -> float:
    return place.counted_start + place.runs_s


def told(ranked: Sequence[OfferedPlace], asked: int) -> str:
    """Return all offers in words, for the story of the request."""
    best, first = ranked[0], _end(ranked[0])
    start = format_time(int(best.counted_start), "UTC")
    firm = "starts by" if best.firm else "is likely to start by"
    sites = len({each.site for each in ranked})
    told = f"{best.resource} {firm} {start}; {sites} of {asked} sites have bid"
    others = [
        f"{each.resource} ends {format_duration(int(_end(each) - first))} later"
        if _end(each) > first
        else f"{each.resource} ends as early"
        for each in ranked[1:TOLD_MAX]
    ]
    return "; ".join((told, *others))
