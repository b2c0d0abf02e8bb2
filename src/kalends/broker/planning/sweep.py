"""The sweep over common starts: named resources by intersection, attribute terms by matching.

Why few starts need to be tried. Say that t is a start that suits, with some resources picked. Each of
them, and each named one, has a range of starts around t (see `spans.ranges`); let p be the latest
begin of these ranges, or where the search begins if that is later. Every start from p to t lies in
all those ranges, so that the first one from p on the joint beat of the same resources suits too, and
is no later than t. Hence the earliest start is always the next time of some joint beat after the
begin of some range, and the sweep visits just these, in order. Joint beats are few: resources
have few different grains, and most divide one another.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from kalends.broker.planning.assignment import first_assignment
from kalends.broker.planning.search_budget import Work
from kalends.core.errors import InvalidInput
from kalends.core.progressions import Beat
from kalends.core.spans import Range

BEATS_MAX: Final = 1_000
"""Joint beats of one search: with grains that divide one another there are as many as grains."""


class PickCandidate(NamedTuple):
    """A resource for an attribute term: its ranges of starts, in order, and its beat."""

    resource: str
    ranges: Iterator[Range]
    beat: Beat


class PickRanges(NamedTuple):
    """An attribute term: `wanted` different ones of `candidates` (in order of name).

    Pickings of one `group` overlap in time, directly or in a chain, and share no resource.
    """

    group: int
    wanted: int
    candidates: Sequence[PickCandidate]


class CommonStart(NamedTuple):
    """A start that suits, with the names picked for each term, in order."""

    start: int
    picked: tuple[tuple[str, ...], ...]


class Sweep:
    """A search of starts in ascending order that reads every range once, as far as needed.

    `named` are the ranges that suit all named resources, `beat` their joint beat. Raises
    `InvalidInput` when grains fit together in more than `BEATS_MAX` ways, and `TooMuchWork`.
    """

    def __init__(
        self, first: int, last: int, named: Iterator[Range], beat: Beat,
        pickings: Sequence[PickRanges], work: Work | None = None,
    ) -> None:  # fmt: skip
        self._work = work or Work()
        self._last = last
        self._named = named
        self._range: Range | None = (first, first - 1)
        self._pickings = pickings
        self._beats = joint_beats(
            first, last, beat, {each.beat for picking in pickings for each in picking.candidates}
        )
        self._candidates = [each for picking in pickings for each in picking.candidates]
        self._owner = [
            number for number, picking in enumerate(pickings) for _ in picking.candidates
        ]
        self._opening: list[tuple[int, int, int]] = []
        """Heap of ``(first, candidate, last)``: the next range of each candidate."""
        self._closing: list[tuple[int, int]] = []
        """Heap of ``(last, candidate)``: the ranges that are open."""
        self._open: list[dict[int, int]] = [{} for _ in pickings]
        """For each picking its candidates with an open range, and the last start of it."""
        self._present: dict[int, Counter[str]] = {picking.group: Counter() for picking in pickings}
        """For each group the resources with an open range, and for how many of its pickings."""
        self._wanted: Counter[int] = Counter()
        for picking in pickings:
            self._wanted[picking.group] += picking.wanted
        for number in range(len(self._candidates)):
            self._push(number)

    def next(self, start: int) -> CommonStart | None:
        """Return the earliest start from `start`, which never goes back; None at the end."""
        at = start
        while (named := self._named_range(at)) is not None:
            at = max(at, named[0])
            self._advance(at)
            upcoming = self._opening[0][0] if self._opening else self._last + 1
            if self._enough():
                for time_s in sorted(beat.next(at) for beat in self._beats):
                    if time_s >= upcoming or time_s > named[1]:
                        break
                    if (picked := self._picked(time_s)) is not None:
                        return CommonStart(time_s, picked)
            at = min(upcoming, named[1] + 1)
        return None

    def _named_range(self, at: int) -> Range | None:
        """Return the first range of the named resources that reaches `at` or later."""
        while self._range is not None and self._range[1] < at:
            self._range = next(self._named, None)
        return self._range

    def _advance(self, at: int) -> None:
        """Close the ranges that ended before `at`, then open those that have begun by then.

        In this order, because a candidate's next range replaces the one that it had open.
        """
        while self._closing and self._closing[0][0] < at:
            _, number = heapq.heappop(self._closing)
            self._close(number)
        while self._opening and self._opening[0][0] <= at:
            _, number, last = heapq.heappop(self._opening)
            self._push(number)
            if last >= at:
                owner = self._owner[number]
                self._open[owner][number] = last
                self._present[self._pickings[owner].group][self._candidates[number].resource] += 1
                heapq.heappush(self._closing, (last, number))

    def _close(self, number: int) -> None:
        owner = self._owner[number]
        del self._open[owner][number]
        present = self._present[self._pickings[owner].group]
        name = self._candidates[number].resource
        present[name] -= 1
        if not present[name]:
            del present[name]

    def _enough(self) -> bool:
        """Tell whether there are enough candidates for each term, and for each group."""
        for opened, picking in zip(self._open, self._pickings, strict=True):
            if len(opened) < picking.wanted:
                return False
        return all(len(self._present[group]) >= wanted for group, wanted in self._wanted.items())

    def _push(self, number: int) -> None:
        """Push the candidate's next range with a start on its beat to the heap of openings."""
        candidate = self._candidates[number]
        for begin, end in candidate.ranges:
            self._work.spend(60)
            first = candidate.beat.next(begin)
            if first <= end:
                heapq.heappush(self._opening, (first, number, end))
                return

    def _picked(self, time_s: int) -> tuple[tuple[str, ...], ...] | None:
        self._work.spend(10 * sum(len(opened) for opened in self._open))
        choices = [
            [
                self._candidates[number].resource
                for number in sorted(opened)
                if opened[number] >= time_s and self._candidates[number].beat.hits(time_s)
            ]
            for opened in self._open
        ]
        wanted = [(picking.group, picking.wanted) for picking in self._pickings]
        return first_assignment(wanted, choices, self._work)


def joint_beats(first: int, last: int, named: Beat, others: Collection[Beat]) -> Collection[Beat]:
    """Return `named` joined with any of `others` that have a time in the window.

    Raises `InvalidInput` when there are more than `BEATS_MAX`.
    """
    joint = {named}
    for beat in sorted(others):
        met = (beat.both(other) for other in joint)
        joint |= {both for both in met if both is not None and both.next(first) <= last}
        if len(joint) > BEATS_MAX:
            raise InvalidInput(
                f"the grains of the resources fit together in more than {BEATS_MAX} ways",
                where="request",
                remedy="name the resources, or ask for fewer kinds at a time",
            )
    return joint
