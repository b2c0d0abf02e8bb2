"""The interface of every calendar of a resource.

Two calendars fill this interface: `UnitCalendar` for a capacity of 1 and `CapacityCalendar` for n
identical units. A calendar knows amounts and times only; who may book what is decided by
`kalends.calendars.resource`. Slots are half-open: back-to-back bookings touch and do not clash.

After any error that a method raises, the calendar is exactly as it was before the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from kalends.calendars.bookings import Booking, State
from kalends.calendars.capacity import CapacityCalendar
from kalends.calendars.profiles import Step
from kalends.calendars.unit import UnitCalendar
from kalends.core.intervals import Interval


class Calendar(Protocol):
    """All bookings of one resource of `capacity` units. Not thread-safe. n: bookings, k: overlapped."""

    @property
    def capacity(self) -> int: ...

    def book(self, booking: Booking) -> None:
        """Take `booking` in. O(log n + k).

        Raises `InvalidInput` for one that could never be taken (length, units, types), `Conflict`
        when too few units are free somewhere in its window or its id is already booked.
        """

    def load(self, bookings: Iterable[Booking]) -> None:
        """Take all of `bookings` in, or none: as `book` for each in turn, but in one go.

        Raises as `book` for the first that could not be taken in; the calendar is then as it was.
        O((n + m) log m) for m of them.
        """

    def release(self, booking_id: int) -> Booking:
        """Take a booking out and return it; raises `NotFound`. O(log n + k)."""

    def change_state(self, booking_id: int, state: State) -> Booking:
        """Return the booking, now in `state`.

        Raises `NotFound`, or `InvalidInput` for a state that cannot be.
        """

    def get(self, booking_id: int) -> Booking:
        """Return the booking of this id; raises `NotFound`."""

    def free(self, start: int, end: int) -> int:
        """Return the smallest number of free units over ``[start, end)``. O(log n + k)."""

    def walk(self, start: int, end: int) -> Iterator[Step]:
        """Yield `steps` one at a time; the calendar must not change meanwhile."""

    def steps(self, start: int, end: int) -> list[Step]:
        """Free units as ``(start, end, units)`` covering ``[start, end)``, equal neighbours joined."""

    def gaps(self, units: int, start: int, end: int) -> list[Interval]:
        """Return the longest stretches with at least `units` free that overlap ``[start, end)``, in order.

        They are whole, not clipped to the window; time begins at 0 and ends at `limits.TIME_S_MAX`.
        Raises `InvalidInput` for an empty window, or fewer units than 1. O(log n + their points).
        """

    def earliest_fit(
        self,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        windows: Sequence[Interval] | None = None,
    ) -> int | None:
        """Return the first start at which `units` are free for `length_s`, or None.

        The slot starts at or after `not_before`, ends at or before `not_after`, and lies inside one
        of `windows` (sorted, disjoint, not touching; None: anywhere).
        """

    def listing(self, start: int, end: int, count_max: int | None = None) -> list[Booking]:
        """Return the bookings that overlap ``[start, end)``, ordered by (start, end, id).

        At most the first `count_max`; None: all.
        """

    def copy(self) -> Calendar:
        """Return an independent calendar with the same bookings, for what-if: try, look, throw away.

        Cheap: what neither of the two changes stays shared.
        """

    def check(self) -> None:
        """Raises `AssertionError` when an invariant does not hold: a bug of ours. O(n log n)."""

    def __len__(self) -> int: ...


def new_calendar(capacity: int) -> Calendar:
    """Return an empty calendar for `capacity` units; raises `InvalidInput` for another value."""
    return UnitCalendar() if type(capacity) is int and capacity == 1 else CapacityCalendar(capacity)
