"""The fewest bookings that have the units which lack at some times.

A covering problem, solved exactly within a limit of work by iterative deepening (Korf 1985). Bookings that no
lack has in common do not concern each other: each such group is solved by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

COVERS_MAX: Final = 200
"""Choices of bookings tried for one group, before a good one is good enough."""

Spend = Callable[[int], None]
"""Hears of work that is done, and may raise where it has been too much."""


class Lack(NamedTuple):
    """Units lacking at some time, and what each booking (by its place) has of them then."""

    units: int
    held_by: Mapping[int, int]


class Cover(NamedTuple):
    """Places of bookings that together have what lacks; `exact`: no fewer would do."""

    places: frozenset[int]
    exact: bool


def fewest(
    lacks: Sequence[Lack], spend: Spend = lambda work: None, tries_max: int = COVERS_MAX
) -> Cover:
    """Return the fewest places that have what lacks at every time.

    What has a part in most of the lacks, and then most units, is tried first, of equals the first. All
    holders of each lack together have enough, and there are some.
    """
    places: frozenset[int] = frozenset()
    exact = True
    for group in _groups(lacks):
        found = _CoverSearch(group, spend, tries_max).solved()
        places |= found.places
        exact = exact and found.exact
    return Cover(places, exact)


def _groups(lacks: Sequence[Lack]) -> Iterable[Sequence[Lack]]:
    """Return the lacks in groups that have no booking in common, each in the order given."""
    leader: dict[int, int] = {}

    def lead(place: int) -> int:
        while leader[place] != place:
            leader[place] = place = leader[leader[place]]
        return place

    for lack in lacks:
        for place in lack.held_by:
            leader.setdefault(place, place)
            leader[lead(place)] = lead(next(iter(lack.held_by)))
    groups: dict[int, list[Lack]] = {}
    for lack in lacks:
        groups.setdefault(lead(next(iter(lack.held_by))), []).append(lack)
    return groups.values()


class _CoverSearch:
    """A search for the fewest bookings whose units make up for all lacks."""

    def __init__(self, lacks: Sequence[Lack], spend: Spend, tries_max: int) -> None:
        self._lacks = lacks
        self._spend, self._tries_max = spend, tries_max
        self._reach: dict[int, int] = {}
        for lack in lacks:
            for place in lack.held_by:
                self._reach[place] = self._reach.get(place, 0) + 1
        self._tries = 0

    def solved(self) -> Cover:
        at_least = max((self._needed(lack) for lack in self._lacks), default=0)
        for number in range(at_least, len(self._reach) + 1):
            found = self._deepened(frozenset(), frozenset(), number)
            if found is not None:
                return Cover(found, True)
            if self._tries > self._tries_max:
                break
        return Cover(self._greedy(), False)

    def _needed(self, lack: Lack) -> int:
        """Return a lower bound on the bookings that have the lacking units."""
        sums = accumulate(sorted(lack.held_by.values(), reverse=True))
        return 1 + sum(units < lack.units for units in sums)

    def _deepened(
        self, moved: frozenset[int], kept: frozenset[int], number: int
    ) -> frozenset[int] | None:
        """Return at most `number` bookings in addition to `moved`, none of `kept`; None if impossible."""
        self._tries += 1
        lack = self._first_unmet(moved)
        if lack is None:
            return moved
        if not number or self._tries > self._tries_max:
            return None
        for place in self._by_use(lack):
            if place in moved or place in kept:
                continue
            found = self._deepened(moved | {place}, kept, number - 1)
            if found is not None:
                return found
            kept |= {place}
        return None

    def _greedy(self) -> frozenset[int]:
        """Return enough, and none that could be left out."""
        moved: frozenset[int] = frozenset()
        while (lack := self._first_unmet(moved)) is not None:
            moved |= {next(place for place in self._by_use(lack) if place not in moved)}
        for place in sorted(moved, key=lambda place: (self._reach[place], place)):
            if self._first_unmet(moved - {place}) is None:
                moved -= {place}
        return moved

    def _first_unmet(self, moved: frozenset[int]) -> Lack | None:
        for lack in self._lacks:
            self._spend(1 + len(lack.held_by))
            if sum(has for place, has in lack.held_by.items() if place in moved) < lack.units:
                return lack
        return None

    def _by_use(self, lack: Lack) -> list[int]:
        self._spend(10 * len(lack.held_by))
        return sorted(lack.held_by, key=lambda place: (-self._reach[place], -lack.held_by[place]))
