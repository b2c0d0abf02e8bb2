"""The time for which each number of nodes is free from now on, which shows the jobs that could start now."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Protocol

import msgspec

from kalends.scheduling.profile import NEVER, Profile


class Leeway(Protocol):
    """The end of the free time of each number of nodes. More nodes are never free for longer."""

    @property
    def widest(self) -> int:
        """The most nodes that are free at all; 0 or less for none."""
        ...

    def until(self, nodes: int) -> int:
        """Return until when this number of nodes is free; a time before all others if it is not free now."""
        ...

    def take(self, nodes: int, until_s: int) -> None:
        """Take nodes from now until a time; they must be free until then."""
        ...


class ShadowLeeway(msgspec.Struct):
    """`widest` nodes are free until `shadow_s`, and as many of them as `extra` for ever."""

    widest: int
    shadow_s: int = NEVER
    extra: int = 0

    def until(self, nodes: int) -> int:
        if nodes > self.widest:
            return -NEVER
        return NEVER if nodes <= self.extra else self.shadow_s

    def take(self, nodes: int, until_s: int) -> None:
        self.widest -= nodes
        if until_s > self.shadow_s:
            self.extra -= nodes


class PlanLeeway(msgspec.Struct):
    """A staircase: `nodes[i]` nodes, ascending, are free until `until_s[i]`, descending."""

    nodes: list[int]
    until_s: list[int]

    @property
    def widest(self) -> int:
        return self.nodes[-1] if self.nodes else 0

    def until(self, nodes: int) -> int:
        at = bisect_left(self.nodes, nodes)
        return self.until_s[at] if at < len(self.nodes) else -NEVER

    def take(self, nodes: int, until_s: int) -> None:
        levels, times_s = self.nodes, self.until_s
        then = len(levels) - 1
        while times_s[then] < until_s:
            then -= 1
        # This number is left up to that time, and no more can be free from now on beyond it.
        left = levels[then] - nodes
        fewer = bisect_left(levels, left)
        levels[fewer:] = [left, *[each - nodes for each in levels[then + 1 :]]]
        del times_s[fewer + 1 : then + 1]
        if levels[0] <= 0:
            gone = bisect_right(levels, 0)
            del levels[:gone], times_s[:gone]


def leeway_in(plan: Profile, head: tuple[int, int, int] = (0, 0, 0)) -> PlanLeeway:
    """Return the leeway of a plan from its start on, less the ``(start, end, nodes)`` of the head.

    The head fits into the plan there, and begins with one of its steps.
    """
    head_start_s, head_end_s, head_nodes = head
    nodes: list[int] = []
    from_s: list[int] = []
    least = NEVER
    for time_s, free in zip(plan.times, plan.free, strict=True):
        if head_start_s <= time_s < head_end_s:
            free -= head_nodes
        if free < least:
            least = free
            from_s.append(time_s)
            if free <= 0:
                break
            nodes.append(free)
    # This number is free until fewer are, for the first time.
    until_s = [*from_s[1:], NEVER][: len(nodes)]
    return PlanLeeway(nodes[::-1], until_s[::-1])
