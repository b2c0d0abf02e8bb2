"""A profile of very many steps with an index of its gaps: where long ones may be is known without a walk."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from kalends.scheduling.profile import Profile

STRETCH_STEPS: Final = 32
"""Steps in a stretch: few enough to search through, enough to keep stretches few."""

ENDLESS: Final = 1 << 62
"""Longer than any gap, later than any time."""


class IndexedProfile(Profile):
    """The steps of another profile, shared with it, and an index of the gaps in them.

    A *gap* is a time, as long as can be, in which a number of nodes is free. All time is cut into stretches.
    For each power of two of nodes, the index has a bound of the longest gap that reaches into a stretch:
    stretches without one of the wanted length are passed over.

    It serves until the other profile is changed but by way of this one.
    """

    __slots__ = ("_bounds", "_ends", "_given_back")

    def __init__(self, profile: Profile, stretch_steps: int = STRETCH_STEPS) -> None:
        self.times, self.free = profile.times, profile.free
        self._ends = [*self.times[stretch_steps::stretch_steps], ENDLESS]
        """End of each stretch. The first begins with the profile."""
        self._given_back: list[tuple[int, int]] = []
        """Begin and end of freed times. Bookings are not noted, because a bound stays a bound."""
        self._bounds: dict[int, Bounds] = {}
        """Bounds by power of two."""

    def take(self, nodes: int, start: int, end: int) -> None:
        super().take(nodes, start, end)
        if nodes < 0 and start < end:
            self._given_back.append((start, end))

    def _first_gap(
        self, nodes: int, length: int, latest: int, index: int, blocked: int
    ) -> int | None:
        longest = self._longest(1 << (nodes.bit_length() - 1))
        times, ends = self.times, self._ends
        first, stretches = bisect_right(ends, times[index]), bisect_left(ends, times[blocked]) + 1
        if first >= stretches or max(longest[first:stretches]) < length:
            return None
        for at in range(first, stretches):
            if longest[at] >= length:
                index = max(index, self._begin(nodes, self._first_step(at)))
                behind = min(bisect_left(times, ends[at], index), blocked)
                begin = super()._first_gap(nodes, length, latest, index, behind)
                if begin is not None:
                    return begin
                self._look_again(at, 1 << (nodes.bit_length() - 1))
        return None

    def _longest(self, nodes: int) -> list[int]:
        """Return a bound for each stretch, as things stand now."""
        bounds = self._bounds.get(nodes)
        if bounds is None:
            bounds = self._bounds[nodes] = Bounds(len(self._ends))
            bounds.seen = len(self._given_back)
            self._raise(bounds, nodes, self.times[0], ENDLESS)
        elif bounds.seen < len(self._given_back):
            for start, end in self._given_back[bounds.seen :]:
                self._raise(bounds, nodes, start, end)
            bounds.seen = len(self._given_back)
        return bounds.longest

    def _raise(self, bounds: Bounds, nodes: int, start: int, end: int) -> None:
        """Raise bounds, because gaps that reach into ``[start, end)`` may have grown."""
        ends, longest = self._ends, bounds.longest
        for gap_start, gap_end in self._gaps(nodes, start, end):
            length = gap_end - gap_start
            at = bisect_right(ends, gap_start)
            while True:
                if longest[at] < length:
                    longest[at] = length
                if ends[at] >= gap_end:
                    break
                at += 1

    def _look_again(self, at: int, nodes: int) -> None:
        """Lower the bound of a stretch, if it was too high."""
        start = self._ends[at - 1] if at else self.times[0]
        self._bounds[nodes].longest[at] = max(
            (end - begin for begin, end in self._gaps(nodes, start, self._ends[at])), default=0
        )

    def _gaps(self, nodes: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield all gaps that reach into ``[start, end)``."""
        times, free = self.times, self.free
        steps = len(times)
        index = bisect_right(times, start) - 1
        behind = bisect_left(times, end, index)
        if max(free[index:behind]) < nodes:
            return
        index = self._begin(nodes, index)
        while index < behind:
            if free[index] < nodes:
                index += 1
                continue
            gap_start = times[index]
            while index < steps and free[index] >= nodes:
                index += 1
            yield gap_start, times[index] if index < steps else ENDLESS

    def _first_step(self, at: int) -> int:
        """Return the step with which a stretch begins, or in the midst of which it does."""
        return bisect_right(self.times, self._ends[at - 1]) - 1 if at else 0

    def _begin(self, nodes: int, index: int) -> int:
        """Return the first step of the gap that the step `index` lies in; itself if it has no room."""
        free = self.free
        while index and free[index] >= nodes and free[index - 1] >= nodes:
            index -= 1
        return index


class Bounds:
    """For one number of nodes, a bound on the longest gap that reaches into each stretch."""

    __slots__ = ("longest", "seen")

    def __init__(self, stretches: int) -> None:
        self.longest = [0] * stretches
        self.seen = 0
        """Number of freed times that are accounted for."""
