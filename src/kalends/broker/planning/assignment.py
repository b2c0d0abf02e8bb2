"""Assignments of resources to terms: the one of greatest worth, or the first of any.

Every term wants some number of different resources, and a resource serves one term at most. Where its
worth depends on the term, that is a flow of least cost, found by successive shortest paths (Ahuja,
Magnanti, Orlin: Network Flows, section 9.7). Terms are few and resources many, so that the paths are
sought among the terms alone: a step of a path is the best resource that one term can take from
another. The prices of the dual program come with the answer; they bound every other choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import NamedTuple

from kalends.broker.planning.search_budget import Work


class Assignment(NamedTuple):
    """The resources that serve each term, in order of name, and the sum of all worths.

    `prices` are those of the terms (linear programming duality): whatever resources there are, no
    assignment is worth more than the prices of all wants, and for each resource the most by which
    its worth to a term exceeds that term's price (nothing where none does).
    """

    picked: tuple[tuple[str, ...], ...]
    worth: int
    prices: tuple[int, ...]


class Shortage(NamedTuple):
    """`terms` want more than there are different resources for them together (Hall 1935)."""

    terms: tuple[int, ...]


def heaviest(
    wanted: Sequence[int], worths: Sequence[Mapping[str, int]], work: Work | None = None
) -> Assignment | Shortage:
    """Return the assignment of greatest sum; `worths` has what could serve each term.

    The same input gives the same answer; between equal worths earlier names are preferred.
    Raises `TooMuchWork`.
    """
    return _CostFlow(wanted, worths, work or Work()).solved()


class _CostFlow:
    def __init__(
        self, wanted: Sequence[int], worths: Sequence[Mapping[str, int]], work: Work
    ) -> None:
        self._work = work
        self._terms = range(len(wanted))
        self._wanted = wanted
        self._worths = worths
        total = sum(wanted)
        # The others take too few to deprive a term of all of so many.
        self._best = [
            [name for _, name in nsmallest(total, ((-worth, name) for name, worth in each.items()))]
            for each in worths
        ]
        self._next = [0] * len(wanted)
        """For each term, where in its best ones the first may stand that is still free."""
        self._held: list[dict[str, None]] = [{} for _ in wanted]
        self._taken: set[str] = set()

    def solved(self) -> Assignment | Shortage:
        lacking = list(self._wanted)
        while any(lacking):
            gains, before = self._reached([term for term in self._terms if lacking[term]])
            end = self._end(gains)
            if end is None:
                return Shortage(tuple(sorted(gains)))
            lacking[self._shift(end, before)] -= 1
        worth = sum(self._worths[term][name] for term in self._terms for name in self._held[term])
        return Assignment(tuple(tuple(sorted(held)) for held in self._held), worth, self._prices())

    def _reached(self, lacking: Sequence[int]) -> tuple[dict[int, int], dict[int, tuple[int, str]]]:
        """Return the greatest gain from each term giving a resource to one that lacks one.

        And for each term to whom it gives which (Bellman and Ford: a step may lower the sum).
        """
        steps = self._steps()
        gains = dict.fromkeys(lacking, 0)
        before: dict[int, tuple[int, str]] = {}
        waiting = list(lacking)
        while waiting:
            taker = waiting.pop(0)
            for giver, (gain, name) in steps[taker].items():
                reached = gains[taker] + gain
                if giver not in gains or reached > gains[giver]:
                    gains[giver], before[giver] = reached, (taker, name)
                    if giver not in waiting:
                        waiting.append(giver)
        return gains, before

    def _steps(self) -> list[dict[int, tuple[int, str]]]:
        """Return the best resource to hand over for each taker and giver, and its gain."""
        steps: list[dict[int, tuple[int, str]]] = [{} for _ in self._terms]
        self._work.spend(len(self._terms) * (5 + 3 * len(self._taken)))
        for giver in self._terms:
            for name in self._held[giver]:
                given_up = self._worths[giver][name]
                for taker in self._terms:
                    if taker == giver or name not in self._worths[taker]:
                        continue
                    gain = self._worths[taker][name] - given_up
                    if giver not in steps[taker] or gain > steps[taker][giver][0]:
                        steps[taker][giver] = (gain, name)
        return steps

    def _end(self, gains: Mapping[int, int]) -> int | None:
        """Return the term that gains most by a free resource; None when no free one helps."""
        best: tuple[int, int] | None = None
        for term in sorted(gains):
            name = self._first_free(term)
            if name is not None:
                gain = gains[term] + self._worths[term][name]
                if best is None or gain > best[0]:
                    best = gain, term
        return None if best is None else best[1]

    def _first_free(self, term: int) -> str | None:
        best = self._best[term]
        while self._next[term] < len(best) and best[self._next[term]] in self._taken:
            self._next[term] += 1
        return best[self._next[term]] if self._next[term] < len(best) else None

    def _shift(self, end: int, before: Mapping[int, tuple[int, str]]) -> int:
        """Let `end` take its best free resource; hand over along the path to the lacking term."""
        name = self._first_free(end)
        assert name is not None
        self._taken.add(name)
        term = end
        while True:
            self._held[term][name] = None
            if term not in before:
                return term
            taker, handed = before[term]
            del self._held[term][handed]
            term, name = taker, handed

    def _prices(self) -> tuple[int, ...]:
        """Return the greatest prices at which each resource serves the term it is worth most to."""
        prices = [
            min((self._worths[term][name] for name in self._held[term]), default=0)
            for term in self._terms
        ]
        steps = self._steps()
        changed = True
        while changed:
            changed = False
            for taker in self._terms:
                for giver, (gain, _) in steps[taker].items():
                    if prices[taker] - gain < prices[giver]:
                        prices[giver] = prices[taker] - gain
                        changed = True
        return tuple(prices)


def first_assignment(
    terms: Sequence[tuple[int, int]], choices: Sequence[Sequence[str]], work: Work
) -> tuple[tuple[str, ...], ...] | None:
    """Return as many choices as each term wants, none shared in a group; None if impossible.

    `terms` are ``(group, wanted)``. Augmenting paths (Kuhn 1955) over terms: an answer is found whenever
    there is one. The same input gives the same answer; earlier choices are preferred, so that it is not
    what `heaviest` gives where all are worth the same. Raises `TooMuchWork`.
    """
    if any(len(names) < wanted for names, (_, wanted) in zip(choices, terms, strict=True)):
        return None
    picked: list[tuple[str, ...]] = [() for _ in terms]
    for group in dict.fromkeys(group for group, _ in terms):
        members = [number for number, term in enumerate(terms) if term[0] == group]
        holders = _matched(
            {n: choices[n] for n in members}, {n: terms[n][1] for n in members}, work
        )
        if holders is None:
            return None
        for number in members:
            picked[number] = tuple(n for n in choices[number] if holders.get(n) == number)
    return tuple(picked)


def _matched(
    choices: Mapping[int, Sequence[str]], wanted: Mapping[int, int], work: Work
) -> dict[str, int] | None:
    """Return the number that gets each name, as many names as wanted; None if impossible."""
    holders: dict[str, int] = {}
    for number, names in choices.items():
        unheld = [name for name in names if name not in holders][: wanted[number]]
        holders.update(dict.fromkeys(unheld, number))
        for _ in range(wanted[number] - len(unheld)):
            if not _place(number, choices, holders, set(), work):
                return None
    return holders


def _place(
    number: int, choices: Mapping[int, Sequence[str]], holders: dict[str, int], visited: set[int],
    work: Work,
) -> bool:  # fmt: skip
    """Give `number` one more name; move holders of others to other names if necessary."""
    visited.add(number)
    work.spend(len(choices[number]))
    for name in choices[number]:
        if name not in holders:
            holders[name] = number
            return True
    for name in choices[number]:
        holder = holders[name]
        if holder not in visited and _place(holder, choices, holders, visited, work):
            holders[name] = number
            return True
    return False
