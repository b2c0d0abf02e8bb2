"""A booking: one claim on one calendar, and what makes it well-formed."""

from __future__ import annotations

from typing import Final, Literal, NoReturn

import msgspec

from kalends.core import limits
from kalends.core.errors import InvalidInput

State = Literal["held", "prepared", "locked"]
STATES: Final[tuple[State, ...]] = ("held", "prepared", "locked")


class Booking(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A booking of `units` of a calendar during ``[start, end)`` (integer seconds UTC).

    Immutable, so that a copy of a calendar can share it; `Calendar.change_state` puts another in its
    place. `holder` is the user's name, `reservation` the request's id. The last `gap_s` seconds are a buffer
    of the owner: nobody uses them. A calendar has no clock: its caller releases what has expired.
    """

    id: int
    start: int
    end: int
    units: int
    state: State
    holder: str
    reservation: str
    gap_s: int = 0


def check_booking(booking: Booking, capacity: int) -> None:
    """Raises `InvalidInput` for a booking that no calendar of this `capacity` could ever take.

    `type(x) is int` on purpose: a bool, a float or NaN is a mistake of the caller, not a number.
    """
    start, end, units = booking.start, booking.end, booking.units
    if (
        type(start) is int
        and type(end) is int
        and type(units) is int
        and 0 <= start < end <= limits.TIME_S_MAX
        and 1 <= units <= capacity
        and type(booking.id) is int
        and type(booking.holder) is str
        and type(booking.reservation) is str
        and type(booking.state) is str
        and booking.state in STATES
    ):
        return
    _refuse_booking(booking, capacity)


def _refuse_booking(booking: Booking, capacity: int) -> NoReturn:
    """Raise `InvalidInput` with the fault of a malformed booking."""
    start, end, units = booking.start, booking.end, booking.units
    check_window(start, end)
    if start < 0 or end > limits.TIME_S_MAX:
        raise InvalidInput(
            f"[{start}, {end}) is not within 0..{limits.TIME_S_MAX}",
            where="start",
            remedy="give times in seconds since 1970 UTC",
        )
    if type(units) is not int or not 1 <= units <= capacity:
        raise InvalidInput(
            f"{units!r} units of {capacity}",
            where="units",
            remedy=f"ask for a whole number of units from 1 to {capacity}",
        )
    if type(booking.id) is not int:
        raise InvalidInput(f"{booking.id!r} is not a booking id", where="id")
    if type(booking.holder) is not str or type(booking.reservation) is not str:
        raise InvalidInput("holder and reservation are texts", where="holder")
    check_state(booking.state)
    raise AssertionError(booking)


def check_state(state: State) -> None:
    """Raises `InvalidInput` for an unknown state."""
    if type(state) is not str or state not in STATES:
        raise InvalidInput(
            f"{state!r} is not a state", where="state", remedy="use held, prepared or locked"
        )


def check_window(start: int, end: int) -> None:
    """Raises `InvalidInput` unless ``[start, end)`` has whole seconds and a positive length."""
    if type(start) is not int or type(end) is not int:
        raise InvalidInput(
            f"[{start!r}, {end!r}) does not have whole seconds",
            where="start",
            remedy="give integer seconds UTC",
        )
    if start >= end:
        raise InvalidInput(
            f"[{start}, {end}) is empty", where="end", remedy="let it end after it starts"
        )


def check_units(units: int) -> None:
    """Raises `InvalidInput` unless `units` is a whole number of at least 1."""
    if type(units) is not int or units < 1:
        raise InvalidInput(
            f"{units!r} units", where="units", remedy="ask for a whole number of at least 1 unit"
        )
