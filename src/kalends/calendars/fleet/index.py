"""All gaps of a fleet for one amount of units, in buckets of time, changed gap by gap.

A bucket knows the gaps that open in it and the gaps that close in it, each as a sorted column, and
for every calendar the end of the gap that is carried into it from before. A calendar has at most one
gap at a time, so that a gap over many buckets costs one number in each, and every bucket can be
counted by itself. Buckets are cut so that about `bucket_gaps` gaps open in each. A change is only
noted; it is worked in when a search is made, or with as many others as a bucket has gaps.

How many calendars are open to a slot of one length is bounded per bucket by what earlier searches
found there. A booking can only lower it, a release raises it by at most one: so a bound is raised
where something became free and holds for ever, and a search skips whatever lies below its count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from kalends.calendars.fleet.column import GONE, NUMBER_BITS, Numbers, columns_between, hand_out
from kalends.calendars.fleet.gap_changes import Cuts, GapChanges, spread
from kalends.calendars.fleet.open_counts import OpenCounts
from kalends.core import limits
from kalends.core.intervals import Interval

_NUMBER: Final = (1 << NUMBER_BITS) - 1

_BOUNDS_MAX: Final = 16
"""Kinds of search whose bounds are kept."""

_UNKNOWN: Final = 1 << 40
"""The bound of a bucket that was never searched: above any number of calendars."""

_CARRIED_MAX: Final = 1 << 20
"""Numbers that are carried over borders in one go: gaps over very many buckets take memory in parts."""

_OVERFULL: Final = 4
"""The multiple of `bucket_gaps` at which a bucket is cut in two."""


class GapIndex:
    """The gaps of calendars numbered below `room`; each is given as ``(number, gaps in order)``.

    Not thread-safe. Memory: about 32 bytes per gap, 8 per calendar and bucket, 64 per change noted.
    """

    FEW: ClassVar[int] = 16
    """Cuts up to which they are made one by one; more are cheaper together."""

    def __init__(
        self, calendars: Iterable[tuple[int, list[Interval]]], room: int, bucket_gaps: int
    ) -> None:
        self._bucket_gaps = bucket_gaps
        starts, ends, numbers = _columns(calendars)
        order = np.lexsort((numbers, starts))
        cuts = np.unique(starts[order[bucket_gaps::bucket_gaps]])
        cuts = np.concatenate((np.zeros(1, np.int64), cuts[cuts > 0]))
        self._edges: Numbers = cuts
        self._opening = columns_between((starts << NUMBER_BITS | numbers)[order], ends[order], cuts)
        order = np.lexsort((numbers, ends))
        self._closing = columns_between((ends << NUMBER_BITS | numbers)[order], starts[order], cuts)
        self._carried: Numbers = np.zeros((len(cuts), room), np.int64)
        self._carry(cuts.searchsorted(starts, "right"), cuts.searchsorted(ends), numbers, ends)
        # A bound counts from what its bucket was raised by when it was found: one number to raise.
        self._bounds: Numbers = np.full((_BOUNDS_MAX, len(cuts)), _UNKNOWN, np.int64)
        self._raised: Numbers = np.zeros(len(cuts), np.int64)
        self._bounded: dict[tuple[int, int], int] = {}
        self._log = GapChanges()
        self._changes = 0

    def change(
        self, number: int, before: list[Interval], after: list[Interval], *, freed: bool
    ) -> None:
        """Replace the gaps `before` of calendar `number` by `after`; `freed`: it may have more."""
        old, new = set(before), set(after)
        opened = new - old
        for start, end in old - new:
            self._log.cut(number, start, end, start, end, back=False)
        for start, end in opened:
            self._log.cut(number, start, end, start, end, back=True)
        if freed and opened:
            self._log.free(min(opened).start, max(opened).end)
        self._noted(len(opened))

    def cut(self, number: int, begin: int, until: int, start: int, end: int, *, back: bool) -> None:
        """Cut ``[start, end)`` from the gap ``[begin, until)`` of calendar `number`, or put it `back`."""
        self._log.cut(number, begin, until, start, end, back=back)
        if back:
            self._log.free(begin, until)
        self._noted(1)

    @property
    def room(self) -> int:
        """The number of calendar numbers that there is room for."""
        return int(self._carried.shape[1])

    def make_room(self, room: int) -> None:
        """Let there be numbers below `room`."""
        more = room - self.room
        if more > 0:
            self._carried = np.pad(self._carried, ((0, 0), (0, more + room // 4)))

    def earliest(
        self,
        count: int,
        length_s: int,
        first: int,
        last: int,
        grain_s: int,
        among: NDArray[np.bool_] | None,
    ) -> int | None:
        """Return the first multiple of `grain_s` in ``[first, last]`` at which `count` calendars are open.

        `among` (by number) restricts who counts. O(buckets) and a pass over each bucket that no
        earlier search has ruled out.
        """
        self._catch_up()
        for bucket in self._hopeful(count, length_s, first, last, grain_s):
            begin, end = self._begin(bucket), self._end(bucket)
            start, stop = max(begin, first), min(end, last + 1)
            tally = self._tally(bucket, length_s, among)
            found, bound = tally.first(count, start, stop, grain_s)
            if found is not None:
                return found
            if among is None and start == begin and stop == end:
                self._bounds[self._row(length_s, grain_s), bucket] = bound - self._raised[bucket]
        return None

    def counted(
        self, count: int, length_s: int, times: Numbers, among: NDArray[np.bool_] | None
    ) -> Numbers:
        """Return the `times` (sorted) at which at least `count` calendars are open."""
        if not len(times):
            return times
        self._catch_up()
        found = []
        for bucket in self._hopeful(count, length_s, int(times[0]), int(times[-1]), 1):
            part = times[slice(*times.searchsorted((self._begin(bucket), self._end(bucket))))]
            found.append(part[self._tally(bucket, length_s, among).at(part) >= count])
        return np.concatenate(found) if found else times[:0]

    def holders(self, start: int, length_s: int) -> list[int]:
        """Return the numbers of the calendars that are open to a slot at `start`, in order."""
        self._catch_up()
        bucket = self._bucket(start)
        keys, values = self._opening[bucket].read()
        upto = int(keys.searchsorted((start + 1) << NUMBER_BITS))
        ends = self._carried[bucket].copy()
        # A calendar's gaps come in order of time, and the last assignment counts.
        ends[keys[:upto] & _NUMBER] = values[:upto]
        numbers: list[int] = (ends >= start + length_s).nonzero()[0].tolist()
        return numbers

    def check(self, calendars: Iterable[tuple[int, list[Interval]]]) -> None:
        """Raises `AssertionError` unless all is as built afresh from `calendars`, and bounds hold."""
        self._catch_up()
        starts, ends, numbers = _columns(calendars)
        assert self._edges[0] == 0
        assert (np.diff(self._edges) > 0).all()
        assert len(self._edges) == len(self._opening) == len(self._closing) == len(self._carried)
        assert self._bounds.shape == (_BOUNDS_MAX, len(self._edges))
        assert len(self._raised) == len(self._edges)
        for bucket, begin in enumerate(self._edges.tolist()):
            end = self._end(bucket)
            for column, keyed, valued in (
                (self._opening[bucket], starts, ends),
                (self._closing[bucket], ends, starts),
            ):
                here = ((keyed >= begin) & (keyed < end)).nonzero()[0]
                order = here[np.lexsort((numbers[here], keyed[here]))]
                keys, values = column.read()
                assert (keys == (keyed << NUMBER_BITS | numbers)[order]).all(), bucket
                assert (values == valued[order]).all(), bucket
            carried = np.zeros(self.room, np.int64)
            across = (starts < begin) & (ends > begin)
            carried[numbers[across]] = ends[across]
            assert (self._carried[bucket] == carried).all(), bucket
            for (length_s, grain_s), row in self._bounded.items():
                tally = self._tally(bucket, length_s, None)
                bound = int(self._bounds[row, bucket] + self._raised[bucket])
                found, _ = tally.first(bound + 1, begin, end, grain_s)
                assert found is None, (bucket, length_s, grain_s)

    def _hopeful(
        self, count: int, length_s: int, first: int, last: int, grain_s: int
    ) -> Iterator[int]:
        """Yield the buckets of ``[first, last]`` that no bound rules out; what fits long also fits short."""
        rows = [
            row
            for (shorter_s, finer_s), row in self._bounded.items()
            if shorter_s <= length_s and grain_s % finer_s == 0
        ]
        begin, end = self._bucket(first), self._bucket(last) + 1
        if not rows:
            yield from range(begin, end)
            return
        bounds = self._bounds[rows, begin:end].min(axis=0) + self._raised[begin:end]
        yield from (bounds >= count).nonzero()[0] + begin

    def _tally(self, bucket: int, length_s: int, among: NDArray[np.bool_] | None) -> OpenCounts:
        begin, end = self._begin(bucket), self._end(bucket)
        carried = self._carried[bucket] >= begin + length_s
        if among is not None:
            carried &= among
        keys, ends = self._opening[bucket].read()
        starts = keys >> NUMBER_BITS
        fitting = ends - starts >= length_s
        if among is not None:
            fitting &= among[keys & _NUMBER]
        return OpenCounts(
            int(np.count_nonzero(carried)),
            starts[fitting],
            self._closes(begin + length_s, end + length_s - 1, length_s, among),
        )

    def _closes(
        self, begin: int, end: int, length_s: int, among: NDArray[np.bool_] | None
    ) -> Numbers:
        """Return when gaps that end in ``[begin, end)`` close to slots of `length_s`, in order."""
        parts = [np.zeros(0, np.int64)]
        end = min(end, limits.TIME_S_MAX + 1)
        for bucket in range(self._bucket(begin), self._bucket(end - 1) + 1):
            keys, starts = self._closing[bucket].read()
            low, high = keys.searchsorted((begin << NUMBER_BITS, end << NUMBER_BITS))
            keys = keys[low:high]
            ends = keys >> NUMBER_BITS
            fitting = ends - starts[low:high] >= length_s
            if among is not None:
                fitting &= among[keys & _NUMBER]
            parts.append(ends[fitting])
        return np.concatenate(parts) - length_s + 1

    def _row(self, length_s: int, grain_s: int) -> int:
        """Return the row of bounds for this kind of search, replacing the least recently used one."""
        kind = (length_s, grain_s)
        row = self._bounded.pop(kind, None)
        if row is None:
            row = len(self._bounded)
            if row == _BOUNDS_MAX:
                row = self._bounded.pop(next(iter(self._bounded)))
            self._bounds[row] = _UNKNOWN
        self._bounded[kind] = row
        return row

    def _bucket(self, time_s: int) -> int:
        return int(self._edges.searchsorted(time_s, "right")) - 1

    def _begin(self, bucket: int) -> int:
        return int(self._edges[bucket])

    def _end(self, bucket: int) -> int:
        """Return the end of `bucket`; the last holds the end of time."""
        later = bucket + 1
        return self._begin(later) if later < len(self._edges) else limits.TIME_S_MAX + 1

    def _noted(self, count: int) -> None:
        self._changes += count
        if self._changes >= self._bucket_gaps:
            self._catch_up()
            self._keep_even()

    def _catch_up(self) -> None:
        """Work in what was noted; columns settle it when they are read."""
        if not len(self._log):
            return
        cuts, freed = self._log.take()
        if len(cuts.numbers) <= self.FEW:
            self._make_one_by_one(cuts)
        else:
            closing, keys, values = cuts.ends()
            places = self._edges.searchsorted(keys >> NUMBER_BITS, "right") - 1
            places[closing] += len(self._opening)
            hand_out((*self._opening, *self._closing), places, keys, values)
            self._carry(*cuts.carried(self._edges))
        size = len(self._edges) + 1
        first = self._edges.searchsorted(freed[:, 0], "right") - 1
        stop = self._edges.searchsorted(freed[:, 1])
        raised = np.bincount(first, minlength=size) - np.bincount(stop, minlength=size)
        self._raised += raised.cumsum()[:-1]

    def _make_one_by_one(self, cuts: Cuts) -> None:
        """Apply cuts one by one, like `hand_out` and `_carry`, which are slow for a few."""
        at = self._edges.searchsorted(cuts.times).tolist()
        beyond = self._edges.searchsorted(cuts.times, "right").tolist()
        for cut, before, after in zip(cuts.listed(), at, beyond, strict=True):
            number, (begin, until, start, end), back = cut
            opens = until if back else start if begin < start else GONE
            closes = begin if back else end if end < until else GONE
            self._opening[after[0] - 1].put((begin << NUMBER_BITS | number,), (opens,))
            self._closing[after[1] - 1].put((until << NUMBER_BITS | number,), (closes,))
            if begin < start:
                other = GONE if back else begin
                self._closing[after[2] - 1].put((start << NUMBER_BITS | number,), (other,))
            if end < until:
                other = GONE if back else until
                self._opening[after[3] - 1].put((end << NUMBER_BITS | number,), (other,))
            if back:
                self._carried[after[0] : before[1], number] = until
            else:
                self._carried[after[0] : before[2], number] = start
                self._carried[before[2] : after[3], number] = 0

    def _carry(self, first: Numbers, stop: Numbers, numbers: Numbers, ends: Numbers) -> None:
        """Record in all buckets of ``[first, stop)`` a gap carried up to `end`, or 0 for none."""
        rows = max(_CARRIED_MAX // len(self._edges), 1)
        for row in range(0, len(first), rows):
            part = slice(row, row + rows)
            buckets, whose = spread(first[part], stop[part])
            # Of one that is written twice, the last assignment counts.
            self._carried[buckets, numbers[part][whose]] = ends[part][whose]

    def _keep_even(self) -> None:
        """Cut overfull buckets and join small ones, because buckets emptied by time may not add up."""
        self._changes = 0
        sizes = [column.size_max() for column in self._opening]
        for bucket in range(len(sizes) - 1, -1, -1):
            both = sum(sizes[bucket : bucket + 2])
            if both <= self._bucket_gaps // 2 and bucket + 1 < len(self._edges):
                self._join(bucket)
                sizes[bucket] = both
            else:
                self._split(bucket)

    def _split(self, bucket: int) -> None:
        if self._opening[bucket].size_max() <= _OVERFULL * self._bucket_gaps:
            return
        keys, ends = self._opening[bucket].read()
        starts = keys >> NUMBER_BITS
        middle = max(len(keys) // 2, int(starts.searchsorted(self._begin(bucket), "right")))
        if middle >= len(keys):
            return
        cut = int(starts[middle])
        across = self._carried[bucket].copy()
        upto = int(starts.searchsorted(cut))
        across[keys[:upto] & _NUMBER] = ends[:upto]
        across[across <= cut] = 0
        self._opening.insert(bucket + 1, self._opening[bucket].split(cut << NUMBER_BITS))
        self._closing.insert(bucket + 1, self._closing[bucket].split(cut << NUMBER_BITS))
        self._edges = np.insert(self._edges, bucket + 1, cut)
        self._carried = np.insert(self._carried, bucket + 1, across, axis=0)
        self._bounds = np.insert(self._bounds, bucket + 1, self._bounds[:, bucket], axis=1)
        self._raised = np.insert(self._raised, bucket + 1, self._raised[bucket])
        self._split(bucket + 1)
        self._split(bucket)

    def _join(self, bucket: int) -> None:
        """Join it with the next."""
        later = bucket + 1
        self._opening[bucket].join(self._opening.pop(later))
        self._closing[bucket].join(self._closing.pop(later))
        self._edges = np.delete(self._edges, later)
        self._carried = np.delete(self._carried, later, axis=0)
        self._bounds += self._raised
        self._bounds[:, bucket] = self._bounds[:, bucket : later + 1].max(axis=1)
        self._bounds = np.delete(self._bounds, later, axis=1)
        self._raised = np.zeros(len(self._edges), np.int64)


def _columns(calendars: Iterable[tuple[int, list[Interval]]]) -> tuple[Numbers, Numbers, Numbers]:
    """Return starts, ends and calendar numbers of all gaps."""
    pairs, numbers, sizes = [np.zeros((0, 2), np.int64)], [], []
    for number, gaps in calendars:
        flat = np.fromiter(chain.from_iterable(gaps), np.int64, 2 * len(gaps))
        pairs.append(flat.reshape(-1, 2))
        numbers.append(number)
        sizes.append(len(gaps))
    every = np.concatenate(pairs)
    return every[:, 0], every[:, 1], np.repeat(np.array(numbers, np.int64), sizes)
