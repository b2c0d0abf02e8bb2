"""An owner's buffers: time before and after each booking of a resource that no user can book.

Two neighbours on one unit need the set-up of the later one and the clearing of the earlier one between them,
or the longer of both where they share it. So a calendar knows one number, and keeps it free behind each
booking: units are interchangeable, and where bookings that are longer by it fit, each unit is ready in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from kalends.core.durations import format_duration
from kalends.core.errors import InvalidInput
from kalends.core.limits import BUFFER_S_MAX


@dataclass(frozen=True, slots=True)
class Buffer:
    """`before_s` for set-up and `after_s` for clearing; at least `gap_s` between two bookings in any case.

    If `shared`, the set-up of a booking may run during the clearing of the one before. Raises `InvalidInput`
    for anything else.
    """

    before_s: int = 0
    after_s: int = 0
    gap_s: int = 0
    shared: bool = False

    def __post_init__(self) -> None:
        for where, value in (
            ("before", self.before_s),
            ("after", self.after_s),
            ("gap", self.gap_s),
        ):
            if type(value) is not int or not 0 <= value <= BUFFER_S_MAX:
                raise InvalidInput(
                    f"{value!r} seconds are not a buffer",
                    where=where,
                    remedy=f"give from 0s to {format_duration(BUFFER_S_MAX)}",
                )
        if self.shared and not (self.before_s and self.after_s):
            raise InvalidInput(
                "neighbours share a set-up and a clearing, and one of them is missing",
                where="shared",
                remedy="give before and after, or leave shared out",
            )

    @property
    def between_s(self) -> int:
        """Seconds that are kept free between two bookings of one unit."""
        both = (self.before_s, self.after_s)
        return max(self.gap_s, max(both) if self.shared else sum(both))

    def describe(self) -> str:
        """Describe in words: ``10m set-up before and 15m clearing after each booking``; "": none."""
        parts = [
            f"{format_duration(length_s)} {what}"
            for length_s, what in (
                (self.before_s, "set-up before"),
                (self.after_s, "clearing after"),
            )
            if length_s
        ]
        words = " and ".join(parts) + " each booking" if parts else ""
        if self.shared:
            words += ", shared by neighbours"
        if self.gap_s >= self.between_s > 0:
            words += (
                f"{', ' if words else ''}at least {format_duration(self.gap_s)} between bookings"
            )
        return words
