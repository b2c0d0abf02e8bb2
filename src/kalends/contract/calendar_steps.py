"""A calendar as steps: the locked, held and free units between one change and the next."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from kalends.contract.calls import CalendarView

_COLUMN_LENGTHS_S = [
    *(minutes * 60 for minutes in (1, 2, 5, 10, 15, 20, 30)),
    *(hours * 3_600 for hours in (1, 2, 3, 4, 6, 8, 12)),
    *(days * 86_400 for days in (1, 2, 7, 14, 28, 56)),
]
"""Lengths of a column and of the step between labels: easy numbers for people."""


class UnitCounts(NamedTuple):
    """Units locked, held and free for the caller during ``[start, end)``."""

    start: int
    end: int
    locked: int
    held: int
    free: int
    known: bool
    past: bool = False

    @property
    def rest(self) -> Literal["past", "closed", "unknown"]:
        """The state of units that are neither taken nor free."""
        return "past" if self.past else "closed" if self.known else "unknown"

    @property
    def taken(self) -> int:
        return self.locked + self.held


@dataclass(frozen=True)
class TimeGrid:
    """A calendar in columns of `column_s` seconds from `start` on, each with its fullest moment."""

    start: int
    column_s: int
    columns: tuple[UnitCounts, ...]


def moments(view: CalendarView) -> list[UnitCounts]:
    """Return the calendar as steps: the locked, held and free units between one change and the next."""
    deltas: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    pieces = [(slot.start, slot.end, slot.units, slot.state) for slot in view.slots]
    pieces += [(start, end, units, "available") for start, end, units in view.free]
    for start, end, units, state in pieces:
        place = ("locked", "held", "available").index(state)
        start, end = max(start, view.start), min(end, view.end)
        if start < end:
            deltas[start][place] += units
            deltas[end][place] -= units
    borders = (min(max(each, view.start), view.end) for each in (view.until, view.now))
    edges = sorted({view.start, view.end, *borders, *deltas})
    steps = []
    locked = held = free = 0
    for start, end in pairwise(edges):
        locked, held, free = (
            sum(pair) for pair in zip((locked, held, free), deltas[start], strict=True)
        )
        # The rest of the present grain can still be booked.
        known, past = start < view.until, end <= view.now and not free
        steps.append(UnitCounts(start, end, locked, held, free, known, past))
    return steps


def grid(view: CalendarView, width: int) -> TimeGrid:
    """Return the calendar in at most `width` columns of an easy length."""
    length_s = view.end - view.start
    column_s = round_length_s(-(-length_s // width))
    steps, first = moments(view), 0
    columns = []
    for start in range(view.start, view.end, column_s):
        while steps[first].end <= start:
            first += 1
        last = first
        while last + 1 < len(steps) and steps[last + 1].start < start + column_s:
            last += 1
        columns.append(
            max(steps[first : last + 1], key=lambda step: (step.taken, not step.past, -step.free))
        )
    return TimeGrid(view.start, column_s, tuple(columns))


def round_length_s(length_s: int) -> int:
    """Return the shortest easy length of time that is not shorter than this."""
    for candidate in _COLUMN_LENGTHS_S:
        if candidate >= length_s:
            return candidate
    return -(-length_s // _COLUMN_LENGTHS_S[-1]) * _COLUMN_LENGTHS_S[-1]
