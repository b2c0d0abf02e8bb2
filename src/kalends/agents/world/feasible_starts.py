"""Common starts at which one resource could serve a demand.

They are a few closed ranges (where enough units stay free for long enough), cut with one arithmetic
progression (where the slot starts and ends on the resource's grain).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kalends.agents.world.visible_calendar import Shown
from kalends.core.grains import grain_of
from kalends.core.progressions import Beat
from kalends.core.scripts import Ask
from kalends.core.spans import Range, Stage, Step, beat_of, ranges

_DAY_S: Final = 86_400
_ROUND_STEPS_S: Final = (
    60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200, _DAY_S, 2 * _DAY_S,
    7 * _DAY_S, 14 * _DAY_S,
)  # fmt: skip
"""Steps that people would choose: starts then fall on full quarters of an hour, hours or days."""


def round_step_s(modulus: int, length_s: int, most: int) -> int:
    """Return a multiple of `modulus`, preferably round, with at most `most` starts in `length_s`."""
    least_s = -(-(length_s + 1) // most)
    if least_s <= modulus:
        return modulus
    for round_s in _ROUND_STEPS_S:
        if round_s >= least_s and round_s % modulus == 0:
            return round_s
    return -(-least_s // modulus) * modulus


class FeasibleStarts(NamedTuple):
    """Feasible starts of `ask`: the common starts of `ranges` on the `beat`."""

    ask: Ask
    steps: tuple[Step, ...]
    beat: Beat
    ranges: tuple[Range, ...]

    def fitting(self, commons: Sequence[int]) -> list[int]:
        """Return the `commons` (sorted) at which it could be served."""
        return [
            common
            for first, last in self.ranges
            for common in commons[bisect_left(commons, first) : bisect_right(commons, last)]
            if self.beat.hits(common)
        ]

    def fitting_count(self, on_beat: Sequence[int]) -> int:
        """Count how many of `on_beat` (sorted, all on the beat) fit."""
        return sum(
            bisect_right(on_beat, last) - bisect_left(on_beat, first) for first, last in self.ranges
        )


def servings_of(
    shown: Mapping[str, Shown], asks: Iterable[Ask], first: int, last: int
) -> list[FeasibleStarts]:
    """Return for every feasible ask its common starts from `first` to `last`."""
    found: list[FeasibleStarts] = []
    for ask in asks if first <= last else ():
        here = shown.get(ask.resource)
        stage = Stage(ask.offset_s, ask.length_s, ask.units)
        beat = beat_of(stage, grain_of(here.info)) if here else None
        if here is None or beat is None:
            continue
        suiting = tuple(ranges(here.free, stage, first, last))
        if suiting:
            found.append(FeasibleStarts(ask, here.free, beat, suiting))
    return found


def count(beat: Beat, ranges: Iterable[Range]) -> int:
    """Count the times of `beat` in `ranges`."""
    return sum(beat.number_in(first, last) for first, last in ranges)


def sampled(beat: Beat, ranges: Sequence[Range], count_max: int) -> list[int]:
    """Return the times of `beat` in `ranges`: all, or `count_max` of them, evenly by rank."""
    begins = ((beat.next(first), beat.number_in(first, last)) for first, last in ranges)
    times: list[int] = []
    before = begin = here = 0
    for rank in evenly(count(beat, ranges), count_max):
        while rank - before >= here:
            before += here
            begin, here = next(begins)
        times.append(begin + (rank - before) * beat.modulus)
    return times


def evenly(size: int, count_max: int) -> Iterable[int]:
    """Return the ranks of `count_max` out of `size`, the first and (of two or more) the last too.

    All if fewer.
    """
    if size <= count_max:
        return range(size)
    return [number * (size - 1) // max(count_max - 1, 1) for number in range(count_max)]


def evenly_of(times: Sequence[int], count_max: int) -> list[int]:
    return [times[rank] for rank in evenly(len(times), count_max)]


def least_free(steps: Sequence[Step], starts: Sequence[int], length_s: int) -> list[int]:
    """Return for each of `starts` (ascending) the least free units during `length_s`; 0 in gaps.

    One pass over both: a step leaves the `lowest` when it is over, or when one with less follows.
    """
    least = []
    lowest: deque[Step] = deque()
    index = covered_from = covered_to = 0
    for start in starts:
        end = start + length_s
        while lowest and lowest[0][1] <= start:
            lowest.popleft()
        if not lowest:
            index = bisect_right(steps, start, lo=index, key=_end)
        while index < len(steps) and steps[index][0] < end:
            step = steps[index]
            if step[0] != covered_to:
                covered_from = step[0]
            covered_to = step[1]
            while lowest and lowest[-1][2] >= step[2]:
                lowest.pop()
            lowest.append(step)
            index += 1
        whole = covered_from <= start and end <= covered_to
        least.append(lowest[0][2] if whole and lowest else 0)
    return least


def _end(step: Step) -> int:
    return step[1]
