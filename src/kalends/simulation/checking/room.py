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

    def move(self, nodes: int, length_s: int, start_s: int, earlier_s: int) -> None:
        """Let what is taken from `start_s` on be taken from `earlier_s` on."""
        self.add(earlier_s, min(start_s, earlier_s + length_s), -nodes)
        self.add(max(start_s, earlier_s + length_s), start_s + length_s, nodes)

    def earliest_s(self, nodes: int, length_s: int, now: int) -> int:
        """Return the first time from which `nodes` are free for `length_s`."""
        times, free = self.times, self.free
        start_s = now
        at = bisect_right(times, now) - 1
        while at < len(times) and times[at] < start_s + length_s:
            at += 1
            if free[at - 1] < nodes:
                start_s = times[at]
        return start_s

    def earlier_s(self, nodes: int, length_s: int, start_s: int, now: int, before_s: int) -> int:
        """Return where what is taken from `start_s` on could begin instead, between `now` and `before_s`.

        What it has itself would be free then, and nowhere may more be taken than there is. It is `start_s` if
        it could begin nowhere earlier.
        """
        times, free = self.times, self.free
        at = bisect_left(times, start_s)
        first = bisect_right(times, now) - 1
        while at > first and free[at - 1] >= nodes:
            at -= 1
        if at <= first:
            return now if now < min(start_s, before_s) else start_s
        # Free without a break up to `start_s`; any other place for it is over when the step before begins.
        next_to_it = times[at] if at < len(times) and times[at] < start_s else start_s
        latest_s = min(times[at - 1] - length_s, before_s - 1)
        behind = bisect_right(times, latest_s, first) if latest_s >= now else first
        if behind > first and max(free[first:behind]) >= nodes:
            free_s = now
            for step in range(first, at):
                if times[step] >= free_s + length_s:
                    return free_s
                if free[step] < nodes:
                    free_s = times[step + 1] if step + 1 < at else start_s
                    if free_s > latest_s:
                        break
        return next_to_it if next_to_it < before_s else start_s

    def earlier_without_s(
        self, nodes: int, length_s: int, start_s: int, now: int, before_s: int
    ) -> int:
        """Return the same by taking it out for the search, wherever more is taken than there is."""
        self.add(start_s, start_s + length_s, nodes)
        found_s = self.earliest_s(nodes, length_s, now)
        self.add(start_s, start_s + length_s, -nodes)
        return found_s if found_s < min(start_s, before_s) else start_s

    def least(self) -> int:
        """Return the fewest nodes that are ever free; below 0 where more are taken than there are."""
        return min(self.free)

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
