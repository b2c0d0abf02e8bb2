"""Arrays of starts for many resources at once: pieces, their worths, their grains.

A *piece* is a range of starts at which one resource has the units free, all worth the same there. What
`ranges` and `levels` of `start_ranges` say of one resource is built here for thousands at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kalends.broker.planning.search_budget import Work
from kalends.core.progressions import Beat
from kalends.core.spans import Range, Stage, Step

Times = npt.NDArray[np.int64]
Worths = npt.NDArray[Any]
"""Whole numbers, as int64 where no sum can be too large for it, else as Python's own."""


class FreeArrays:
    """The free steps of many resources, one behind the other; read on first use.

    Raises `TooMuchWork` when more is asked of them than `work` allows.
    """

    def __init__(
        self, names: Iterable[str], free: Mapping[str, Sequence[Step]], work: Work | None = None
    ) -> None:
        self._work = work or Work()
        self._names = sorted(name for name in names if name in free)
        self._free = free

    @cached_property
    def _steps(self) -> tuple[Times, Times, Times, Times]:
        """The place of the resource, start, end and units of each step."""
        counts = [len(self._free[name]) for name in self._names]
        self._work.spend(3 * sum(counts))
        steps = chain.from_iterable(self._free[name] for name in self._names)
        numbers = np.fromiter(chain.from_iterable(steps), np.int64, 3 * sum(counts)).reshape(-1, 3)
        places = np.repeat(np.arange(len(self._names)), counts)
        return places, numbers[:, 0], numbers[:, 1], numbers[:, 2]

    def ranges(self, names: Sequence[str], stage: Stage, window: Range) -> Pieces:
        """Do as `start_ranges.ranges` for each of `names`; `Pieces.owner` is the place there."""
        owner, start, end, units = self._of(names)
        used = units >= stage.units
        owner, start, end = owner[used], start[used], end[used]
        begin = _changes(owner) | (start != _shifted(end))
        over = np.append(begin[1:], True)[: len(begin)]
        first = np.maximum(start[begin] - stage.offset_s, window[0])
        last = np.minimum(end[over] - stage.end_s, window[1])
        return Pieces(owner[begin], first, last).kept(first <= last)

    def levels(
        self, names: Sequence[str], stage: Stage, most: int, window: Range
    ) -> tuple[Pieces, Times]:
        """Do as `start_ranges.levels` for each of `names`: the pieces, and the units of each."""
        owner, start, units = _without_gaps(*self._of(names))
        self._work.spend(2 * len(owner))
        line = owner * _APART_S + start
        moments = np.concatenate((start - stage.offset_s, start - stage.end_s + 1))
        moments = np.clip(moments, window[0], window[1])
        of_moment = np.concatenate((owner, owner))
        begun = start[np.searchsorted(owner, of_moment)]
        known = moments + stage.offset_s >= begun
        since = of_moment[known] * _APART_S + moments[known] - window[0]
        of_moment, first = np.divmod(distinct(since), _APART_S)
        first += window[0]
        begin = of_moment * _APART_S + first + stage.offset_s
        below = np.searchsorted(line, begin, side="right") - 1
        until = np.searchsorted(line, begin + stage.length_s, side="left") - 1
        free = np.minimum(_least(units, below, until), most)
        kept = _changes(of_moment) | (free != _shifted(free))
        of_moment, first, free = of_moment[kept], first[kept], free[kept]
        last = np.full(len(first), window[1])
        same = ~_changes(of_moment)[1:]
        last[:-1][same] = first[1:][same] - 1
        enough = free >= stage.units
        return Pieces(of_moment, first, last).kept(enough), free[enough]

    def _of(self, names: Sequence[str]) -> tuple[Times, Times, Times, Times]:
        """Return place, start, end and units of the steps of `names`, in their order."""
        owner, start, end, units = self._steps
        self._work.spend(len(owner) // 2 + 3 * len(self._names))
        numbers = {name: number for number, name in enumerate(names)}
        of_place = np.array([numbers.get(name, -1) for name in self._names], dtype=np.int64)
        of_step = of_place[owner]
        used = of_step >= 0
        return of_step[used], start[used], end[used], units[used]


_APART_S: Final = 1 << 40
"""So far apart lie the times of different resources where all of them stand on one line."""


def distinct(times: Times) -> Times:
    """Return each of `times` once, in order. (`numpy.unique` hashes, and takes far longer.)"""
    in_order = np.sort(times)
    return in_order[_changes(in_order)]


def _changes(values: Times) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before; the first does."""
    changes = np.ones(len(values), dtype=bool)
    changes[1:] = values[1:] != values[:-1]
    return changes


def _shifted(values: Times) -> Times:
    """Return the value before each; for the first, itself."""
    return np.concatenate((values[:1], values[:-1]))


def _without_gaps(
    owner: Times, start: Times, end: Times, units: Times
) -> tuple[Times, Times, Times]:
    """Return owner, start and units of each step, with steps of 0 units in the gaps."""
    last = np.append(_changes(owner)[1:], True)[: len(owner)]
    gap = last | (np.append(start[1:], 0)[: len(owner)] != end)
    owners, starts = np.concatenate((owner, owner[gap])), np.concatenate((start, end[gap]))
    order = np.lexsort((starts, owners))
    both = np.concatenate((units, np.zeros(int(gap.sum()), np.int64)))
    return owners[order], starts[order], both[order]


def _least(values: Times, first: Times, last: Times) -> Times:
    """Return the least of `values` from each of `first` to each of `last`, both included.

    By a table of the least of all runs of a power of two (Bender and Farach-Colton 2000): two of them
    cover any run.
    """
    runs = last - first + 1
    result = np.zeros(len(runs), dtype=np.int64)
    table, length = values, 1
    while len(runs) and length <= int(runs.max()):
        fitting = (runs >= length) & (runs < 2 * length)
        result[fitting] = np.minimum(table[first[fitting]], table[last[fitting] - length + 1])
        table = np.minimum(table[:-length], table[length:])
        length *= 2
    return result


class Pieces(NamedTuple):
    """Ranges of starts, ends included, at which resource number `owner` is free."""

    owner: Times
    first: Times
    last: Times

    def kept(self, which: npt.NDArray[Any]) -> Pieces:
        return Pieces(self.owner[which], self.first[which], self.last[which])


def by_beat(
    pieces: Pieces, beats: Sequence[Beat]
) -> Iterator[tuple[Beat, npt.NDArray[Any], Times]]:
    """Yield the pieces of each beat: which they are, and their first starts on that beat.

    `beats` has one for each owner. Pieces without a start on their beat are left out.
    """
    distinct = sorted(set(beats))
    numbers = {beat: number for number, beat in enumerate(distinct)}
    of_piece = np.array([numbers[beat] for beat in beats], dtype=np.int64)[pieces.owner]
    for number, beat in enumerate(distinct):
        which = np.flatnonzero(of_piece == number)
        first = next_on(beat, pieces.first[which])
        some = first <= pieces.last[which]
        yield beat, which[some], first[some]


def next_on(beat: Beat, times: Times) -> Times:
    """Do as `Beat.next` for each of `times`."""
    return times + (beat.remainder - times) % beat.modulus


def hits(beat: Beat, times: Times) -> npt.NDArray[np.bool_]:
    """Do as `Beat.hits` for each of `times`."""
    return np.equal(times % beat.modulus, beat.remainder)


class StartCounts:
    """The sum of the values of all pieces over a start that their beat hits."""

    def __init__(self, pieces: Pieces, beats: Sequence[Beat], values: Worths) -> None:
        self._parts = []
        for beat, which, first in by_beat(pieces, beats):
            last, of_part = pieces.last[which], values[which]
            begun, over = np.argsort(first), np.argsort(last)
            self._parts.append(
                (beat, first[begun], _sums(of_part[begun]), last[over], _sums(of_part[over]))
            )

    def steps(self, number: int) -> int:
        """Return the work of `at` for `number` times."""
        return len(self._parts) * (20 + number // 2)

    def at(self, times: Times) -> Worths | int:
        """Return the sum at each of `times`."""
        total: Worths | int = 0
        for beat, first, begun, last, over in self._parts:
            opened = begun[np.searchsorted(first, times, side="right")]
            closed = over[np.searchsorted(last, times, side="left")]
            total = total + np.where(hits(beat, times), opened - closed, 0)
        return total


def _sums(values: Worths) -> Worths:
    """Return the sums of the first 0, 1, 2, ... of `values`."""
    return np.concatenate((np.zeros(1, dtype=values.dtype), np.cumsum(values)))


def united(pieces: Pieces) -> Pieces:
    """Return the starts in any piece of the same owner, as disjoint pieces."""
    if not len(pieces.owner):
        return pieces
    order = np.lexsort((pieces.first, pieces.owner))
    owner, first, last = pieces.owner[order], pieces.first[order], pieces.last[order]
    # Owners are put so far apart that the last end so far never reaches over to the next.
    apart = owner * (int(last.max()) - int(first.min()) + 2)
    reach = np.maximum.accumulate(last - int(first.min()) + apart)
    begins = np.ones(len(owner), dtype=bool)
    begins[1:] = (first - int(first.min()) + apart)[1:] > reach[:-1] + 1
    ends = np.append(begins[1:], True)
    return Pieces(owner[begins], first[begins], (reach - apart)[ends] + int(first.min()))
