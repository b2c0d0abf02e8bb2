"""The calendar of one indivisible thing: disjoint intervals in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Self

from sortedcontainers import SortedList

from kalends.calendars.bookings import Booking, check_window
from kalends.calendars.ledger import Ledger, occupied
from kalends.calendars.profiles import Step
from kalends.core.errors import Conflict


class UnitCalendar(Ledger):
    """A calendar of capacity 1; see `kalends.calendars.engine.Calendar`.

    Bookings never overlap, so their ends are in the same order as their starts: the last one that
    starts before a window's end is the only one that can decide whether the window is free.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._starts = SortedList()
        self._at: dict[int, Booking] = {}

    def free(self, start: int, end: int) -> int:
        check_window(start, end)
        index = self._starts.bisect_left(end)
        return 0 if index and self._at[self._starts[index - 1]].end > start else 1

    def walk(self, start: int, end: int) -> Iterator[Step]:
        shown_until = busy_until = start
        for booking in self._overlapping(start, end):
            if booking.start > busy_until:
                if busy_until > shown_until:
                    yield shown_until, busy_until, 0
                yield busy_until, booking.start, 1
                shown_until = booking.start
            busy_until = booking.end
        busy_until = min(busy_until, end)
        if busy_until > shown_until:
            yield shown_until, busy_until, 0
        if end > busy_until:
            yield busy_until, end, 1

    def listing(self, start: int, end: int, count_max: int | None = None) -> list[Booking]:
        check_window(start, end)
        found = islice(self._overlapping(start, end), count_max)
        return [self._bookings[booking.id] for booking in found]

    def _overlapping(self, start: int, end: int) -> Iterator[Booking]:
        """The bookings as they were made: their state may have changed since."""
        first = start
        index = self._starts.bisect_left(start)
        if index and self._at[self._starts[index - 1]].end > start:
            first = self._starts[index - 1]
        for booked_start in self._starts.irange(first, end, inclusive=(True, False)):
            yield self._at[booked_start]

    def _take(self, booking: Booking) -> None:
        start, end = booking.start, booking.end
        index = self._starts.bisect_left(end)
        if index and self._at[self._starts[index - 1]].end > start:
            raise occupied(start, end, 1, 0)
        self._starts.add(start)
        self._at[start] = booking

    def _take_all(self, bookings: list[Booking]) -> None:
        for number, booking in enumerate(bookings):
            try:
                self._take(booking)
            except Conflict:
                for taken in bookings[:number]:
                    self._give_back(taken)
                raise

    def _give_back(self, booking: Booking) -> None:
        self._starts.remove(booking.start)
        del self._at[booking.start]

    def _copy_amounts(self) -> Self:
        twin = type(self)()
        twin._starts = self._starts.copy()
        twin._at = dict(self._at)
        return twin

    def _check_amounts(self) -> None:
        self._starts._check()
        assert len(self._starts) == len(self._at) == len(self._bookings)
        end_before = -1
        for start in self._starts:
            booking = self._bookings[self._at[start].id]
            assert booking.start == start, booking
            assert booking.end == self._at[start].end, booking
            assert end_before <= start, booking
            end_before = booking.end
