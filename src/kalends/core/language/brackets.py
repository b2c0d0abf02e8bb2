"""Alternatives within brackets, multiplied out: ``(a | b) + c`` asks for ``a + c | b + c``.

What a bracket says of its windows holds for each term within it. Its preferences and its weight are earned by
each alternative that it becomes part of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

import msgspec

from kalends.core import limits
from kalends.core.language.scanner import Scanner
from kalends.core.requests import Alternative, Term, WindowPreferences, Windows
from kalends.core.windows import both


class PlacedTerm(NamedTuple):
    """A term, and the column of its windows."""

    term: Term
    at: int


class BracketChoice(NamedTuple):
    """Parts that are wanted together."""

    parts: tuple[Part, ...]
    weight: float


class Bracket(NamedTuple):
    """One of `choices`, with the windows and the weight of the bracket; `at` is their column."""

    choices: tuple[BracketChoice, ...]
    windows: Windows
    preferences: WindowPreferences
    weight: float
    at: int


Part: TypeAlias = PlacedTerm | Bracket


class Flat(NamedTuple):
    """An alternative without brackets, and the columns of its windows and its terms' windows."""

    terms: tuple[PlacedTerm, ...]
    windows: Windows = ()
    preferences: WindowPreferences = ()
    weight: Fraction = Fraction(0)
    at: int = 0

    def alternative(self) -> Alternative:
        return Alternative(
            terms=tuple(placed.term for placed in self.terms),
            weight=float(self.weight),
            windows=self.windows,
            preferences=self.preferences,
        )


def multiplied(choices: Sequence[BracketChoice], scanner: Scanner) -> list[Flat]:
    """Return `choices` without brackets, in order; raises `InvalidInput` for more than a request may have."""
    count = _count(choices)
    if count > limits.ALTERNATIVES_MAX:
        told = f"{count:,}" if count < 1_000_000 else "more than a million"
        raise scanner.error(
            f"this asks for {told} alternatives, at most {limits.ALTERNATIVES_MAX} are allowed",
            remedy="write fewer choices in brackets, or use several requests",
            at=0,
        )
    return [flat for choice in choices for flat in _of_choice(choice, scanner)]


def _count(choices: Sequence[BracketChoice]) -> int:
    return sum(
        prod(_count(part.choices) for part in choice.parts if isinstance(part, Bracket))
        for choice in choices
    )


def _of_choice(choice: BracketChoice, scanner: Scanner) -> Iterator[Flat]:
    weight = _exact(choice.weight)
    for flats in product(*(list(_of_part(part, scanner)) for part in choice.parts)):
        made = flats[0] if len(flats) == 1 else _together(flats, scanner)
        if len(made.terms) > limits.TERMS_MAX:
            raise scanner.error(
                f"{len(made.terms)} terms in one alternative, at most {limits.TERMS_MAX} are allowed",
                remedy="ask for fewer at a time, or use several requests",
                at=0,
            )
        yield made._replace(weight=made.weight + weight)


def _of_part(part: Part, scanner: Scanner) -> Iterator[Flat]:
    if isinstance(part, PlacedTerm):
        yield Flat((part,))
        return
    for choice in part.choices:
        for flat in _of_choice(choice, scanner):
            yield flat._replace(
                windows=_in_both(flat.windows, part.windows, part.at, scanner),
                preferences=flat.preferences + part.preferences,
                weight=flat.weight + _exact(part.weight),
                at=part.at if part.windows else flat.at,
            )


def _together(flats: Sequence[Flat], scanner: Scanner) -> Flat:
    """Return the parts of one alternative as one; windows of a bracket are those of its terms."""
    terms = []
    for flat in flats:
        for term, at in flat.terms:
            windows = _in_both(term.windows, flat.windows, flat.at, scanner)
            place = flat.at if flat.windows else at
            terms.append(PlacedTerm(msgspec.structs.replace(term, windows=windows), place))
    return Flat(
        tuple(terms),
        preferences=tuple(each for flat in flats for each in flat.preferences),
        weight=sum((flat.weight for flat in flats), Fraction(0)),
    )


def _in_both(inner: Windows, outer: Windows, at: int, scanner: Scanner) -> Windows:
    if not inner or not outer:
        return inner or outer
    common = both(inner, outer)
    if common is None:
        raise scanner.error(
            "windows of a bracket and of what is in it are in different zones, or not all of one kind",
            remedy="write both as times of day in one zone, or as times in full",
            at=at,
        )
    if not common or len(common) > limits.WINDOWS_MAX:
        raise scanner.error(
            f"{len(common)} windows are left"
            if common
            else "windows inside and outside never meet",
            remedy=f"give at most {limits.WINDOWS_MAX} that overlap"
            if common
            else "widen one of them",
            at=at,
        )
    return common


def _exact(weight: float) -> Fraction:
    return Fraction(repr(float(weight)))
