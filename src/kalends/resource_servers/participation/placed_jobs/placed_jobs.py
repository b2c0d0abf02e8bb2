"""The wing of jobs that brokers place here: its parts, what the machine calls of them, and its own steps."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.kernel import Kernel
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.placed_jobs.end_reports import EndReports
from kalends.resource_servers.participation.placed_jobs.job_bookings import JobBookings, QueueMove
from kalends.resource_servers.participation.placed_jobs.part_reports import PartReports
from kalends.resource_servers.participation.placed_jobs.place_returns import PlaceReturns
from kalends.resource_servers.participation.placed_jobs.places import Places
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions


class PlacedJobs:
    """The further parts of a site with machines; see each."""

    def __init__(self, kernel: Kernel) -> None:
        ground, base = kernel.ground, kernel.ground.base
        here, book, outbox, jitter = base.here, base.book, base.outbox, base.jitter
        stakes, claims = book.stakes, ground.claims
        self._book, self._settle, self._planned = book, base.settle, ground.room.planned
        self.places = Places(
            here, book, claims, kernel.then, kernel.attempts, kernel.admission, kernel.registers,
            outbox, base.numbers,
        )  # fmt: skip
        self.returns = PlaceReturns(book, kernel.admission, outbox, jitter)
        self.starts = StartQuestions(here, stakes, outbox, jitter)
        self.ends = EndReports(stakes, outbox, jitter)
        self.part_reports = PartReports(stakes, claims, outbox, jitter)
        self.bookings = JobBookings(book, base.numbers.new, base.kept)

    @property
    def plugs(self) -> tuple[Plug, ...]:
        places, starts, ends, reports = self.places, self.starts, self.ends, self.part_reports
        return (
            Plug(
                Tier.WAITS,
                handles=[on(m.Solicit, places.solicit, refuse=places.turn_down)],
                timed=places,
                listen=self._listen,
                broker_came=lambda now: places.met(),
                att_of=places.att_of,
                secret_of=places.secret_of,
            ),
            Plug(Tier.WAITS, timed=self.returns),
            Plug(
                Tier.ASKS,
                handles=[
                    on(m.StartSays, lambda source, says, now: starts.said(says)),
                    on(m.ReadyAsk, lambda source, ready, now: starts.ready(ready, now)),
                ],
                timed=starts,
            ),
            Plug(
                Tier.ASKS,
                handles=[on(m.EndNoted, lambda source, noted, now: ends.noted(noted))],
                timed=ends,
                met=ends.met,
            ),
            Plug(Tier.ASKS, timed=reports, broker_came=lambda now: reports.tell_all()),
            # Last: a broker that is asked to start parts knows then which jobs they are.
            Plug(Tier.RECORDS, broker_came=starts.met),
            Plug(Tier.CARRIES, settle=lambda now: self.bookings.stand_alone(now.wall_s)),
        )

    def _listen(self, then: Consequences) -> None:
        forget = self.places.forget
        then.cleared.add(forget)
        then.released.add(self.places.not_chosen)
        then.promised.add(self.places.chosen)
        then.attempt_over.add(self.places.end)

    # Steps of the queues

    def offered(
        self, number: int, rid: str, offers: Sequence[m.PlaceOffer], refusals: Sequence[Refusal],
        now: Moment,
    ) -> bool:  # fmt: skip
        """Take the places that queues give to a job; return False if no visit waits for them."""
        taken = self.places.offered(number, rid, offers, refusals, now)
        self._settle(now)
        return taken

    def queue_moved(self, moved: QueueMove, now: Moment) -> list[int]:
        """Take all that a step of a queue has changed; only then what it has given back finds takers.

        Returns the jobs that have nodes without room for them on the calendar.
        """
        without_room = self.bookings.take(moved, now.wall_s)
        if moved.planned is not None:
            self._book.note_freed(self._planned.changed(moved.resource, moved.planned))
        self._settle(now)
        return without_room
