"""Helpers for intervals: half-open ``[start, end)``, as pairs or as dicts with "start" and "end"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kalends.agents.language import limits
from kalends.agents.language.meter import Meter
from kalends.agents.language.values import items_of, kind
from kalends.core.intervals import joined


def overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Return whether they share a moment; touching and empty intervals do not."""
    return max(a[0], b[0]) < min(a[1], b[1])


def merged(intervals: list[tuple[int, int]]) -> list[list[int]]:
    """Return the same moments as disjoint intervals in order; those that touch become one."""
    return [list(each) for each in joined(each for each in intervals if each[0] < each[1])]


def between(intervals: list[tuple[int, int]], start: int, end: int) -> list[list[int]]:
    """Return the moments of ``[start, end)`` that are in none of `intervals`, as intervals in order."""
    free: list[list[int]] = []
    reached = start
    for taken_start, taken_end in merged(intervals):
        if taken_start >= end:
            break
        if taken_start > reached:
            free.append([reached, taken_start])
        reached = max(reached, taken_end)
    if reached < end:
        free.append([reached, end])
    return free


def moment(value: Any) -> int:
    """Return `value` as seconds since 1970. Raises `TypeError` or `ValueError`, which name it."""
    if type(value) is not int:
        raise TypeError(f"a time is an integer of seconds, not {kind(value)}")
    if not 0 <= value <= limits.TIME_S_MAX:
        raise ValueError("a time is between the years 1970 and 3000, in seconds")
    return value


def interval(value: Any) -> tuple[int, int]:
    """Return `value` as ``(start, end)``. Raises `TypeError`, `KeyError` or `ValueError`."""
    if type(value) is dict:
        if "start" not in value or "end" not in value:
            raise KeyError('an interval has "start" and "end"')
        start, end = value["start"], value["end"]
    elif type(value) in (list, tuple) and len(value) == 2:
        start, end = value
    else:
        raise TypeError(f"an interval is a dict or a pair, not {kind(value)}")
    if moment(start) > moment(end):
        raise ValueError("an interval ends before it starts")
    return start, end


def interval_helpers(meter: Meter) -> dict[str, Callable[..., Any]]:
    """Return `overlaps`, `merge` and `gaps`, paid for."""

    def read(values: Any) -> list[tuple[int, int]]:
        found = items_of(meter, values)
        meter.charge(len(found) * (2 + len(found).bit_length()))
        return [interval(one) for one in found]

    def overlaps(a: Any, b: Any, /) -> bool:
        meter.charge(2)
        return overlap(interval(a), interval(b))

    def merge(intervals: Any, /) -> list[list[int]]:
        return merged(read(intervals))

    def gaps(intervals: Any, start: Any, end: Any, /) -> list[list[int]]:
        return between(read(intervals), *interval((start, end)))

    return {"overlaps": overlaps, "merge": merge, "gaps": gaps}
