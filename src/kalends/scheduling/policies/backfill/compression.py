"""Compression of a plan: bookings move, one after the other, to the earliest start that the others leave.

Nearly all of them slide into time that has become free just before them. Whether an earlier gap exists for a
booking is usually known from gaps that were too short for others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from kalends.scheduling.profile import NEVER, Profile


class Compression:
    """One round over the bookings of a plan.

    None of them had an earlier start when it was last examined. Since then time has become free only
    during ``[freed_from_s, freed_until_s)``, and through moves in this round.
    """

    __slots__ = (
        "_first_s",
        "_freed_until_s",
        "_known",
        "from_s",
        "moved_from_s",
        "moved_until_s",
        "plan",
        "roof",
    )

    def __init__(self, plan: Profile, freed_from_s: int, freed_until_s: int) -> None:
        times, free = plan.times, plan.free
        self.plan = plan
        self.moved_from_s, self.moved_until_s = NEVER, times[0]
        """First and last time that moves have freed."""
        self._freed_until_s = freed_until_s
        freed = max(bisect_right(times, freed_from_s) - 1, 0)
        self.roof = max(free[freed : max(bisect_left(times, freed_until_s), freed + 1)])
        """No booking of more nodes than this can move."""
        self.from_s = self._first_s = 0
        """Nothing of what was freed is left before `from_s`: who begins by then cannot move. Nor is there a
        gap for anybody that begins before `_first_s`, where the one begins that `from_s` lies in."""
        self._look_from(max(freed_from_s, times[0]))
        self._known: dict[int, tuple[int, int]] = {}
        """By nodes, a length and a time: every gap that begins before that time is shorter."""

    def move(self, nodes: int, length_s: int, start_s: int) -> int:
        """Move a booking to its earliest start, at `start_s` or before; return its new start.

        The last step must have enough nodes. A booking that begins `NEVER` takes nothing yet.
        """
        times, free = self.plan.times, self.plan.free
        at = first = bisect_left(times, start_s)
        while first and free[first - 1] >= nodes:
            first -= 1
        earlier_s = times[first] if first < at else start_s
        if first:
            # Any other gap ends before the previous step, which has no room.
            latest_s = times[first - 1] - length_s
            if latest_s >= self._first_s:
                gap_s = self._gap(nodes, length_s, latest_s)
                if gap_s is not None:
                    earlier_s = gap_s
        if earlier_s < start_s:
            if start_s == NEVER:
                self.plan.take(nodes, earlier_s, earlier_s + length_s)
            else:
                self._move(nodes, length_s, start_s, earlier_s, first, at)
            if earlier_s <= self.from_s:
                self._look_from(self.from_s)
        return earlier_s

    def _gap(self, nodes: int, length_s: int, latest_s: int) -> int | None:
        """Return the begin of the first gap of this length that begins by `latest_s`.

        A step without room follows.
        """
        latest_s = min(latest_s, self._freed_until_s - 1)
        times, free = self.plan.times, self.plan.free
        # All gaps are at least as long as this.
        longer_s, begin_s = self._known.get(nodes, (1, 0))
        if length_s < longer_s or begin_s <= self._first_s:
            longer_s, begin_s = 1, self._first_s
        if latest_s < begin_s:
            return None
        index = bisect_right(times, begin_s) - 1
        found = None
        while True:
            while free[index] < nodes:
                index += 1
            begin_s = times[index]
            if begin_s > latest_s:
                break
            while free[index] >= nodes:
                index += 1
            gap_s = times[index] - begin_s
            if gap_s >= length_s:
                found = begin_s
                break
            longer_s = max(longer_s, gap_s + 1)
        self._known[nodes] = longer_s, begin_s
        return found

    def _move(
        self, nodes: int, length_s: int, start_s: int, earlier_s: int, first: int, at: int
    ) -> None:
        """Move a booking; if it slides, by the steps ``first ... at - 1``."""
        plan, over_s, end_s = self.plan, earlier_s + length_s, start_s + length_s
        if over_s > start_s:
            freed_s = over_s
            freed = plan.slide(nodes, first, at, start_s, over_s, end_s)
        else:
            freed_s = start_s
            plan.take(nodes, earlier_s, over_s)
            plan.take(-nodes, start_s, end_s)
            freed = bisect_right(plan.times, start_s) - 1
        if freed_s < self.moved_from_s:
            self.moved_from_s = freed_s
        if end_s > self.moved_until_s:
            self.moved_until_s = end_s
            self._freed_until_s = max(self._freed_until_s, end_s)
        self._note_freed(freed, freed_s, end_s)

    def _note_freed(self, freed: int, freed_s: int, end_s: int) -> None:
        """Note that more nodes are free during ``[freed_s, end_s)``, from the step `freed` on."""
        times, free = self.plan.times, self.plan.free
        most, step, steps = free[freed], freed + 1, len(times)
        while step < steps and times[step] < end_s:
            if free[step] > most:
                most = free[step]
            step += 1
        if most > self.roof:
            self.roof = most
        known = self._known
        for nodes, (longer_s, begin_s) in known.items():
            if nodes <= most and freed_s < begin_s:
                begin = freed
                while begin and free[begin] >= nodes and free[begin - 1] >= nodes:
                    begin -= 1
                if times[begin] < begin_s:
                    known[nodes] = longer_s, times[begin]

    def _look_from(self, since_s: int) -> None:
        """Set from when on anything is free that was not before: at `since_s` or later."""
        times, free = self.plan.times, self.plan.free
        step = first = bisect_right(times, since_s) - 1
        last = len(times) - 1
        while step < last and free[step] <= 0:
            step += 1
        self.from_s = since_s if step == first else times[step]
        while step and free[step - 1] > 0:
            step -= 1
        self._first_s = times[step]
