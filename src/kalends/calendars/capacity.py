"""The calendar of n identical units: free capacity as a step function of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from sortedcontainers import SortedList

from kalends.calendars.bookings import Booking, check_window
from kalends.calendars.ledger import Ledger, occupied
from kalends.calendars.profiles import Step
from kalends.core.errors import Conflict


class CapacityCalendar(Ledger):
    """A calendar of `capacity` units; see `kalends.calendars.engine.Calendar`.

    `_free[t]` is what is free from the change point t up to the next one; before the first all is
    free. Neighbouring values differ, so that equal calendars have equal points.

    For listings, bookings are kept by length class (the bits of their length) in order of start: a
    booking of a class that overlaps a window starts at most one class width before it.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._points = SortedList()
        self._free: dict[int, int] = {}
        self._classes: dict[int, SortedList] = {}

    def free(self, start: int, end: int) -> int:
        check_window(start, end)
        least = self._free_at(start)
        for point in self._points.irange(start, end, inclusive=(False, False)):
            free = self._free[point]
            if free < least:
                least = free
        return least

    def walk(self, start: int, end: int) -> Iterator[Step]:
        at, free = start, self._free_at(start)
        for point in self._points.irange(start, end, inclusive=(False, False)):
            yield at, point, free
            at, free = point, self._free[point]
        yield at, end, free

    def listing(self, start: int, end: int, count_max: int | None = None) -> list[Booking]:
        check_window(start, end)
        found = [
            entry
            for bits, entries in self._classes.items()
            for entry in entries.irange((start - (1 << bits),), (end,))
            if entry[1] > start
        ]
        found.sort()
        return [self._bookings[booking_id] for _, _, booking_id in found[:count_max]]

    def _free_at(self, time_s: int) -> int:
        index = self._points.bisect_right(time_s)
        return self._free[self._points[index - 1]] if index else self._capacity

    def _take(self, booking: Booking) -> None:
        start, end = booking.start, booking.end
        free = self.free(start, end)
        if free < booking.units:
            raise occupied(start, end, booking.units, free)
        self._add(start, end, -booking.units)
        bits = (end - start).bit_length()
        if bits not in self._classes:
            self._classes[bits] = SortedList()
        self._classes[bits].add((start, end, booking.id))

    def _take_all(self, bookings: list[Booking]) -> None:
        for number, booking in enumerate(bookings):
            try:
                self._take(booking)
            except Conflict:
                for taken in bookings[:number]:
                    self._give_back(taken)
                raise

    def _give_back(self, booking: Booking) -> None:
        start, end = booking.start, booking.end
        self._add(start, end, booking.units)
        bits = (end - start).bit_length()
        self._classes[bits].remove((start, end, booking.id))
        if not self._classes[bits]:
            del self._classes[bits]

    def _add(self, start: int, end: int, units: int) -> None:
        """Add `units` during ``[start, end)``, keeping neighbouring values different."""
        self._set_point(start)
        self._set_point(end)
        free = self._free
        for point in self._points.irange(start, end, inclusive=(True, False)):
            free[point] += units
        self._drop_if_equal(start)
        self._drop_if_equal(end)

    def _set_point(self, time_s: int) -> None:
        if time_s not in self._free:
            self._free[time_s] = self._free_at(time_s)
            self._points.add(time_s)

    def _drop_if_equal(self, time_s: int) -> None:
        if self._free_at(time_s - 1) == self._free[time_s]:
            self._points.remove(time_s)
            del self._free[time_s]

    def _copy_amounts(self) -> Self:
        twin = type(self)(self._capacity)
        twin._points = self._points.copy()
        twin._free = dict(self._free)
        twin._classes = {bits: entries.copy() for bits, entries in self._classes.items()}
        return twin

    def _check_amounts(self) -> None:
        changes: dict[int, int] = {}
        for booking in self._bookings.values():
            changes[booking.start] = changes.get(booking.start, 0) - booking.units
            changes[booking.end] = changes.get(booking.end, 0) + booking.units
        free, expected = self._capacity, {}
        for point in sorted(changes):
            free += changes[point]
            assert 0 <= free <= self._capacity, point
            if changes[point]:
                expected[point] = free
        assert free == self._capacity
        assert self._free == expected
        self._points._check()
        assert list(self._points) == sorted(expected)
        listed = 0
        for bits, entries in self._classes.items():
            entries._check()
            assert len(entries) > 0, bits
            for start, end, booking_id in entries:
                booking = self._bookings[booking_id]
                assert (booking.start, booking.end) == (start, end), booking
                assert (end - start).bit_length() == bits, booking
            listed += len(entries)
        assert listed == len(self._bookings)
