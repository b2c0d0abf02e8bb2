"""Free nodes as a step function of time, from now on: the plan of backfilling."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

NEVER: Final = 1 << 62
"""Later than any time."""


class Profile:
    """Free nodes over ``[start, infinity)``.

    Step i begins at `times[i]`; `free[i]` are the free nodes until `times[i + 1]`; the last step never
    ends.
    """

    __slots__ = ("free", "times")

    def __init__(self, start: int, nodes: int) -> None:
        self.times = [start]
        self.free = [nodes]

    @classmethod
    def of(cls, start: int, nodes: int, busy: Iterable[tuple[int, int, int]]) -> Profile:
        """Return a profile of `nodes` less all ``(start, end, nodes)`` of `busy`. Sorts once."""
        changes: dict[int, int] = {start: nodes}
        for begin, end, taken in busy:
            if end <= start or begin >= end:
                continue
            begin = max(begin, start)
            changes[begin] = changes.get(begin, 0) - taken
            changes[end] = changes.get(end, 0) + taken
        profile = cls(start, nodes)
        profile.times = sorted(changes)
        free, level = [], 0
        for time in profile.times:
            level += changes[time]
            free.append(level)
        profile.free = free
        return profile

    def copy(self) -> Profile:
        """Return a copy, to try bookings on."""
        twin = Profile(self.times[0], self.free[0])
        twin.times, twin.free = self.times[:], self.free[:]
        return twin

    def earliest(self, nodes: int, length: int, not_before: int) -> int:
        """Return the first time, `not_before` or later, from which `nodes` are free for `length`.

        There always is one if the last step, which never ends, has room; the caller must ensure that.
        """
        times, free = self.times, self.free
        last = len(times) - 1
        index = max(bisect_right(times, not_before) - 1, 0)
        start = not_before
        while True:
            while free[index] < nodes:
                index += 1
                start = times[index]
            end, ahead = start + length, index
            while ahead < last and times[ahead + 1] < end:
                ahead += 1
                if free[ahead] < nodes:
                    index = ahead
                    break
            else:
                return start

    def within(self, nodes: int, length: int, start: int, end: int) -> int | None:
        """Return the first time from `start` on from which `nodes` are free for `length`.

        None if the nodes are not free that long by `end`.
        """
        times, free = self.times, self.free
        index = max(bisect_right(times, start) - 1, 0)
        steps, latest = len(times), end - length
        begin = start
        while begin <= latest:
            if free[index] >= nodes:
                over = begin + length
                index += 1
                while index < steps and times[index] < over and free[index] >= nodes:
                    index += 1
                if index == steps or times[index] >= over:
                    return begin
            index += 1
            if index == steps:
                return None
            begin = times[index]
        return None

    def slide(self, nodes: int, first: int, at: int, start: int, end: int, over: int) -> int:
        """Move a booking of ``[start, over)`` to begin with the step `first` and end at `end`, after `start`.

        The steps ``first ... at - 1``, up to `start`, have room for it. Returns the step that begins at `end`
        or contains it. This is `take` twice, without searching for known steps.
        """
        times, free = self.times, self.free
        if at == len(times) or times[at] != start:
            times.insert(at, start)
            free.insert(at, free[at - 1])
        for step in range(first, at):
            free[step] -= nodes
        if free[at] == free[at - 1]:
            del times[at], free[at]
        if first and free[first] == free[first - 1]:
            del times[first], free[first]
        at = bisect_left(times, end, first)
        if at == len(times) or times[at] != end:
            times.insert(at, end)
            free.insert(at, free[at - 1])
        last = bisect_left(times, over, at)
        if last == len(times) or times[last] != over:
            times.insert(last, over)
            free.insert(last, free[last - 1])
        for step in range(at, last):
            free[step] += nodes
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if free[at] == free[at - 1]:
            del times[at], free[at]
            at -= 1
        return at

    def at(self, time: int) -> int:
        """Return the free nodes at a time, the profile's start or later."""
        return self.free[bisect_right(self.times, time) - 1]

    def fits(self, nodes: int, start: int, end: int) -> bool:
        """Return whether `nodes` are free during all of ``[start, end)``."""
        times, free = self.times, self.free
        index = max(bisect_right(times, start) - 1, 0)
        while index < len(times) and times[index] < end:
            if free[index] < nodes:
                return False
            index += 1
        return True

    def take(self, nodes: int, start: int, end: int) -> None:
        """Book `nodes` during ``[start, end)``; negative `nodes` are given back."""
        if end <= start:
            return
        times, free = self.times, self.free
        first = bisect_left(times, start)
        if first == len(times) or times[first] != start:
            assert first > 0, "a profile knows nothing of the time before it"
            times.insert(first, start)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end, first)
        if last == len(times) or times[last] != end:
            times.insert(last, end)
            free.insert(last, free[last - 1])
        for index in range(first, last):
            free[index] -= nodes
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if first and free[first] == free[first - 1]:
            del times[first], free[first]

    def next_border(self, after: int) -> int:
        """Return the first begin of a step after `after`. There must be one: the last step never ends."""
        return self.times[bisect_right(self.times, after)]

    def forget_before(self, now: int) -> None:
        """Drop steps before `now`, which are no longer needed."""
        times = self.times
        if times[0] < now:
            at = bisect_right(times, now) - 1
            if at > 0:
                del times[:at], self.free[:at]
            times[0] = now


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
