"""Free nodes as a step function of time, from now on: the plan that backfilling looks into."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

NEVER: Final = 1 << 62
"""Later than any time."""


class Profile:
    """Free nodes over ``[start, infinity)``.

    `times[i]` is where a step begins and `free[i]` what is free until `times[i + 1]`; the last step
    never ends.
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
        """Return the same steps, to be booked for what-if."""
        twin = Profile(self.times[0], self.free[0])
        twin.times, twin.free = self.times[:], self.free[:]
        return twin

    def earliest(self, nodes: int, length: int, not_before: int) -> int:
        """Return the first time, `not_before` or later, from which `nodes` are free for `length`.

        There always is one if the last step, which never ends, has room: the caller sees to that.
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

        None if not by `end`.
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

    def earlier(
        self, nodes: int, length: int, start: int, freed_until: int, freed_from: int = 0
    ) -> int:
        """Return the earliest start of a movable booking that begins at `start`, maybe `start` itself.

        Its own `nodes` during ``[start, start + length)`` are taken in the profile, and would be given
        back: so only the time before `start` must be looked at. Nothing has become free before `freed_from`,
        nor at `freed_until` or later, since there was nothing earlier for it. The last step must have room.
        """
        times, free = self.times, self.free
        blocked = bisect_left(times, start) - 1
        while blocked >= 0 and free[blocked] >= nodes:
            start = times[blocked]
            blocked -= 1
        if blocked < 0:
            return start
        # Any other gap ends before the last step without room.
        latest = times[blocked] - length
        if latest >= freed_until:
            latest = freed_until - 1
        if latest < times[0]:
            return start
        index = bisect_right(times, freed_from, 0, blocked) - 1 if freed_from > times[0] else 0
        while index and free[index] >= nodes and free[index - 1] >= nodes:
            index -= 1
        begin = self._first_gap(nodes, length, latest, index, blocked)
        return start if begin is None else begin

    def most(self, before: int) -> int:
        """Return the most nodes that are ever free before a time later than the profile's start."""
        return max(self.free[: bisect_left(self.times, before)])

    def room_from(self, since: int) -> int:
        """Return the first time from `since` on at which any node is free, or the last step's begin."""
        times, free = self.times, self.free
        index = max(bisect_right(times, since) - 1, 0)
        if free[index] > 0:
            return since
        last = len(times) - 1
        while index < last and free[index] <= 0:
            index += 1
        return times[index]

    def move(self, nodes: int, length: int, start: int, earlier: int) -> None:
        """Let a booking that begins at `start` begin at `earlier`."""
        if earlier + length > start:
            self.take(nodes, earlier, start)
            self.take(-nodes, earlier + length, start + length)
        else:
            self.take(nodes, earlier, earlier + length)
            self.take(-nodes, start, start + length)

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
        """Book `nodes` during ``[start, end)``; negative `nodes` give back."""
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
        """Drop steps before `now`, which nobody will ask for again."""
        times = self.times
        if times[0] < now:
            at = bisect_right(times, now) - 1
            if at > 0:
                del times[:at], self.free[:at]
            times[0] = now

    def _first_gap(
        self, nodes: int, length: int, latest: int, index: int, blocked: int
    ) -> int | None:
        """Return the begin of the first gap of `length` before the full step `blocked`.

        Of gaps that begin with the step `index` or a later one. None if that is later than `latest`.
        """
        times, free = self.times, self.free
        while index < blocked:
            while free[index] < nodes:
                index += 1
            begin = times[index]
            if begin > latest:
                return None
            while free[index] >= nodes:
                index += 1
            if times[index] - begin >= length:
                return begin
        return None
