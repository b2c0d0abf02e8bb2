"""At which common starts one resource could serve: stretches of free time, and the beat of its grain.

For one stage of one resource the starts that suit are a union of closed ranges (where its free
capacity lasts long enough) cut with one arithmetic progression (where the stage begins on the
resource's grain). `ranges` yields the first, a `Beat` is the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kalends.broker.planning.search_budget import Work
from kalends.core.progressions import Beat

Step = tuple[int, int, int]
"""``(start, end, units)``: free units during ``[start, end)``."""

Range = tuple[int, int]
"""Starts from the first to the second, both included."""


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


EVERY_SECOND = Beat(1, 0)

_FOR_EVER_S: Final = 1 << 40


def beat_of(stage: Stage, grain_s: int) -> Beat | None:
    """The starts at which `stage` begins and ends on the grain; None when there are none."""
    if stage.length_s % grain_s:
        return None
    return Beat(grain_s, -stage.offset_s % grain_s)


def added(stages: Sequence[Stage]) -> list[Stage]:
    """Stages of one resource with their units added up where they overlap; none overlap any more."""
    if len(stages) == 1:
        return list(stages)
    moments = sorted({stage.offset_s for stage in stages} | {stage.end_s for stage in stages})
    result: list[Stage] = []
    for begin, end in pairwise(moments):
        piece = Stage(begin, end - begin, 0)
        units = sum(stage.units for stage in stages if stage.overlaps(piece))
        if units:
            result.append(Stage(begin, end - begin, units))
    return result


def ranges(
    steps: Sequence[Step], stage: Stage, first: int, last: int, work: Work | None = None
) -> Iterator[Range]:
    """The starts from `first` to `last` at which `steps` have the units of `stage` all along, in order.

    `steps` are sorted and disjoint; those that touch make one stretch. Finds its place by bisection,
    then reads only the steps that its ranges need. Raises `TooMuchWork`.
    """
    work = work or Work()
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
            work.spend(3 * (index - read))
            read = index
            yield begin - stage.offset_s, min(end - stage.length_s, latest) - stage.offset_s
        begin, end = max(step_start, earliest), step_end
        if begin > latest:
            work.spend(3 * (index - read))
            return
    work.spend(3 * (len(steps) - read))
    if end - stage.length_s >= begin:
        yield begin - stage.offset_s, min(end - stage.length_s, latest) - stage.offset_s


def levels(
    steps: Sequence[Step], stage: Stage, most: int, first: int, last: int
) -> Iterator[tuple[int, int, int]]:
    """As `ranges`, with the units that are free all along, `most` at most: ``(first, last, units)``.

    Units of neighbouring levels differ, so that a level is as long as it can be. The least of the
    steps below a stage is kept up to date while the stage slides over them (a queue of rising units).
    """
    below: deque[tuple[int, int]] = deque()
    """``(end, units)``: ends and units rise, and the first has the least units below the stage."""
    upcoming = _with_gaps(steps, first + stage.offset_s)
    reached = first + stage.offset_s
    at, level = first, (first, first - 1, -1)
    while at <= last:
        begin, end = at + stage.offset_s, at + stage.end_s
        while reached < end:
            reached, units = next(upcoming)
            while below and below[-1][1] >= units:
                below.pop()
            below.append((reached, units))
        while below[0][0] <= begin:
            below.popleft()
        until = min(at + min(below[0][0] - begin, reached - end + 1) - 1, last)
        units = min(below[0][1], most)
        if units != level[2]:
            if level[2] >= stage.units:
                yield level
            level = (at, until, units)
        else:
            level = (level[0], until, units)
        at = until + 1
    if level[2] >= stage.units:
        yield level


def _with_gaps(steps: Sequence[Step], begin: int) -> Iterator[tuple[int, int]]:
    """``(end, units)`` from `begin` on without a gap: nothing is free between steps, nor after them."""
    at = begin
    for index in range(bisect_right(steps, begin, key=_end), len(steps)):
        start, end, units = steps[index]
        if start > at:
            yield start, 0
        yield end, units
        at = end
    while True:
        at += _FOR_EVER_S
        yield at, 0


def intersection(ours: Iterable[Range], theirs: Iterable[Range]) -> Iterator[Range]:
    """What lies in a range of both; both are in order and disjoint, and so is the result."""
    left, right = iter(ours), iter(theirs)
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        begin, end = max(one[0], other[0]), min(one[1], other[1])
        if begin <= end:
            yield begin, end
        if one[1] < other[1]:
            one = next(left, None)
        else:
            other = next(right, None)


def most_together(lists: Iterable[Iterable[Range]]) -> int:
    """The greatest number of lists that have a range over one same start."""
    changes = sorted(
        change for each in lists for begin, end in each for change in ((begin, 1), (end + 1, -1))
    )
    most = together = 0
    for _, change in changes:
        together += change
        most = max(most, together)
    return most


def _end(step: Step) -> int:
    return step[1]
