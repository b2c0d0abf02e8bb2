"""The calendar of n identical units: free capacity as a step function, and bookings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Self

import numpy as np

from kalends.calendars.bookings import Booking, check_units, check_window
from kalends.calendars.ledger import Ledger, occupied
from kalends.calendars.profiles import Step
from kalends.calendars.structures.booking_index import BookingIndex
from kalends.calendars.structures.step_function import StepFunction
from kalends.core import limits
from kalends.core.errors import Conflict
from kalends.core.intervals import Interval


class CapacityCalendar(Ledger):
    """A calendar of `capacity` units; see `kalends.calendars.engine.Calendar`.

    `_profile` is `capacity` less the sum of the bookings at every time; `_listing` their order.
    """

    _new_profile = StepFunction

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self._profile = self._new_profile(capacity)
        self._listing = BookingIndex()

    def free(self, start: int, end: int) -> int:
        check_window(start, end)
        return self._profile.least(start, end)

    def walk(self, start: int, end: int) -> Iterator[Step]:
        return self._profile.walk(start, end)

    def gaps(self, units: int, start: int, end: int) -> list[Interval]:
        check_window(start, end)
        check_units(units)
        start, end = max(start, 0), min(end, limits.TIME_S_MAX)
        if start >= end or units > self._capacity:
            return []
        return [
            Interval(max(gap.start, 0), min(gap.end, limits.TIME_S_MAX))
            for gap in self._profile.stretches(units, start, end)
        ]

    def listing(self, start: int, end: int, count_max: int | None = None) -> list[Booking]:
        check_window(start, end)
        found = islice(self._listing.overlapping(start, end), count_max)
        return [self._bookings[booking_id] for _, _, booking_id in found]

    def _first_fit(self, units: int, length_s: int, start: int, end: int) -> int | None:
        return self._profile.first_fit(units, length_s, start, end)

    def _take(self, booking: Booking) -> None:
        start, end, units = booking.start, booking.end, booking.units
        free = self._profile.take(start, end, units)
        if free < units:
            raise occupied(start, end, units, free)
        self._listing.add(booking)

    def _take_all(self, bookings: list[Booking]) -> None:
        if not bookings:
            return
        starts, ends, units = (
            np.fromiter(numbers, np.int64, len(bookings))
            for numbers in (
                (booking.start for booking in bookings),
                (booking.end for booking in bookings),
                (booking.units for booking in bookings),
            )
        )
        if not self._profile.add_all(starts, ends, -units):
            raise Conflict("too few units are free for all bookings", where="units")
        self._listing.add_all(bookings)

    def _give_back(self, booking: Booking) -> None:
        self._profile.add(booking.start, booking.end, booking.units)
        self._listing.remove(booking)

    def _copy_amounts(self) -> Self:
        twin = type(self)(self._capacity)
        twin._profile = self._profile.copy()
        twin._listing = self._listing.copy()
        return twin

    def _check_amounts(self) -> None:
        self._profile.check()
        changes: dict[int, int] = {}
        for booking in self._bookings.values():
            changes[booking.start] = changes.get(booking.start, 0) - booking.units
            changes[booking.end] = changes.get(booking.end, 0) + booking.units
        steps, at, free = [], -1, self._capacity
        for time_s in sorted(changes):
            if changes[time_s]:
                steps.append((at, time_s, free))
                at, free = time_s, free + changes[time_s]
        steps.append((at, limits.TIME_S_MAX + 1, free))
        assert list(self.walk(-1, limits.TIME_S_MAX + 1)) == steps
        self._listing.check(self._bookings.values())
