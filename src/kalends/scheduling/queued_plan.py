"""A plan that only adds requests, one after the other, each as early as it fits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kalends.scheduling.profile import Profile


class QueuedPlan:
    """A `profile` with requests booked in it.

    It only gets fuller. So a request never starts before an earlier one that took no more nodes for no
    longer: the starts of those save most of the search.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._known: dict[int, tuple[list[int], list[int]]] = {}
        """By nodes: ascending lengths, and ascending starts found for them."""

    def has_room(self, nodes: int) -> bool:
        """Return whether this number of nodes is ever free, for any length."""
        return nodes <= self.profile.free[-1]

    def earliest(self, nodes: int, length: int) -> int:
        """Return when a request could start. There must be room for it."""
        start = self.profile.times[0]
        for fewer, (lengths, starts) in self._known.items():
            if fewer <= nodes:
                at = bisect_right(lengths, length) - 1
                if at >= 0 and starts[at] > start:
                    start = starts[at]
        return self.profile.earliest(nodes, length, start)

    def book(self, nodes: int, length: int) -> int:
        """Book a request as early as it fits; return its start. There must be room for it."""
        start = self.earliest(nodes, length)
        self.profile.take(nodes, start, start + length)
        self._note(nodes, length, start)
        return start

    def _note(self, nodes: int, length: int, start: int) -> None:
        lengths, starts = self._known.setdefault(nodes, ([], []))
        first = bisect_left(lengths, length)
        # Longer ones that start no later make this one redundant.
        last = bisect_right(starts, start, first)
        lengths[first:last] = [length]
        starts[first:last] = [start]
