"""The sweep over common starts: named resources by intersection, attribute terms by matching.

Why few starts need to be tried. Say that t is a start that suits, with some resources picked. Each of
them, and each named one, has a range of starts around t (see `starts.ranges`); let p be the latest
begin of these ranges, or where the search begins if that is later. Every start from p to t lies in
all those ranges, so that the first one from p on the joint beat of the same resources suits too, and
is no later than t. Hence the earliest start is always the next time of some joint beat after the
begin of some range, and the sweep visits just these, in order. Joint beats are few: resources
have few different grains, and most divide one another.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

from kalends.broker.starts import Beat, Range
from kalends.core.errors import InvalidInput

BEATS_MAX: Final = 1_000
"""Joint beats of one search: with grains that divide one another there are as many as grains."""


class Candidate(NamedTuple):
    """A resource that an attribute term could pick: its ranges of starts, in order, and its beat."""

    resource: str
    ranges: Iterator[Range]
    beat: Beat


class Picking(NamedTuple):
    """An attribute term: `wanted` different ones of `candidates` (in order of name).

    Pickings of one `group` overlap in time, directly or in a chain, and share no resource.
    """

    group: int
    wanted: int
    candidates: Sequence[Candidate]


class Hit(NamedTuple):
    """A start that suits, and for each picking the names picked, in order."""

    start: int
    picked: tuple[tuple[str, ...], ...]


class Sweep:
    """Finds starts in ascending order; every range is read once, and only as far as needed.

    `named` are the ranges that suit all named resources, `beat` their joint beat. Raises
    `InvalidInput` when grains fit together in more than `BEATS_MAX` ways.
    """

    def __init__(
        self, first: int, last: int, named: Iterator[Range], beat: Beat, pickings: Sequence[Picking]
    ) -> None:
        self._last = last
        self._named = named
        self._range: Range | None = (first, first - 1)
        self._pickings = pickings
        self._beats = _joint_beats(first, last, beat, pickings)
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
        for number in range(len(self._candidates)):
            self._push(number)

    def next(self, start: int) -> Hit | None:
        """The earliest hit from `start`, which must not go back between calls; None at the end."""
        at = start
        while (named := self._named_range(at)) is not None:
            at = max(at, named[0])
            self._advance(at)
            upcoming = self._opening[0][0] if self._opening else self._last + 1
            if all(
                len(opened) >= picking.wanted
                for opened, picking in zip(self._open, self._pickings, strict=True)
            ):
                for time_s in sorted(beat.next(at) for beat in self._beats):
                    if time_s >= upcoming or time_s > named[1]:
                        break
                    if (picked := self._picked(time_s)) is not None:
                        return Hit(time_s, picked)
            at = min(upcoming, named[1] + 1)
        return None

    def _named_range(self, at: int) -> Range | None:
        """The first range of the named resources that reaches `at` or later."""
        while self._range is not None and self._range[1] < at:
            self._range = next(self._named, None)
        return self._range

    def _advance(self, at: int) -> None:
        """Close the ranges that ended before `at`, then open those that have begun by then.

        In this order, because a candidate's next range replaces the one that it had open.
        """
        while self._closing and self._closing[0][0] < at:
            _, number = heapq.heappop(self._closing)
            del self._open[self._owner[number]][number]
        while self._opening and self._opening[0][0] <= at:
            _, number, last = heapq.heappop(self._opening)
            self._push(number)
            if last >= at:
                self._open[self._owner[number]][number] = last
                heapq.heappush(self._closing, (last, number))

    def _push(self, number: int) -> None:
        """Bring the candidate's next range that has a start on its beat to the heap of openings."""
        candidate = self._candidates[number]
        for begin, end in candidate.ranges:
            first = candidate.beat.next(begin)
            if first <= end:
                heapq.heappush(self._opening, (first, number, end))
                return

    def _picked(self, time_s: int) -> tuple[tuple[str, ...], ...] | None:
        choices = [
            [
                self._candidates[number].resource
                for number in sorted(opened)
                if opened[number] >= time_s and self._candidates[number].beat.hits(time_s)
            ]
            for opened in self._open
        ]
        return assign(self._pickings, choices)


def assign(
    pickings: Sequence[Picking], choices: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], ...] | None:
    """For each picking as many of its choices as wanted, none shared within a group; None when impossible.

    Augmenting paths (Kuhn 1955) over pickings: an answer is found whenever there is one. The same
    input gives the same answer; earlier choices are preferred.
    """
    if any(len(names) < picking.wanted for names, picking in zip(choices, pickings, strict=True)):
        return None
    if len({picking.group for picking in pickings}) == len(pickings):
        return tuple(
            tuple(names[: picking.wanted]) for names, picking in zip(choices, pickings, strict=True)
        )
    holders: dict[tuple[int, str], int] = {}
    for number, picking in enumerate(pickings):
        for _ in range(picking.wanted):
            if not _place(number, pickings, choices, holders, set()):
                return None
    return tuple(
        tuple(sorted(name for (_, name), holder in holders.items() if holder == number))
        for number in range(len(pickings))
    )


def _place(
    number: int,
    pickings: Sequence[Picking],
    choices: Sequence[Sequence[str]],
    holders: dict[tuple[int, str], int],
    visited: set[int],
) -> bool:
    """Give the picking one more resource, moving others to other resources if it must be."""
    visited.add(number)
    keys = [(pickings[number].group, name) for name in choices[number]]
    for key in keys:
        if key not in holders:
            holders[key] = number
            return True
    for key in keys:
        holder = holders[key]
        if holder not in visited and _place(holder, pickings, choices, holders, visited):
            holders[key] = number
            return True
    return False


def _joint_beats(
    first: int, last: int, named: Beat, pickings: Sequence[Picking]
) -> Collection[Beat]:
    """The beats of the named resources together with any of the candidates', if within the window."""
    joint = {named}
    for beat in sorted({each.beat for picking in pickings for each in picking.candidates}):
        met = (beat.both(other) for other in joint)
        joint |= {both for both in met if both is not None and both.next(first) <= last}
        if len(joint) > BEATS_MAX:
            raise InvalidInput(
                f"the grains of the resources fit together in more than {BEATS_MAX} ways",
                where="request",
                remedy="name the resources, or ask for fewer kinds at a time",
            )
    return joint
