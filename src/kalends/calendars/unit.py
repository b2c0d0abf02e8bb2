"""The calendar of one indivisible thing: disjoint bookings, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final, Self

from kalends.calendars.bookings import Booking, check_units, check_window
from kalends.calendars.ledger import Ledger, occupied
from kalends.calendars.profiles import Step
from kalends.calendars.structures.gap_blocks import GapBlocks
from kalends.core import limits
from kalends.core.errors import Conflict
from kalends.core.intervals import Interval

REBUILD_SHARE: Final = 16
"""Loading more than one new booking for this many old ones rebuilds the gaps in one pass."""


class UnitCalendar(Ledger):
    """A calendar of capacity 1; see `kalends.calendars.engine.Calendar`.

    When it is taken is kept apart from by whom: the gaps know bookings by their id only.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._taken = GapBlocks()

    def free(self, start: int, end: int) -> int:
        check_window(start, end)
        return 0 if self._taken.taken(start, end) else 1

    def walk(self, start: int, end: int) -> Iterator[Step]:
        at = start
        for gap_start, gap_end in self._taken.gaps(start, end, limits.TIME_S_MAX):
            opens, closes = max(gap_start, start), min(gap_end, end)
            if at < opens:
                yield at, opens, 0
            yield opens, closes, 1
            at = closes
        if at < end:
            yield at, end, 0

    def gaps(self, units: int, start: int, end: int) -> list[Interval]:
        check_window(start, end)
        check_units(units)
        start, end = max(start, 0), min(end, limits.TIME_S_MAX)
        if units > 1 or start >= end:
            return []
        return [Interval(*gap) for gap in self._taken.gaps(start, end, limits.TIME_S_MAX)]

    def listing(self, start: int, end: int, count_max: int | None = None) -> list[Booking]:
        check_window(start, end)
        found = islice(self._taken.keys(start, end), count_max)
        return [self._bookings[booking_id] for booking_id in found]

    def _first_fit(self, units: int, length_s: int, start: int, end: int) -> int | None:
        fit = self._taken.earliest(length_s, start)
        return fit if fit + length_s <= end else None

    def _take(self, booking: Booking) -> None:
        if not self._taken.add(booking.start, booking.end, booking.id):
            raise occupied(booking.start, booking.end, 1, 0)

    def _take_all(self, bookings: list[Booking]) -> None:
        if len(bookings) * REBUILD_SHARE > len(self._taken):
            new = ((booking.start, booking.end, booking.id) for booking in bookings)
            try:
                self._taken = GapBlocks(chain(self._taken, new))
            except ValueError as error:
                raise Conflict("two bookings overlap", where="start") from error
            return
        # A copy of the gaps costs less than undoing what was taken before a clash.
        before = self._taken.copy()
        try:
            for booking in bookings:
                self._take(booking)
        except Conflict:
            self._taken = before
            raise

    def _give_back(self, booking: Booking) -> None:
        self._taken.remove(booking.start)

    def _copy_amounts(self) -> Self:
        twin = type(self)()
        twin._taken = self._taken.copy()
        return twin

    def _check_amounts(self) -> None:
        self._taken.check()
        assert len(self._taken) == len(self._bookings)
        for start, end, booking_id in self._taken:
            booking = self._bookings[booking_id]
            assert (booking.start, booking.end) == (start, end), booking
