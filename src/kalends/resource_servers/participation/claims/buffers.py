"""Owners' buffers behind bookings: how long each one is, and how it follows the owner's rule.

A claim keeps the buffer that it was booked with. When the rule changes, bookings are kept: their buffers
become as the rule is now, as far as the next booking leaves room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from kalends.calendars import Booking, ResourceCalendar
from kalends.calendars.resource import BUFFER
from kalends.contract.messages import Want
from kalends.core.durations import format_duration
from kalends.core.errors import NotFound, Refusal, RefusalCode
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.claim_sets import Claim, claims_of
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.claims.earmarks import Stretch
from kalends.resource_servers.participation.claims.occupancy import (
    buffered,
    peak_units,
    pieces_beyond,
)


@dataclass(eq=False)
class Buffers:
    """The buffers on the calendars of a site. Reservations that `changers` are to replace keep theirs."""

    calendars: Mapping[str, ResourceCalendar]
    stakes: Stakes
    changers: Mapping[str, str]
    kept: bool = field(init=False, default=False)
    """Whether any booking may have a buffer."""
    _changing: dict[Stretch, None] = field(init=False, default_factory=dict)
    """Where bookings are that may grow once their changes are decided."""

    def __post_init__(self) -> None:
        self.look()

    def look(self, *, stored: bool = False) -> None:
        """See whether the owner keeps buffers now; `stored`: some bookings in the store have one."""
        self.kept = self.kept or stored or any(each.gap_s for each in self.calendars.values())

    def give(self, claims: Iterable[Claim], standing: Sequence[Claim] = ()) -> None:
        """Give `claims` the buffers to book them with; they take the place of `standing`.

        A claim that ends within a standing slot needs no more than that slot has: giving back needs no room.
        That holds for as many units as the slot has; units that come new need all of the buffer.
        """
        spare = [old.units for old in standing]
        for claim in claims:
            calendar = self.calendars.get(claim.resource)
            gap_s = calendar.gap_s if calendar is not None else 0
            for number, old in enumerate(standing):
                left_s = old.end + old.gap_s - claim.end
                if (
                    old.resource == claim.resource
                    and old.start <= claim.end <= old.end
                    and claim.units <= spare[number]
                    and left_s < gap_s
                ):
                    spare[number] -= claim.units
                    gap_s = left_s
                    break
            claim.gap_s = min(gap_s, max(TIME_S_MAX - claim.end, 0))

    def refusals(self, wants: Sequence[Want]) -> list[Refusal]:
        """Return why parts of one request are too near to one another; other bookings do not count."""
        claims = claims_of(wants)
        self.give(claims)
        found = []
        for name in dict.fromkeys(claim.resource for claim in claims if claim.gap_s):
            calendar = self.calendars[name]
            own = [claim for claim in claims if claim.resource == name]
            spans = [(each.start, each.end, each.units) for each in own]
            if peak_units(spans, 0, TIME_S_MAX) > calendar.info.capacity:
                continue
            pieces = pieces_beyond(buffered(own), ())
            if max(units for *_, units in pieces) > calendar.info.capacity:
                detail = (
                    f"the owner keeps {format_duration(calendar.gap_s)} free between bookings, and parts of"
                    " this request are nearer to one another: leave that time between them"
                )
                found.append(
                    Refusal(where=name, code=RefusalCode.TOO_MUCH, detail=detail, rule=BUFFER)
                )
        return found

    def note_booked(self, claims: Iterable[Claim]) -> None:
        """Note in `claims`, which are locked, the buffers that they have on the calendars."""
        for claim in claims:
            booking = self._booked(claim.resource, claim.hold_id)
            if booking is not None:
                claim.gap_s = booking.gap_s

    def renew(self) -> None:
        """Make every buffer as long as its owner wants it now, as far as there is room."""
        for name in self.calendars if self.kept else ():
            for booking in self._not_as_ruled(name):
                self._rebook(name, booking, self.calendars[name].gap_s)

    def grow(self, stretches: Iterable[Stretch]) -> None:
        """Lengthen the buffers that ended in `stretches`, or next to them, if their room is free now.

        Otherwise a user could book the freed room nearer to the booking before it than the owner wants.
        """
        if not self.kept:
            return
        stretches, self._changing = (*self._changing, *stretches), {}
        for name, start, end in stretches:
            calendar = self.calendars[name]
            near = calendar.calendar.listing(max(start - 1, 0), end) if calendar.gap_s else ()
            for booking in near:
                if booking.gap_s >= calendar.gap_s or booking.end > end:
                    continue
                if self._may_change(booking):
                    self._rebook(name, booking, calendar.gap_s)
                elif booking.reservation in self.changers:
                    self._changing[name, booking.end - 1, booking.end] = None

    def make_way(self, claims: Iterable[Claim]) -> None:
        """Shorten the buffers that reach into `claims`."""
        for claim in claims if self.kept else ():
            for booking in self.calendars[claim.resource].calendar.listing(claim.start, claim.end):
                used_until = booking.end - booking.gap_s
                if used_until <= claim.start and self._may_change(booking):
                    self._rebook(claim.resource, booking, claim.start - used_until)

    def _not_as_ruled(self, name: str) -> list[Booking]:
        calendar = self.calendars[name]
        return [
            each
            for each in calendar.calendar.listing(0, TIME_S_MAX)
            if each.gap_s != calendar.gap_s and self._may_change(each)
        ]

    def _may_change(self, booking: Booking) -> bool:
        """Whether `booking` is a whole claim, and no change of it, or by it, is under way."""
        stake = self.stakes.peek(booking.reservation)
        if stake is None or booking.reservation in self.changers:
            return False
        return any(each.hold_id == booking.id for each in stake.claims)

    def _rebook(self, name: str, booking: Booking, gap_s: int) -> None:
        """Book `booking` with a buffer of `gap_s`, or as much of that as there is room for."""
        calendar = self.calendars[name].calendar
        calendar.release(booking.id)
        used_until = until = booking.end - booking.gap_s
        if gap_s and used_until < TIME_S_MAX:
            for _, end, free in calendar.walk(used_until, min(used_until + gap_s, TIME_S_MAX)):
                if free < booking.units:
                    break
                until = end
        booking = structs.replace(booking, end=until, gap_s=until - used_until)
        calendar.book(booking)
        if not self.stakes.is_resting(booking.reservation):
            for claim in self.stakes[booking.reservation].claims:
                if claim.hold_id == booking.id:
                    claim.gap_s = booking.gap_s

    def _booked(self, name: str, number: int) -> Booking | None:
        try:
            return self.calendars[name].calendar.get(number)
        except (KeyError, NotFound):
            return None


def unbuffered(bookings: Iterable[Booking]) -> list[Booking]:
    """Return `bookings` without their buffers."""
    return [
        structs.replace(each, end=each.end - each.gap_s, gap_s=0) if each.gap_s else each
        for each in bookings
    ]
