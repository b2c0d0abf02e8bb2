"""The site's calendar and store, as its queues use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kalends.batch.queue.effects import Occupied
from kalends.batch.service import Operation
from kalends.calendars import Booking
from kalends.core.errors import NotFound
from kalends.resource_servers.participation.job_bookings import RunningJob
from kalends.resource_servers.service import SiteEngine


class JobLedger:
    """One life of a site, seen by its queues."""

    def __init__(self, engine: SiteEngine) -> None:
        self._engine = engine

    def store_jobs(self, operations: Sequence[Operation], durable: Callable[[], None]) -> None:
        self._engine.persist(operations, durable)

    def job_runs(self, machine: str, job: Occupied, user: str) -> bool:
        running = RunningJob(machine, job.number, user, job.nodes, job.start_s, job.until_s)
        return self._engine.apply(lambda site, now: site.job_runs(running, now))

    def job_over(self, machine: str, number: int) -> None:
        self._engine.apply(lambda site, now: site.job_over(machine, number, now))

    def claims(self, machine: str) -> Iterable[Booking]:
        return self._engine.participant.jobs.claims(machine)

    def claims_within(self, machine: str, start: int, end: int) -> Iterable[Booking]:
        return self._engine.participant.jobs.claims(machine, start, end)

    def claim(self, machine: str, booking: int) -> Booking | None:
        calendar = self._engine.participant.book.calendars[machine].calendar
        try:
            return calendar.get(booking)
        except NotFound:
            return None
