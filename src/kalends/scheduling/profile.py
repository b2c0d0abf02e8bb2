"""Free nodes as a step function of time, from now on: the plan that backfilling looks into."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable


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
        """What is left of `nodes` beside all ``(start, end, nodes)`` of `busy`. Sorts once."""
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
        """The same steps, to be booked for what-if."""
        twin = Profile(self.times[0], self.free[0])
        twin.times, twin.free = self.times[:], self.free[:]
        return twin

    def earliest(self, nodes: int, length: int, not_before: int) -> int:
        """The first time, `not_before` or later, from which `nodes` are free for `length`.

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

    def earlier(self, nodes: int, length: int, not_before: int, start: int) -> int:
        """The earliest start of a booking that now begins at `start`, if it may move: maybe `start` itself.

        Its own `nodes` during ``[start, start + length)`` are taken in the profile, and would be given
        back: so only the time before `start` must be looked at.
        """
        times, free = self.times, self.free
        index = max(bisect_right(times, not_before) - 1, 0)
        begin, last = not_before, len(times) - 1
        while begin < start:
            if free[index] >= nodes:
                index += 1
                if index > last or times[index] >= start or times[index] >= begin + length:
                    return begin
                continue
            index += 1
            if index > last:
                return start
            begin = times[index]
        return start

    def fits(self, nodes: int, start: int, end: int) -> bool:
        """Whether `nodes` are free during all of ``[start, end)``."""
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
        first, last = self._border(start), self._border(end)
        times, free = self.times, self.free
        for index in range(first, last):
            free[index] -= nodes
        if free[last] == free[last - 1]:
            del times[last], free[last]
        if first and free[first] == free[first - 1]:
            del times[first], free[first]

    def next_border(self, after: int) -> int:
        """When a step begins after `after`. There must be one: the last step never ends."""
        return self.times[bisect_right(self.times, after)]

    def forget_before(self, now: int) -> None:
        """Nothing before `now` will be asked for again."""
        times = self.times
        if times[0] < now:
            at = bisect_right(times, now) - 1
            if at > 0:
                del times[:at], self.free[:at]
            times[0] = now

    def _border(self, time: int) -> int:
        """The index of a step that begins at `time`, made if need be."""
        times = self.times
        index = bisect_left(times, time)
        if index == len(times) or times[index] != time:
            assert index > 0, "a profile knows nothing of the time before it"
            times.insert(index, time)
            self.free.insert(index, self.free[index - 1])
        return index
