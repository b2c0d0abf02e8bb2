"""Step functions of time: ``(start, end, units)`` in order, covering a window without gaps.

Free capacity, opening hours and what an access list grants are all such profiles; what a user may
take at a time is the least of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from kalends.core.intervals import Interval

Step = tuple[int, int, int]


def from_windows(windows: Iterable[Interval], start: int, end: int, units: int) -> Iterator[Step]:
    """Yield a profile of `units` inside `windows` (sorted, disjoint, within ``[start, end)``), else 0."""
    at = start
    for window in windows:
        if window.start > at:
            yield at, window.start, 0
        yield window.start, window.end, units
        at = window.end
    if at < end:
        yield at, end, 0


def capped(caps: Iterable[Step], start: int, end: int, units: int) -> Iterator[Step]:
    """Yield a profile of ``[start, end)`` with `caps` (in order, disjoint), elsewhere `units`."""
    at = start
    for cap_start, cap_end, cap in caps:
        begin, finish = max(cap_start, at), min(cap_end, end)
        if begin >= finish:
            continue
        if begin > at:
            yield at, begin, units
        yield begin, finish, cap
        at = finish
    if at < end:
        yield at, end, units


Change = tuple[int, int, int]
"""A change ``(start, end, units)``: `units` more, or fewer if negative, during ``[start, end)``."""


def changed(
    steps: Iterable[Step], changes: Sequence[Change], start: int, end: int
) -> Iterator[Step]:
    """Return the profile `steps` of ``[start, end)`` with `changes` added to it, and never below 0. Lazy."""
    return combine(steps, total(changes, start, end), lambda units, more: max(units + more, 0))


def total(changes: Iterable[Change], start: int, end: int) -> Iterator[Step]:
    """Yield the sum of `changes` as a profile of ``[start, end)``."""
    borders: Counter[int] = Counter()
    for begin, finish, units in changes:
        if begin < end and start < finish:
            borders[max(begin, start)] += units
            borders[min(finish, end)] -= units
    at, units = start, 0
    for time_s in sorted(borders):
        if time_s > at:
            yield at, time_s, units
            at = time_s
        units += borders[time_s]
    if at < end:
        yield at, end, units


def combine(
    left: Iterable[Step], right: Iterable[Step], choose: Callable[[int, int], int]
) -> Iterator[Step]:
    """Combine two profiles of one window by `choose` (`min` or `max`) at every time. Lazy."""
    lefts, rights = iter(left), iter(right)
    one, other = next(lefts, None), next(rights, None)
    while one is not None and other is not None:
        end = min(one[1], other[1])
        yield max(one[0], other[0]), end, choose(one[2], other[2])
        if one[1] == end:
            one = next(lefts, None)
        if other[1] == end:
            other = next(rights, None)


def eroded(steps: Iterable[Step], gap_s: int) -> Iterator[Step]:
    """Yield at each time the least of `steps` over the next `gap_s` seconds, including the last. Lazy.

    What fits into the result fits into `steps` with `gap_s` seconds more. Nothing is taken beyond their end.
    """
    coming = iter(steps)
    following = next(coming, None)
    if following is None:
        return
    at = following[0]
    # Steps that count at `at`, each with fewer units than those behind it: the first is the least.
    least: deque[Step] = deque()
    while True:
        while following is not None and following[0] <= at + gap_s:
            while least and least[-1][2] >= following[2]:
                least.pop()
            least.append(following)
            following = next(coming, None)
        while least and least[0][1] <= at:
            least.popleft()
        if not least:
            return
        until = least[0][1]
        if following is not None:
            until = min(until, following[0] - gap_s)
        yield at, until, least[0][2]
        at = until


def ending_at(steps: Iterable[Step], end: int) -> Iterator[Step]:
    """Yield `steps` as far as they are before `end`. Lazy."""
    for begin, finish, units in steps:
        if begin >= end:
            return
        yield begin, min(finish, end), units


def join(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the same profile with equal neighbours made one step. Lazy."""
    start = end = units = -1
    for step in steps:
        if step[2] == units:
            end = step[1]
            continue
        if units >= 0:
            yield start, end, units
        start, end, units = step
    if units >= 0:
        yield start, end, units


def at_least(steps: Iterable[Step], units: int) -> list[Interval]:
    """Return where a profile has at least `units`, as sorted intervals that do not touch."""
    windows: list[Interval] = []
    for start, end, found in steps:
        if found < units:
            continue
        if windows and windows[-1].end == start:
            start = windows.pop().start
        windows.append(Interval(start, end))
    return windows
