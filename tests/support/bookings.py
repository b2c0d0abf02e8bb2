"""Bookings of a calendar, made by hand."""

from __future__ import annotations

from typing import Any

from kalends.calendars import Booking


def booking(number: Any, start: Any, end: Any, **fields: Any) -> Booking:
    """A hold of ann's on one unit, for ever, where `fields` say nothing else."""
    usual = {"units": 1, "state": "held", "holder": "ann", "reservation": "r"}
    return Booking(id=number, start=start, end=end, **{**usual, **fields})
