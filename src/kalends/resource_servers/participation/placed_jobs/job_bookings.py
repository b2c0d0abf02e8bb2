"""Jobs that run on this site's machines, as bookings on their calendars.

There is one ledger: what a queue has given to a job, no broker is offered, and what brokers have claimed,
the queue leaves free. The queue's own journal is the truth about jobs; nothing of them is stored here, and
after a restart the queue says again what runs.

What is reserved and given back to the queue, because nobody has come for it, stays booked: brokers are not
offered it. Jobs stand on it: of them only what goes beyond it is booked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.calendars import Booking
from kalends.calendars.profiles import Step, combine, join, total
from kalends.core.errors import Conflict, NotFound
from kalends.core.limits import TIME_S_MAX
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.contention.planned_room import Plan


class RunningJob(NamedTuple):
    """A job that has `nodes` nodes of `resource`, from `start` until `end` at least; 0 once it is over."""

    resource: str
    number: int
    user: str
    nodes: int
    start: int
    end: int


class QueueMove(NamedTuple):
    """What a queue has changed on its machine `resource` in one step: None of what stays as it was."""

    resource: str
    jobs: tuple[RunningJob, ...] = ()
    planned: Plan | None = None
    """The machine's plan for jobs that no new claim may delay."""
    given_back: Collection[int] | None = None
    """Bookings where jobs may stand, as long as they are there: nobody has come for them."""


@dataclass(eq=False)
class JobBookings:
    """The bookings of jobs; the only writer of them."""

    book: ClaimTable
    new_id: Callable[[], int]
    kept: KeptRoom
    _jobs: dict[tuple[str, int], RunningJob] = field(default_factory=dict)
    _placed: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    _inside: dict[tuple[str, int], list[Step]] = field(default_factory=dict)
    """What of each job stands on what was given back."""
    _given_back: dict[str, dict[int, Step]] = field(default_factory=dict)

    def take(self, moved: QueueMove, now_s: int) -> list[int]:
        """Book what the queue has changed; return the jobs that have nodes without room for them."""
        if moved.given_back is not None:
            self.give_back(moved.resource, moved.given_back, now_s)
        return [job.number for job in moved.jobs if not self.occupy(job, now_s)]

    def occupy(self, job: RunningJob, now_s: int) -> bool:
        """Book the nodes of a job instead of its earlier ones; return False if there is no room.

        A job beyond its time may stand where somebody has reserved: then nothing of it is booked, for
        the reservation is what was promised. Where only its past has no room, it is booked from now on.
        """
        self.vacate(job.resource, job.number)
        if not job.nodes:
            return True
        self._jobs[job.resource, job.number] = job
        return self._book(job, job.start) or (job.start < now_s and self._book(job, now_s))

    def vacate(self, resource: str, number: int) -> None:
        """Take a job off the calendar: its nodes are free, or it has others."""
        self._jobs.pop((resource, number), None)
        self._inside.pop((resource, number), None)
        for placed in self._placed.pop((resource, number), ()):
            booking = self._release(resource, placed)
            self.book.note_freed(((resource, booking.start, booking.end, booking.units),))

    def give_back(self, resource: str, bookings: Collection[int], now_s: int) -> None:
        """Let jobs stand where these bookings are, too, as long as they are there."""
        known = self._given_back.setdefault(resource, {})
        for each in bookings:
            found = self._on_calendar(resource, each)
            if found is not None:
                known[each] = (found.start, found.end, found.units)
        self._book_anew(resource, now_s)

    def stand_alone(self, now_s: int) -> None:
        """Book for themselves the jobs that stood on what is not on the calendar any more."""
        for resource, known in list(self._given_back.items()):
            there = {
                each: step
                for each, step in known.items()
                if self._on_calendar(resource, each) is not None
            }
            if len(there) == len(known):
                continue
            if there:
                self._given_back[resource] = there
            else:
                del self._given_back[resource]
            self._book_anew(resource, now_s)

    def claims(self, resource: str, start: int = 0, end: int = TIME_S_MAX) -> list[Booking]:
        """Return everything on the calendar of `resource` in ``[start, end)`` that is somebody's claim.

        That is neither a job's, nor what a batch system has for others.
        """
        none = self.kept.bookings(resource)
        for (name, _), placed in self._placed.items():
            if name == resource:
                none.update(placed)
        listed = self.book.calendars[resource].calendar.listing(start, end)
        return [each for each in listed if each.id not in none]

    def _book_anew(self, resource: str, now_s: int) -> None:
        for job in [each for each in self._jobs.values() if each.resource == resource]:
            self.occupy(job, now_s)

    def _book(self, job: RunningJob, start: int) -> bool:
        """Book a job from `start` on, all of it or nothing."""
        calendar = self.book.calendars[job.resource]
        end = calendar.grain.ceil(max(job.end, start + 1))
        inside = self._inside_of(job, start, end)
        placed: list[int] = []
        for begin, finish, covered in join(inside):
            if covered == job.nodes:
                continue
            booking = Booking(
                id=self.new_id(),
                start=begin,
                end=finish,
                units=job.nodes - covered,
                state="locked",
                holder=job.user,
                reservation=f"job {job.number}",
            )
            try:
                calendar.book(booking)
            except Conflict:
                for each in placed:
                    self._release(job.resource, each)
                return False
            self.book.others[job.resource] += 1
            placed.append(booking.id)
        self._placed[job.resource, job.number] = placed
        self._inside[job.resource, job.number] = inside
        return True

    def _inside_of(self, job: RunningJob, start: int, end: int) -> list[Step]:
        """Return how many nodes of a job stand on what was given back, and is not taken by others there."""
        back = self._given_back.get(job.resource, {}).values()
        taken = [
            step for (name, _), steps in self._inside.items() if name == job.resource for step in steps
        ] if back else []  # fmt: skip
        return list(
            combine(
                total(back, start, end),
                total(taken, start, end),
                lambda units, others: min(max(units - others, 0), job.nodes),
            )
        )

    def _on_calendar(self, resource: str, booking: int) -> Booking | None:
        try:
            return self.book.calendars[resource].calendar.get(booking)
        except NotFound:
            return None

    def _release(self, resource: str, booking: int) -> Booking:
        self.book.others[resource] -= 1
        return self.book.calendars[resource].release(booking)
