"""Weights as whole numbers: sums of preferences compare exactly in any order.

A weight counts as the decimal number that it is written as (the shortest that reads as the same
float). All weights of a request become multiples of one small enough part, so that the search adds
integers only; a sum is told as the float nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm
from typing import NamedTuple

from kalends.broker.planning.demand import Catalogue, growing
from kalends.core.requests import Request, Term, TimePreference, parts_of
from kalends.core.spans import meetings

Level = tuple[int, int, int]
"""``(first, last, worth)``: what every start from the first to the last is worth, both included."""


class ScoredStart(NamedTuple):
    """A start, the names picked for each attribute term (by number), the total worth, and the price.

    `cost` is 0 unless the user prefers what is cheap.
    """

    start: int
    picked: Mapping[int, tuple[str, ...]]
    worth: int
    cost: int = 0


class Scale:
    """The weights of one request in parts of ``1 / parts``."""

    def __init__(self, request: Request) -> None:
        self.parts = lcm(*(weight.denominator for weight in _weights(request)))
        self._whole: dict[float, int] = {}

    def of(self, weight: float) -> int:
        """Return `weight` in parts; read each decimal number once."""
        if weight not in self._whole:
            self._whole[weight] = int(_decimal(weight) * self.parts)
        return self._whole[weight]

    def of_unit(self, term: Term) -> int:
        """Return the worth of each unit above the least amount of a growing `term`."""
        if not growing(term):
            return 0
        return int(_decimal(term.units_weight) * self.parts / (term.units_max - term.units))

    def told(self, worth: int) -> float:
        """Return the float nearest to `worth`."""
        return float(Fraction(worth, self.parts))


def attribute_worths(
    term: Term, names: Sequence[str], catalogue: Catalogue, scale: Scale
) -> list[int]:
    """Return the worth of each of `names` to `term` for its attributes."""
    preferred = [
        (catalogue.having(each.attribute), scale.of(each.weight)) for each in term.preferred
    ]
    return [sum(worth for having, worth in preferred if name in having) for name in names]


def time_levels(
    preferences: Sequence[TimePreference], scale: Scale, first: int, last: int
) -> list[Level]:
    """Return the worth of the starts from `first` to `last` for their time, in order."""
    changes: dict[int, int] = {first: 0, last + 1: 0}
    for each in preferences:
        begin, end = max(each.start, first), min(each.end, last + 1)
        if begin < end:
            worth = scale.of(each.weight)
            changes[begin] = changes.get(begin, 0) + worth
            changes[end] = changes.get(end, 0) - worth
    levels: list[Level] = []
    worth = 0
    for begin, end in pairwise(sorted(changes)):
        worth += changes[begin]
        levels.append((begin, end - 1, worth))
    return levels


def joined(
    ours: Sequence[Level], theirs: Sequence[Level], together: Callable[[int, int], int]
) -> list[Level]:
    """Return the starts in a level of both, in order, with the worth `together` makes."""
    return [
        (first, last, together(one[2], other[2]))
        for first, last, one, other in meetings(ours, theirs)
    ]


def _weights(request: Request) -> Iterator[Fraction]:
    yield Fraction(1)
    for preference in request.preferences:
        yield _decimal(preference.weight)
    for alternative in request.alternatives:
        yield _decimal(alternative.weight)
        for part in parts_of(alternative):
            for window in part.preferences:
                yield _decimal(window.weight)
        for term in alternative.terms:
            for preferred in term.preferred:
                yield _decimal(preferred.weight)
            if growing(term):
                yield _decimal(term.units_weight) / (term.units_max - term.units)


def _decimal(weight: float) -> Fraction:
    return Fraction(repr(float(weight)))
