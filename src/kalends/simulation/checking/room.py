"""Free nodes over time, as the checker counts them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Room:
    """Free nodes as steps over time; the last one never ends."""

    def __init__(self, nodes: int) -> None:
        self.times = [-1]
        self.free = [nodes]

    def add(self, start_s: int, end_s: int, nodes: int) -> None:
        """Give back `nodes` during ``[start_s, end_s)``; negative ones are taken."""
        if start_s < end_s:
            first, last = self._step(start_s), self._step(end_s)
            self.free[first:last] = [free + nodes for free in self.free[first:last]]
            for at in (last, first):
                if at and self.free[at] == self.free[at - 1]:
                    del self.times[at], self.free[at]

    def forget_before(self, now: int) -> None:
        """Drop what is over."""
        at = bisect_right(self.times, now) - 1
        if at > 0:
            del self.times[:at], self.free[:at]

    def earliest_s(self, nodes: int, length_s: int, now: int, before_s: int | None = None) -> int:
        """Return the first time from which `nodes` are free for `length_s`.

        From `before_s` on nobody looks: then it is any time that is not before it.
        """
        times, free = self.times, self.free
        start_s = now
        at = bisect_right(times, now) - 1
        while at < len(times) and times[at] < start_s + length_s:
            if before_s is not None and start_s >= before_s:
                break
            at += 1
            if free[at - 1] < nodes:
                start_s = times[at]
        return start_s

    def most(self, start_s: int, end_s: int) -> int:
        """Return how many nodes are free at some time of ``[start_s, end_s)``."""
        first = bisect_right(self.times, start_s) - 1
        return max(self.free[first : max(bisect_left(self.times, end_s), first + 1)])

    def first_s(self, nodes: int, now: int) -> int:
        """Return the first time from `now` on at which `nodes` are free, or when the last step begins."""
        at = bisect_right(self.times, now) - 1
        if self.free[at] >= nodes:
            return now
        last = len(self.times) - 1
        while at < last and self.free[at] < nodes:
            at += 1
        return self.times[at]

    def _step(self, time_s: int) -> int:
        at = bisect_right(self.times, time_s) - 1
        if self.times[at] == time_s:
            return at
        self.times.insert(at + 1, time_s)
        self.free.insert(at + 1, self.free[at])
        return at + 1
