"""Level packing: requests as rectangles of nodes x time, placed between scheduling points.

A *scheduling point* is a time that no rectangle crosses: the machine is empty there, so at least one
request can be configured, whatever the machine looks like. A *level* lies between two of them.
Coffman, Garey, Johnson and Tarjan 1980 (FFDH); Gehring and Ramme 1996, section 3.2 (the others).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kalends.core.errors import InvalidInput
from kalends.scheduling.profile import NEVER, Profile


class PackingRule(msgspec.Struct, frozen=True):
    """One way to pack.

    Each request in turn goes into the lowest level that takes it; if none does, on a new level on top.
    """

    name: str
    longest_first: bool | None
    """The order of a block: True longest first, False shortest first, None as it came."""
    stacked: bool
    """Whether a request may begin later than its level: at the earliest time with room for it."""
    open_ended: bool = False
    """Whether any request may make the top level longer. Otherwise only a request that begins with it
    may, and no level below another one grows: its end is a scheduling point."""

    def ordered(self, lengths_s: Sequence[int]) -> list[int]:
        """Return the indices of a block's requests in the order in which they are packed.

        Ties as they came.
        """
        indices = list(range(len(lengths_s)))
        if self.longest_first is not None:
            sign = -1 if self.longest_first else 1
            indices.sort(key=lambda index: sign * lengths_s[index])
        return indices


FFDH: Final = PackingRule("ffdh", longest_first=True, stacked=False)
FFIH: Final = PackingRule("ffih", longest_first=False, stacked=False)
FFDH_STAR: Final = PackingRule("ffdh*", longest_first=True, stacked=True)
FFIH_STAR: Final = PackingRule("ffih*", longest_first=False, stacked=True)
FCFS_STAR: Final = PackingRule("fcfs*", longest_first=None, stacked=True, open_ended=True)

RULES: Final = {rule.name: rule for rule in (FFDH, FFIH, FFDH_STAR, FFIH_STAR, FCFS_STAR)}


class Level:
    """A level between the scheduling points `start_s` and `end_s`."""

    __slots__ = ("end_s", "pending", "start_s")

    def __init__(self, start_s: int, end_s: int) -> None:
        self.start_s = start_s
        self.end_s = end_s
        self.pending = 0
        """Number of its planned jobs that do not run yet."""


class Packing:
    """Levels in order of time, none reaching into the next, over the nodes that are free.

    Placed requests are taken from `profile`. `end_s` is the end of the last level, or of a later
    request outside the levels.
    """

    def __init__(self, profile: Profile, levels: list[Level], end_s: int) -> None:
        self.profile = profile
        self.levels = levels
        self.end_s = end_s

    def first_for_block(self, rule: PackingRule) -> int:
        """Return the index of the lowest level for the next block, which earlier blocks have not entered.

        The block cannot be put behind an open-ended level.
        """
        return max(len(self.levels) - 1, 0) if rule.open_ended else len(self.levels)

    def place(
        self,
        rule: PackingRule,
        nodes: int,
        length_s: int,
        first: int = 0,
        not_before_s: int = -NEVER,
    ) -> tuple[int, Level]:
        """Place one request at `not_before_s` or later, on level `first` or higher.

        Returns its start and its level, which may be a new one.
        """
        for level in self.levels[first:]:
            start_s = self._room(rule, level, nodes, length_s, not_before_s)
            if start_s is not None:
                break
        else:
            start_s = self.profile.earliest(nodes, length_s, max(self.end_s, not_before_s))
            level = Level(start_s, start_s)
            self.levels.append(level)
        self.put(level, nodes, start_s, length_s)
        return start_s, level

    def gap(self, nodes: int, length_s: int, not_before_s: int) -> tuple[int, Level] | None:
        """Return the earliest time, and its level, at which a request fits and makes no level longer."""
        for level in self.levels:
            begin_s = max(level.start_s, not_before_s)
            start_s = self.profile.within(nodes, length_s, begin_s, level.end_s)
            if start_s is not None:
                return start_s, level
        return None

    def put(self, level: Level, nodes: int, start_s: int, length_s: int) -> None:
        """Take the nodes, and extend the level as far as necessary."""
        self.profile.take(nodes, start_s, start_s + length_s)
        level.end_s = max(level.end_s, start_s + length_s)
        self.end_s = max(self.end_s, level.end_s)

    def _room(
        self, rule: PackingRule, level: Level, nodes: int, length_s: int, not_before_s: int
    ) -> int | None:
        """Return when the request could begin on this level."""
        on_top = level is self.levels[-1]
        begin_s = max(level.start_s, not_before_s, self.profile.times[0])
        if rule.stacked:
            if on_top and rule.open_ended:
                return self.profile.earliest(nodes, length_s, begin_s)
            start_s = self.profile.within(nodes, length_s, begin_s, level.end_s)
            if start_s is not None:
                return start_s
        at_border = begin_s == level.start_s
        if at_border and (on_top or begin_s + length_s <= level.end_s):
            return begin_s if self.profile.fits(nodes, begin_s, begin_s + length_s) else None
        return None


class LevelPlacement(msgspec.Struct, frozen=True):
    """The place of one request: its start, and its level, counted from 0."""

    start_s: int
    level: int


def pack(
    rule: PackingRule, requests: Sequence[tuple[int, int]], nodes: int
) -> list[LevelPlacement]:
    """Pack one block of ``(nodes, length)`` on the empty machine from time 0; placements in its order.

    Raises `InvalidInput` if a request is wider than the machine, or has no nodes or no length.
    """
    for index, (wide, length_s) in enumerate(requests):
        if not 0 < wide <= nodes or length_s < 1:
            raise InvalidInput(
                f"{wide} nodes for {length_s} on a machine of {nodes}",
                where=f"request {index + 1}",
                remedy=f"give 1 to {nodes} nodes and a length of 1 or more",
            )
    packing = Packing(Profile(0, nodes), [], 0)
    placed = {}
    for index in rule.ordered([length_s for _, length_s in requests]):
        placed[index] = packing.place(rule, *requests[index])
    numbers = {level: number for number, level in enumerate(packing.levels)}
    return [
        LevelPlacement(start_s, numbers[level]) for _, (start_s, level) in sorted(placed.items())
    ]


def makespan_s(requests: Iterable[tuple[int, int]], placements: Iterable[LevelPlacement]) -> int:
    """Return when the last request of a packing ends: the height of the bin."""
    return max(
        (
            placement.start_s + length_s
            for (_, length_s), placement in zip(requests, placements, strict=True)
        ),
        default=0,
    )
