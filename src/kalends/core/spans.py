"""Starts at which something fits: closed ranges of them, their unions and intersections.

For one stage of one resource the starts that suit are a union of closed ranges (where its free
capacity lasts long enough) cut with one arithmetic progression (where the stage begins on the
resource's grain). `ranges` yields the first, a `Beat` is the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heapreplace
from typing import NamedTuple, TypeVar

from kalends.core.grains import Grain
from kalends.core.intervals import joined
from kalends.core.progressions import Beat

Step = tuple[int, int, int]
"""``(start, end, units)``: free units during ``[start, end)``."""

Range = tuple[int, int]
"""Starts from the first to the second, both included."""

One = TypeVar("One", bound=tuple[int, ...])
Other = TypeVar("Other", bound=tuple[int, ...])


class Stage(NamedTuple):
    """`units` during ``[t + offset_s, t + offset_s + length_s)`` for the common start t."""

    offset_s: int
    length_s: int
    units: int

    @property
    def end_s(self) -> int:
        return self.offset_s + self.length_s

    def overlaps(self, other: Stage) -> bool:
        return self.offset_s < other.end_s and other.offset_s < self.end_s


def beat_of(stage: Stage, grain: Grain) -> Beat | None:
    """Return the starts at which `stage` begins and ends on the grain; None if there are none."""
    if stage.length_s % grain.seconds:
        return None
    return Beat(grain.seconds, (-grain.phase_s - stage.offset_s) % grain.seconds)


def ranges(
    steps: Sequence[Step], stage: Stage, first: int, last: int,
    spend: Callable[[int], None] = lambda steps: None,
) -> Iterator[Range]:  # fmt: skip
    """Yield the starts from `first` to `last` at which `steps` have the units of `stage` all along, in order.

    `steps` are sorted and disjoint; those that touch make one stretch. Finds its place by bisection,
    then reads only the steps that its ranges need, and calls `spend` with three for each.
    """
    earliest, latest = first + stage.offset_s, last + stage.offset_s
    begin = end = earliest
    place = read = bisect_right(steps, earliest, key=_end)
    for index in range(place, len(steps)):
        step_start, step_end, units = steps[index]
        if units < stage.units:
            continue
        if step_start == end:
            end = step_end
            continue
        if end - stage.length_s >= begin:
            spend(3 * (index - read))
            read = index
            yield begin - stage.offset_s, min(end - stage.length_s, latest) - stage.offset_s
        begin, end = max(step_start, earliest), step_end
        if begin > latest:
            spend(3 * (index - read))
            return
    spend(3 * (len(steps) - read))
    if end - stage.length_s >= begin:
        yield begin - stage.offset_s, min(end - stage.length_s, latest) - stage.offset_s


def union(lists: Iterable[Iterable[Range]]) -> list[Range]:
    """Return the union of ranges of all lists, as disjoint ranges in order."""
    times = joined((first, last + 1) for each in lists for first, last in each)
    return [(start, end - 1) for start, end in times]


def intersection(ours: Iterable[Range], theirs: Iterable[Range]) -> Iterator[Range]:
    """Yield the intersection of two series of ranges; all are disjoint and in order."""
    return ((first, last) for first, last, _, _ in meetings(ours, theirs))


def in_all(lists: Iterable[Iterable[Range]]) -> Iterator[Range]:
    """Yield the intersection of one or more series of ranges, each disjoint and in order.

    No series is read further than needed, and any number of them takes the same depth of the stack.
    """
    series = [iter(each) for each in lists]
    firsts = [next(each, None) for each in series]
    present = [each for each in firsts if each is not None]
    if len(present) < len(series):
        return
    ends = [(last, index) for index, (_, last) in enumerate(present)]
    heapify(ends)
    begin = max(first for first, _ in present)
    while True:
        end, index = ends[0]
        if begin <= end:
            yield begin, end
        following = next(series[index], None)
        if following is None:
            return
        begin = max(begin, following[0])
        heapreplace(ends, (following[1], index))


def meetings(ours: Iterable[One], theirs: Iterable[Other]) -> Iterator[tuple[int, int, One, Other]]:
    """Yield the overlap of each range of `ours` with each of `theirs`: first, last, and both ranges.

    Further fields of a range are passed on. Both series are in order and disjoint.
    """
    left, right = iter(ours), iter(theirs)
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        first, last = max(one[0], other[0]), min(one[1], other[1])
        if first <= last:
            yield first, last, one, other
        if one[1] < other[1]:
            one = next(left, None)
        else:
            other = next(right, None)


def _end(step: Step) -> int:
    return step[1]
