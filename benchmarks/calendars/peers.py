"""The same work on what pip installs: plain sorted dicts, an interval tree, interval algebra.

Each does what its library makes natural, and no more checking than the answer needs.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

from sortedcontainers import SortedDict

from benchmarks.calendars.engines import Call, Engine, Kalends
from benchmarks.calendars.workload import Kind, Operation, Workload


class Peer(Engine):
    """An engine whose methods bear the words of the trace; what it has no method for, it cannot do."""

    def prepare_load(self, workload: Workload) -> Callable[[], object]:
        rows = [workload.booking(each) for each in workload.loaded]
        return lambda: self._load(rows)

    def prepare(self, operation: Operation) -> Call | None:
        call = getattr(self, f"_{operation.word}", None)
        return None if call is None else (call, operation.arguments)

    @abstractmethod
    def _load(self, rows: list[tuple[int, int, int, int]]) -> None:
        """Take all bookings: number, start, end, units."""


class StepDict(Peer):
    """Capacity: free units by change point in a SortedDict, walked point by point."""

    name = "SortedDict"
    module = "sortedcontainers"

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._free = SortedDict({-1: nodes})
        self._known: dict[int, tuple[int, int, int]] = {}

    def _load(self, rows: list[tuple[int, int, int, int]]) -> None:
        self._known = {number: (start, end, units) for number, start, end, units in rows}
        changes: dict[int, int] = {-1: self._nodes}
        for _, start, end, units in rows:
            changes[start] = changes.get(start, 0) - units
            changes[end] = changes.get(end, 0) + units
        times = sorted(changes)
        free = accumulate(changes[time] for time in times)
        self._free = SortedDict(zip(times, free, strict=True))

    def _point(self, time: int) -> None:
        if time not in self._free:
            self._free[time] = self._at(time)

    def _at(self, time: int) -> int:
        return self._free.peekitem(self._free.bisect_right(time) - 1)[1]

    def _change(self, start: int, end: int, units: int) -> None:
        self._point(start)
        self._point(end)
        for time in self._free.irange(start, end, inclusive=(True, False)):
            self._free[time] += units

    def _add(self, number: int, start: int, end: int, units: int) -> None:
        if self._min(start, end) < units:
            raise ValueError(f"booking {number} does not fit")
        self._change(start, end, -units)
        self._known[number] = (start, end, units)

    def _rem(self, number: int) -> None:
        self._change(*self._known.pop(number))

    def _min(self, start: int, end: int) -> int:
        inside = self._free.irange(start, end, inclusive=(False, False))
        return min([self._at(start), *(self._free[time] for time in inside)])

    def _steps(self, start: int, end: int) -> int:
        area, at, free = 0, start, self._at(start)
        for time in self._free.irange(start, end, inclusive=(False, False)):
            area += (time - at) * free
            at, free = time, self._free[time]
        return area + (end - at) * free

    def _fit(self, units: int, length: int, not_before: int, not_after: int) -> int | None:
        since = not_before if self._at(not_before) >= units else None
        for time in self._free.irange(not_before, None, inclusive=(False, False)):
            if since is not None and time - since >= length:
                break
            if self._free[time] < units:
                since = None
            elif since is None:
                since = time
        return None if since is None or since + length > not_after else since

    def _plan(self, number: int, units: int, length: int, *window: int) -> int | None:
        start = self._fit(units, length, *window)
        if start is not None:
            self._add(number, start, start + length, units)
        return start


class SlotDict(Peer):
    """Unit: ends and ids by start in a SortedDict, walked booking by booking."""

    name = "SortedDict"
    module = "sortedcontainers"

    def __init__(self, _: int) -> None:
        self._slots = SortedDict()
        self._starts: dict[int, int] = {}

    def _load(self, rows: list[tuple[int, int, int, int]]) -> None:
        self._slots = SortedDict({start: (end, number) for number, start, end, _ in rows})
        self._starts = {number: start for number, start, _, _ in rows}

    def _first(self, start: int) -> int:
        """The index of the first slot that ends after `start`."""
        index = self._slots.bisect_right(start)
        return index - (index > 0 and self._slots.peekitem(index - 1)[1][0] > start)

    def _min(self, start: int, end: int) -> int:
        index = self._first(start)
        return int(index == len(self._slots) or self._slots.peekitem(index)[0] >= end)

    def _add(self, number: int, start: int, end: int, _: int) -> None:
        if not self._min(start, end):
            raise ValueError(f"booking {number} does not fit")
        self._slots[start] = (end, number)
        self._starts[number] = start

    def _rem(self, number: int) -> None:
        del self._slots[self._starts.pop(number)]

    def _fit(self, _: int, length: int, not_before: int, not_after: int) -> int | None:
        at = not_before
        for start in self._slots.islice(self._first(not_before)):
            if start - at >= length:
                break
            at = max(at, self._slots[start][0])
        return at if at + length <= not_after else None

    def _list(self, start: int, end: int) -> int:
        total = 0
        for at in self._slots.islice(self._first(start), self._slots.bisect_left(end)):
            total += self._slots[at][1]
        return total


class Tree(Peer):
    """Unit: intervaltree; a search jumps to the end of whatever overlaps."""

    name = "intervaltree"
    module = "intervaltree"

    def __init__(self, _: int) -> None:
        self._library = importlib.import_module("intervaltree")
        self._tree = self._library.IntervalTree()
        self._known: dict[int, Any] = {}

    def _load(self, rows: list[tuple[int, int, int, int]]) -> None:
        self._known = {
            number: self._library.Interval(start, end, number) for number, start, end, _ in rows
        }
        self._tree = self._library.IntervalTree(self._known.values())

    def _min(self, start: int, end: int) -> int:
        return int(not self._tree.overlaps(start, end))

    def _add(self, number: int, start: int, end: int, _: int) -> None:
        if self._tree.overlaps(start, end):
            raise ValueError(f"booking {number} does not fit")
        self._known[number] = self._library.Interval(start, end, number)
        self._tree.add(self._known[number])

    def _rem(self, number: int) -> None:
        self._tree.remove(self._known.pop(number))

    def _fit(self, _: int, length: int, not_before: int, not_after: int) -> int | None:
        at = not_before
        while at + length <= not_after:
            found = self._tree.overlap(at, at + length)
            if not found:
                return at
            at = max(interval.end for interval in found)
        return None

    def _list(self, start: int, end: int) -> int:
        return sum(interval.data for interval in self._tree.overlap(start, end))


class Algebra(Peer):
    """Unit: what is free as one `portion` interval; bookings are taken from it and given back."""

    name = "portion"
    module = "portion"

    def __init__(self, _: int) -> None:
        self._library = importlib.import_module("portion")
        self._free = self._library.closedopen(0, self._library.inf)
        self._known: dict[int, Any] = {}

    def _load(self, rows: list[tuple[int, int, int, int]]) -> None:
        slot = self._library.closedopen
        self._known = {number: slot(start, end) for number, start, end, _ in rows}
        self._free -= self._library.Interval(*self._known.values())

    def _min(self, start: int, end: int) -> int:
        return int(self._library.closedopen(start, end) in self._free)

    def _add(self, number: int, start: int, end: int, _: int) -> None:
        slot = self._library.closedopen(start, end)
        if slot not in self._free:
            raise ValueError(f"booking {number} does not fit")
        self._free -= slot
        self._known[number] = slot

    def _rem(self, number: int) -> None:
        self._free |= self._known.pop(number)

    def _fit(self, _: int, length: int, not_before: int, not_after: int) -> int | None:
        for gap in self._free:
            at = max(gap.lower, not_before)
            if gap.upper >= at + length:
                return at if at + length <= not_after else None
        return None


ENGINES: Final[dict[Kind, tuple[type[Engine], ...]]] = {
    "capacity": (Kalends, StepDict),
    "unit": (Kalends, SlotDict, Tree, Algebra),
    "queue": (Kalends, StepDict),
}
"""The engines for each kind of calendar. All must give the answers that the first one gives."""


def installed(kind: Kind) -> tuple[list[type[Engine]], list[str]]:
    """The engines of `kind` that are installed, and the names of the modules that are missing."""
    there, missing = [], []
    for engine in ENGINES[kind]:
        try:
            importlib.import_module(engine.module)
        except ImportError:
            missing.append(engine.module)
        else:
            there.append(engine)
    return there, missing
