"""Jobs that run on this site's machines, as bookings on their calendars.

There is one ledger: what a queue has given to a job, no broker is offered, and what brokers have claimed,
the queue leaves free. The queue's own journal is the truth about jobs; nothing of them is stored here, and
after a restart the queue says again what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.calendars import Booking
from kalends.core.errors import Conflict
from kalends.core.intervals import align_up
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claim_table import ClaimTable


class RunningJob(NamedTuple):
    """A job that has `nodes` nodes of `resource`, from `start` until `end` at least."""

    resource: str
    number: int
    user: str
    nodes: int
    start: int
    end: int


@dataclass(eq=False)
class JobBookings:
    """The bookings of jobs; the only writer of them."""

    book: ClaimTable
    new_id: Callable[[], int]
    _placed: dict[tuple[str, int], int] = field(default_factory=dict)

    def occupy(self, job: RunningJob) -> bool:
        """Book what a job has now, in the place of what it had; return False where there is no room.

        A job beyond its time may stand where somebody has reserved: then nothing of it is booked, for
        the reservation is what was promised.
        """
        self.vacate(job.resource, job.number)
        calendar = self.book.calendars[job.resource]
        booking = Booking(
            id=self.new_id(),
            start=job.start,
            end=align_up(max(job.end, job.start + 1), calendar.info.grain_s),
            units=job.nodes,
            state="locked",
            holder=job.user,
            reservation=f"job {job.number}",
            expires_ms=None,
        )
        try:
            calendar.book(booking)
        except Conflict:
            return False
        self._placed[job.resource, job.number] = booking.id
        self.book.others[job.resource] += 1
        return True

    def vacate(self, resource: str, number: int) -> None:
        """Take a job off the calendar: its nodes are free, or it has others."""
        placed = self._placed.pop((resource, number), None)
        if placed is not None:
            booking = self.book.calendars[resource].release(placed)
            self.book.others[resource] -= 1
            self.book.note_freed(((resource, booking.start, booking.end, booking.units),))

    def claims(self, resource: str, start: int = 0, end: int = TIME_S_MAX) -> list[Booking]:
        """Return everything on the calendar of `resource` in ``[start, end)`` that is not a job's."""
        own = {placed for (name, _), placed in self._placed.items() if name == resource}
        listed = self.book.calendars[resource].calendar.listing(start, end)
        return [each for each in listed if each.id not in own]

    def numbers(self, resource: str) -> Collection[int]:
        """Return the jobs that are booked on `resource`."""
        return [number for name, number in self._placed if name == resource]
