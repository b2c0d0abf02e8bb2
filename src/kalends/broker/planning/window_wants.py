"""Wants of a request on waiting lists, cut to the times of the user's own windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

from msgspec.structs import replace

from kalends.contract.messages import Want
from kalends.core import limits
from kalends.core.intervals import Interval, joined
from kalends.core.permitted_starts import demands
from kalends.core.requests import Request, has_windows
from kalends.core.spans import Range, intersection
from kalends.core.windows import TimeWindow, opened


def cut_to_windows(request: Request, wants: Sequence[Want]) -> tuple[Want, ...]:
    """Return `wants` less the times at which no term of `request` that may use their resource can be.

    A want that would become too many pieces reaches from the first to the last of them. What no term can ever
    use stays whole: a list must have something to wait for.
    """
    if not any(map(has_windows, request.alternatives)):
        return tuple(wants)
    most = limits.NEEDS_MAX // max(1, len(wants))
    cut: list[Want] = []
    for want in wants:
        pieces = joined(_times(request, want)) or [Interval(want.start, want.end)]
        if len(pieces) > most:
            pieces = [Interval(pieces[0].start, pieces[-1].end)]
        cut += [replace(want, start=start, end=end) for start, end in pieces]
    return tuple(cut)


def _times(request: Request, want: Want) -> Iterator[Interval]:
    """Yield when the terms that may use the resource of `want` can be, within it."""
    whole: list[Range] = [(want.start, want.end - 1)]
    for number, alternative in enumerate(request.alternatives):
        asked = demands(request, number)
        for place, term in enumerate(alternative.terms):
            if term.resource not in ("", want.resource):
                continue
            own = [_ranges(each.windows, want) for each in asked if each.term == place]
            length_s = term.duration_s or request.duration_s
            for first, last in reduce(lambda a, b: list(intersection(a, b)), own, whole):
                if last + 1 - first >= min(length_s, want.end - want.start):
                    yield Interval(first, last + 1)


def _ranges(windows: Sequence[TimeWindow], want: Want) -> list[Range]:
    return [(start, end - 1) for start, end in opened(windows, want.start, want.end)]
