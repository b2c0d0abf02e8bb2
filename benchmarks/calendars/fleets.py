"""Searches over thousands of instruments at once, beside sorting all their gaps for every search.

The sort is also the judge: every answer of the fleet is compared with it. It is quick where the
fleet is slow, so that both are worth a look: it reads flat arrays that somebody has to keep.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.calendars.engines import NO_START, locked
from benchmarks.calendars.report import OURS, Row, figures
from benchmarks.calendars.workload import DAY_S, GAP_S, TOUCHING, VISIT_S
from kalends.calendars import Booking, UnitCalendar
from kalends.calendars.fleet import Fleet

SLOT_S: Final = 1_800
RARE: Final = 1 / 2_000
"""The share of starts at which a rare number of calendars is free together."""
SEARCHES: Final = 60
GROUP_S: Final = 6.0
"""No further search of a class is begun after so many seconds."""
SORTS: Final = 3
"""How often the sort is timed: one costs up to seconds."""
CHANGES_MAX: Final = 10_000
PARTIES: Final = (2, 4, 8)

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class Found:
    """The figures of one fleet."""

    rows: list[Row] = field(default_factory=list)
    compared: int = 0
    mismatches: list[dict[str, Any]] = field(default_factory=list)


class Sorted:
    """When how many calendars are free for a slot: the ends of all gaps, sorted."""

    def __init__(self, starts: Numbers, ends: Numbers, kept: NDArray[np.bool_]) -> None:
        """Rows are calendars; a booking counts where it is `kept`. Free for ever after the last."""
        rows = np.broadcast_to(np.arange(len(starts))[:, None], starts.shape)[kept]
        begin, end = starts[kept], ends[kept]
        free_from = np.concatenate([[0], end])
        free_from[:-1][np.flatnonzero(np.diff(rows, prepend=-1))] = 0
        fits = begin - free_from[:-1] >= SLOT_S
        tails = end[np.flatnonzero(np.diff(rows, append=len(starts)))]
        self._from = np.sort(np.concatenate([free_from[:-1][fits], tails]))
        self._until = np.sort(begin[fits] - SLOT_S)

    def count(self, at: Numbers) -> Numbers:
        """How many calendars are free for a slot that starts then."""
        begun = np.searchsorted(self._from, at, "right")
        return np.asarray(begun - np.searchsorted(self._until, at, "left"))

    def earliest(self, count: int, not_before: int) -> int:
        """The first start, or `NO_START`."""
        if self.count(np.array([not_before]))[0] >= count:
            return not_before
        first = int(np.searchsorted(self._from, not_before, "right"))
        size = 1_024
        while first < len(self._from):
            part = self._from[first : first + size]
            enough = np.flatnonzero(self.count(part) >= count)
            if len(enough):
                return int(part[enough[0]])
            first, size = first + size, 2 * size
        return NO_START


class Bench:
    """One fleet and the arrays that it was made from."""

    def __init__(self, calendars: int, bookings: int, seed: int) -> None:
        self.found = Found()
        self._random = np.random.default_rng([9, seed, calendars, bookings])
        self._place = {"kind": "fleet", "nodes": calendars, "bookings": bookings, "stopped": ""}
        shape = (calendars, bookings)
        low, high = np.log(VISIT_S[0]), np.log(VISIT_S[1])
        lengths = np.exp(self._random.uniform(low, high, shape)).astype(np.int64)
        gaps = self._random.exponential(GAP_S, shape).astype(np.int64)
        gaps[self._random.uniform(size=shape) < TOUCHING] = 0
        self._ends = np.cumsum(lengths + gaps, axis=1)
        self._starts = self._ends - lengths
        self._horizon_s = int(0.9 * self._ends[:, -1].min())
        self._not_after = int(self._ends.max()) + 30 * DAY_S
        self._all = np.ones(shape, dtype=bool)
        self._names = [f"instrument-{number}" for number in range(calendars)]
        self._calendars = {name: UnitCalendar() for name in self._names}

    def run(self) -> Found:
        self._load()
        changes = self._changes()
        alone_us = self._without_a_fleet(changes)
        fleet = Fleet(self._calendars)
        truth = Sorted(self._starts, self._ends, self._all)
        counts = truth.count(self._random.integers(0, self._horizon_s, 100_000))
        common, rare = int(np.median(counts)), int(np.quantile(counts, 1 - RARE)) + 1
        began_ns = time.perf_counter_ns()
        self._together(fleet, common, 0)
        self._note("first", [time.perf_counter_ns() - began_ns])
        steady_us = 0.0
        for group, count in (("common", common), ("rare", min(rare, len(fleet)))):
            us = self._search(
                group,
                lambda at, count=count: self._together(fleet, count, at),
                lambda at, count=count: truth.earliest(count, at),
            )
            steady_us = steady_us or us
            self._sorts(group, count)
        for parties in PARTIES:
            self._common_slot(fleet, parties)
        self._keep_current(fleet, changes, common, steady_us, alone_us)
        return self.found

    def _load(self) -> None:
        spent_ns = 0
        for row, calendar in enumerate(self._calendars.values()):
            bookings = [self._booking(row, number) for number in range(self._starts.shape[1])]
            began_ns = time.perf_counter_ns()
            calendar.load(bookings)
            spent_ns += time.perf_counter_ns() - began_ns
        self._note("load", [spent_ns])

    def _booking(self, row: int, number: int) -> Booking:
        return locked(number, int(self._starts[row, number]), int(self._ends[row, number]), 1)

    def _changes(self) -> list[tuple[int, int]]:
        """Calendar and booking of what is released, and then booked again."""
        size = self._starts.size
        chosen = self._random.choice(size, min(CHANGES_MAX, size // 10), replace=False)
        return [divmod(each, self._starts.shape[1]) for each in chosen.tolist()]

    def _without_a_fleet(self, changes: Sequence[tuple[int, int]]) -> float:
        calendars = list(self._calendars.values())
        times = _timed(lambda at: calendars[at[0]].release(at[1]), changes)
        again = [(calendars[row], self._booking(row, number)) for row, number in changes[::-1]]
        times += _timed(lambda pair: pair[0].book(pair[1]), again)
        return statistics.fmean(times) / 1e3

    def _keep_current(
        self,
        fleet: Fleet,
        changes: Sequence[tuple[int, int]],
        common: int,
        steady_us: float,
        alone_us: float,
    ) -> None:
        """Release all, search, book all again, search: each search must see every change."""
        names = self._names
        times = _timed(lambda at: fleet.release(names[at[0]], at[1]), changes)
        fewer = self._all.copy()
        fewer[tuple(np.array(changes).T)] = False
        first = [self._checked_search(fleet, common, Sorted(self._starts, self._ends, fewer))]
        again = [(names[row], self._booking(row, number)) for row, number in changes[::-1]]
        times += _timed(lambda pair: fleet.book(*pair), again)
        first.append(
            self._checked_search(fleet, common, Sorted(self._starts, self._ends, self._all))
        )
        extra_us = sum(first) / 1e3 - len(first) * steady_us
        amortised_us = (sum(times) / 1e3 + max(0.0, extra_us)) / len(times)
        self._note(
            "upkeep",
            times,
            amortised_us=amortised_us,
            alone_us=alone_us,
            upkeep_us=amortised_us - alone_us,
        )
        self._note("catch-up", first)

    def _checked_search(self, fleet: Fleet, count: int, truth: Sorted) -> int:
        at = int(self._random.integers(self._horizon_s))
        began_ns = time.perf_counter_ns()
        answer = self._together(fleet, count, at)
        elapsed_ns = time.perf_counter_ns() - began_ns
        self._compare("catch-up", at, answer, truth.earliest(count, at))
        return elapsed_ns

    def _common_slot(self, fleet: Fleet, parties: int) -> None:
        chosen = self._random.choice(len(fleet), min(parties, len(fleet)), replace=False)
        truth = Sorted(self._starts[chosen], self._ends[chosen], self._all[chosen])
        names = [self._names[row] for row in chosen.tolist()]

        def slot(at: int) -> int | None:
            return fleet.common_slot(names, 1, SLOT_S, at, self._not_after)

        self._search(f"slot-{parties}", slot, lambda at: truth.earliest(len(names), at))

    def _together(self, fleet: Fleet, count: int, at: int) -> int | None:
        found = fleet.earliest_together(count, 1, SLOT_S, at, self._not_after)
        return None if found is None else found.start

    def _search(
        self, group: str, ask: Callable[[int], int | None], judge: Callable[[int], int]
    ) -> float:
        """Ask at random times, compare; the median in us."""
        times: list[int] = []
        stops_s = time.perf_counter() + GROUP_S
        for at in self._random.integers(0, self._horizon_s, SEARCHES).tolist():
            began_ns = time.perf_counter_ns()
            answer = ask(at)
            times.append(time.perf_counter_ns() - began_ns)
            self._compare(group, at, answer, judge(at))
            if time.perf_counter() > stops_s:
                break
        self._note(group, times)
        return statistics.median(times) / 1e3

    def _sorts(self, group: str, count: int) -> None:
        """The same search without a fleet: all gaps are sorted for it."""
        times = []
        for at in self._random.integers(0, self._horizon_s, SORTS).tolist():
            began_ns = time.perf_counter_ns()
            Sorted(self._starts, self._ends, self._all).earliest(count, at)
            times.append(time.perf_counter_ns() - began_ns)
        self.found.rows.append(
            {**self._place, "group": group, "engine": "full sort", **figures(times)}
        )

    def _compare(self, group: str, at: int, answer: int | None, expected: int) -> None:
        self.found.compared += 1
        said = NO_START if answer is None else answer
        if said != expected:
            place = self._place
            self.found.mismatches.append(
                {
                    "workload": f"fleet {place['nodes']:,} x {place['bookings']:,}",
                    "engine": "full sort",
                    "position": self.found.compared,
                    "line": f"{group} from {at}",
                    "answer": expected,
                    "expected": said,
                }
            )

    def _note(self, group: str, times_ns: list[int], **more: float) -> None:
        row = {**self._place, "group": group, "engine": OURS, **figures(times_ns), **more}
        self.found.rows.append(row)


def measure(calendars: int, bookings: int, seed: int) -> Found:
    """All figures of a fleet of so many unit calendars with so many bookings each."""
    gc.collect()
    gc.disable()
    try:
        return Bench(calendars, bookings, seed).run()
    finally:
        gc.enable()
        gc.collect()


def _timed(change: Callable[[Any], object], things: Sequence[Any]) -> list[int]:
    """Nanoseconds of each."""
    times = []
    for thing in things:
        began_ns = time.perf_counter_ns()
        change(thing)
        times.append(time.perf_counter_ns() - began_ns)
    return times
