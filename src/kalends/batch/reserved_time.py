"""Reserved time of each user, which the owner charges, used or not.

A reservation counts from its start to its end, or until it is given back. A queue looks at its claims from
time to time, and whenever one comes or goes. A claim that was not yet locked at the first look after its
start counts from the look that finds it locked, so a reservation that is changed while it runs is never
charged twice for the same second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs

from kalends.batch.journal.contract import ReservedTime
from kalends.calendars.bookings import Booking


class BookedTime(NamedTuple):
    """A request, and the time for which it has booked; it may have booked twice for one."""

    reservation: str
    start: int
    end: int


@dataclass
class ReservationWatch:
    """The reservations of one machine that have begun and are not over; `looked_s` is the last look."""

    machine: str
    looked_s: int
    _open: dict[BookedTime, ReservedTime] = field(default_factory=dict)

    def restore(self, known: Iterable[ReservedTime]) -> None:
        """Take what was stored in earlier lives."""
        self._open = {
            BookedTime(each.reservation, each.booked_start, each.booked_end): each for each in known
        }

    def look(self, claims: Iterable[Booking], now: int, credits: int) -> list[ReservedTime]:
        """Return what is to be stored: reservations that have begun, and those given back before their end.

        `claims` are all that lie between the last look and now; a node-hour costs `credits`.
        """
        locked: dict[BookedTime, Booking] = {}
        for each in claims:
            if each.state == "locked":
                name = BookedTime(each.reservation, each.start, each.end)
                others = locked[name].units if name in locked else 0
                locked[name] = structs.replace(each, units=each.units + others)
        told = []
        before, self._open = self._open, {}
        for name, known in before.items():
            if known.end > now and name in locked:
                self._open[name] = known
            elif known.end > now:
                told.append(_charged(structs.replace(known, end=max(now, known.start)), credits))
        for name, booking in locked.items():
            began = booking.start if booking.start > self.looked_s else now
            if name in before or booking.start > now or booking.end <= began:
                continue
            found = ReservedTime(
                machine=self.machine, reservation=booking.reservation, booked_start=booking.start,
                booked_end=booking.end, user=booking.holder, start=began, end=booking.end,
                nodes=booking.units,
            )  # fmt: skip
            told.append(_charged(found, credits))
            if booking.end > now:
                self._open[name] = found
        self.looked_s = max(self.looked_s, now)
        return told


def _charged(reserved: ReservedTime, credits: int) -> ReservedTime:
    node_seconds = reserved.nodes * (reserved.end - reserved.start)
    return structs.replace(reserved, credit_seconds=node_seconds * credits)
