"""The common starts at which one resource could serve: ranges and levels of units.

`spans.ranges` says where enough units are free; `levels` says how many there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from kalends.broker.planning.search_budget import Work
from kalends.core import spans
from kalends.core.spans import Range, Stage, Step

_FOR_EVER_S: Final = 1 << 40


def added(stages: Sequence[Stage]) -> list[Stage]:
    """Return stages of one resource with units added up where they overlap."""
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
    """Do as `spans.ranges` at the expense of `work`. Raises `TooMuchWork`."""
    return spans.ranges(steps, stage, first, last, (work or Work()).spend)


def levels(
    steps: Sequence[Step], stage: Stage, most: int, first: int, last: int
) -> Iterator[tuple[int, int, int]]:
    """Yield ``(first, last, units)``: as `ranges`, with the units free all along, up to `most`.

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
    """Yield ``(end, units)`` from `begin` on, with 0 units between steps and after them."""
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


def most_together(lists: Iterable[Iterable[Range]]) -> int:
    """Return the greatest number of lists with a range over the same start."""
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
