"""The common part of both calendars: bookings by id, search for a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NoReturn, Self

from kalends.calendars.bookings import (
    Booking,
    State,
    check_booking,
    check_state,
    check_window,
)
from kalends.calendars.profiles import Step
from kalends.calendars.structures.shared import SharedTable
from kalends.core import limits
from kalends.core.errors import Conflict, InvalidInput, NotFound
from kalends.core.intervals import Interval

_END = attrgetter("end")


class Ledger(ABC):
    """Base of the calendars; see `kalends.calendars.engine.Calendar` for the promises.

    Copies share what neither changes. A subclass keeps the amounts over time, in the methods that are
    abstract here.
    """

    def __init__(self, capacity: int) -> None:
        if type(capacity) is not int or not 1 <= capacity <= limits.UNITS_MAX:
            raise InvalidInput(
                f"a capacity of {capacity!r}",
                where="capacity",
                remedy=f"give a whole number from 1 to {limits.UNITS_MAX}",
            )
        self._capacity = capacity
        self._bookings: SharedTable[Booking] = SharedTable()

    @property
    def capacity(self) -> int:
        return self._capacity

    def __len__(self) -> int:
        return len(self._bookings)

    def book(self, booking: Booking) -> None:
        check_booking(booking, self._capacity)
        if booking.id in self._bookings:
            raise Conflict(f"booking {booking.id} is already in this calendar", where="id")
        self._take(booking)
        self._bookings[booking.id] = booking

    def load(self, bookings: Iterable[Booking]) -> None:
        new = list(bookings)
        try:
            for booking in new:
                check_booking(booking, self._capacity)
            fresh = {booking.id: booking for booking in new}
            known = self._bookings
            if len(fresh) < len(new) or (len(known) and any(each in known for each in fresh)):
                raise Conflict("two bookings have the same id", where="id")
            self._take_all(new)
        except (InvalidInput, Conflict):
            self._raise_first_refusal(new)
            raise
        self._bookings.update(fresh.items())

    def release(self, booking_id: int) -> Booking:
        booking = self.get(booking_id)
        del self._bookings[booking_id]
        self._give_back(booking)
        return booking

    def change_state(self, booking_id: int, state: State) -> Booking:
        old = self.get(booking_id)
        check_state(state)
        booking = Booking(
            id=old.id,
            start=old.start,
            end=old.end,
            units=old.units,
            state=state,
            holder=old.holder,
            reservation=old.reservation,
            gap_s=old.gap_s,
        )
        self._bookings[booking_id] = booking
        return booking

    def get(self, booking_id: int) -> Booking:
        booking = self._bookings.get(booking_id) if type(booking_id) is int else None
        if booking is None:
            raise NotFound(
                f"no booking {booking_id!r} in this calendar",
                where="id",
                remedy="it may have expired or been released",
            )
        return booking

    def steps(self, start: int, end: int) -> list[Step]:
        check_window(start, end)
        return list(self.walk(start, end))

    def earliest_fit(
        self,
        units: int,
        length_s: int,
        not_before: int,
        not_after: int,
        windows: Sequence[Interval] | None = None,
    ) -> int | None:
        if not (
            type(units) is type(length_s) is type(not_before) is type(not_after) is int
            and units > 0
            and length_s > 0
        ):
            _refuse_search(units, length_s, not_before, not_after)
        if units > self._capacity:
            return None
        if windows is None:
            return self._first_fit(units, length_s, not_before, not_after)
        at, index = not_before, 0
        while (start := self._first_fit(units, length_s, at, not_after)) is not None:
            # No earlier window can hold it; each turn begins in a later one.
            index = bisect_left(windows, start + length_s, lo=index, key=_END)
            if index == len(windows):
                return None
            if windows[index].start <= start:
                return start
            at = windows[index].start
        return None

    def copy(self) -> Self:
        twin = self._copy_amounts()
        twin._bookings = self._bookings.copy()
        return twin

    def check(self) -> None:
        """Check that amounts equal the sum of the bookings."""
        self._bookings.check()
        for booking_id, booking in self._bookings.items():
            assert booking.id == booking_id, booking
            check_booking(booking, self._capacity)
        self._check_amounts()

    def _raise_first_refusal(self, bookings: list[Booking]) -> None:
        """Raise what booking them in turn raises: an earlier clash comes before a later bad length."""
        attempt = self.copy()
        for booking in bookings:
            attempt.book(booking)

    @abstractmethod
    def free(self, start: int, end: int) -> int:
        """Return the free units, see `Calendar.free`."""

    @abstractmethod
    def walk(self, start: int, end: int) -> Iterator[Step]:
        """Walk the steps, see `Calendar.walk`."""

    @abstractmethod
    def gaps(self, units: int, start: int, end: int) -> list[Interval]:
        """Return the gaps, see `Calendar.gaps`."""

    @abstractmethod
    def listing(self, start: int, end: int, count_max: int | None = None) -> list[Booking]:
        """List bookings, see `Calendar.listing`."""

    @abstractmethod
    def _first_fit(self, units: int, length_s: int, start: int, end: int) -> int | None:
        """Return the first start within ``[start, end)`` for at most `capacity` units, or None."""

    @abstractmethod
    def _take(self, booking: Booking) -> None:
        """Subtract a well-formed booking; raises `Conflict` before anything has changed."""

    @abstractmethod
    def _take_all(self, bookings: list[Booking]) -> None:
        """Take all bookings or none: well-formed, not booked yet, no id twice."""

    @abstractmethod
    def _give_back(self, booking: Booking) -> None:
        """Undo `_take`."""

    @abstractmethod
    def _copy_amounts(self) -> Self:
        """Return a new calendar with the same amounts, still without bookings."""

    @abstractmethod
    def _check_amounts(self) -> None:
        """Check the amounts, as part of `check`."""


def occupied(start: int, end: int, units: int, free: int) -> Conflict:
    """Return the error for a booking that finds too little free."""
    return Conflict(
        f"{units} wanted during [{start}, {end}), {free} free at its fullest",
        where="units",
        remedy="choose another time or fewer units",
    )


def _refuse_search(units: int, length_s: int, not_before: int, not_after: int) -> NoReturn:
    """Raise `InvalidInput` with the fault of a malformed search."""
    for value, where in (
        (units, "units"),
        (length_s, "length_s"),
        (not_before, "not_before"),
        (not_after, "not_after"),
    ):
        if type(value) is not int:
            raise InvalidInput(f"{value!r} is not a whole number", where=where)
    raise InvalidInput(
        f"{units} units for {length_s} seconds",
        where="units" if units < 1 else "length_s",
        remedy="ask for at least 1 unit and 1 second",
    )
