"""Parts of jobs in step at a site: submitted when their slots are locked, and reported when they fail or end.

The stake of a request says what is to run in its slots (`Stake.jobs`) until that is a job of the queue; both
are stored in one order, so a part is submitted once, whenever the site is killed. From then on the job is one
in a reservation as any other: it is withdrawn, or ended, when that is cancelled. A part that has ended well
is reported once its user has no other job in its slot: what is left of that may be given back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from kalends.batch.journal.contract import JobHistory, JobOver
from kalends.batch.queue.facts import JobEnding, NodeClaim
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.submission import check_request
from kalends.batch.service import QueueService
from kalends.batch.views import over_of
from kalends.core.errors import KalendsError, Refusal, RefusalCode, Unavailable
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.principals import Principal
from kalends.core.steps import check_part, is_key_of_part, key_of_part, part_in
from kalends.resource_servers.jobs.place_desk import refusal_of
from kalends.resource_servers.jobs.reading_again import read_again
from kalends.resource_servers.jobs.step_gate import request_of
from kalends.resource_servers.participation.claims.occupancy import Placed
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.part_reports import PartReports
from kalends.resource_servers.participation.sockets import no_jobs_on
from kalends.resource_servers.service import SiteEngine

LOST: Final = "has failed"


class StepDesk:
    """Brings the slots of jobs in step and the jobs of queues together; for one life of a site.

    `check_part` raises `KalendsError` for a job that cannot run on its machine, whatever the queue says.
    """

    def __init__(
        self,
        engine: SiteEngine,
        reports: PartReports,
        service: QueueService,
        check_part: Callable[[Principal, JobRequest], None],
        history: JobHistory,
    ) -> None:
        self._engine, self._reports = engine, reports
        self._service = service
        self._check_part = check_part
        self._history = history
        self._loop = asyncio.get_running_loop()
        self._look_ups: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Submit what an earlier life did not, and say again what became of the rest."""
        for name in self._service.queues:
            for claim in [*self._service.claims(name).values()]:
                self._follow(name, claim)

    def close(self) -> None:
        """End this life: no look-up goes on."""
        for task in self._look_ups:
            task.cancel()

    def why_not(self, principal: Principal, part: JobRequest) -> Refusal | None:
        """Return why a queue would not take a part, whose slot is about to be promised."""
        queue = self._service.queues.get(part.machine)
        if queue is None:
            return no_jobs_on(part.machine)
        try:
            check_part(part)
            check_request(queue.flow, principal, part)
            self._check_part(principal, part)
        except KalendsError as error:
            return refusal_of(part.machine, error)
        taken = queue.flow.room.width(part)
        if taken == part.nodes:
            return None
        detail = f"a partition of {part.nodes} nodes takes {taken} nodes there: ask for that number"
        return Refusal(where=part.machine, code=RefusalCode.NO_PLACE, detail=detail)

    def moved(self, placed: Iterable[Placed]) -> None:
        """These bookings of machines have come, or gone, or were locked."""
        for machine, booking in placed:
            claim = self._service.claims(machine).get(booking)
            if claim is not None:
                self._follow(machine, claim)

    def _follow(self, machine: str, claim: NodeClaim, past: JobOver | None = None) -> None:
        """Do what is to be done about a claim; `past` is its part, if that is over and was looked up."""
        rid = claim.request or claim.reservation
        stake = self._engine.participant.book.stakes.peek(rid) if rid else None
        if stake is None or not stake.has("locked"):
            return
        if (job := stake.jobs.get(machine)) is not None:
            self._submit(machine, claim, stake.principal, job)
            return
        table = self._service.queues[machine].flow.table
        known = table.submissions.get((claim.user, key_of_part(claim.reservation)))
        if known is None:
            return
        part = table.jobs.get(known.first)
        if part is not None:
            self._tell(lambda site, now: self._reports.submitted(rid, machine, known.first))
            self._began(machine, rid, part)
        elif past is None or past.number != known.first:
            self._look_up(machine, known.first, partial(self._follow_again, machine, claim.booking))
        elif _had_its_time(past.ending):
            self._tell(lambda site, now: self._reports.submitted(rid, machine, known.first))
            self._ended(rid, past, past.over)
        else:
            self._fail(rid, machine, known.first, LOST)

    def _follow_again(self, machine: str, booking: int, past: JobOver) -> None:
        claim = self._service.claims(machine).get(booking)
        if claim is not None:
            self._follow(machine, claim, past)

    def _submit(
        self, machine: str, claim: NodeClaim, principal: Principal, job: JobRequest
    ) -> None:
        rid = claim.reservation
        part = part_in(job, machine, claim.nodes, rid)
        try:
            number, _ = self._service.step(
                machine, lambda queue, now: queue.submit(principal, part, key_of_part(rid), now)
            )
        except Unavailable:
            return  # This life is over: the next one submits it.
        except KalendsError as error:
            self._fail(rid, machine, 0, error.detail)
        else:
            self._tell(lambda site, now: self._reports.submitted(rid, machine, number))

    def over(self, machine: str, job: BatchJob) -> None:
        """Report a part that has not ended well; and one that has, after the last job in its slot."""
        if not job.request.reservation:
            return
        ending, rid = job.ending, request_of(self._service.queues[machine], job)
        if not rid:
            return
        if not is_key_of_part(job.key):
            self._loop.call_soon(self._other_over, machine, rid, over_of(machine, job))
            return
        self._loop.call_soon(self._began, machine, rid, job)
        if _had_its_time(ending):
            part = over_of(machine, job)
            self._loop.call_soon(self._ended, rid, part, part.over)
        else:
            why = job.kill_detail
            if ending is not None:
                why = ending.detail or f"{ending.kind} {ending.status}".strip()
            self._loop.call_soon(self._fail, rid, machine, job.number, why or LOST)

    def moved_jobs(self, machine: str, numbers: Iterable[int]) -> None:
        """Report parts that have begun; and that a slot is used again, if its user has another job in it."""
        queue = self._service.queues[machine]
        for number in numbers:
            job = queue.flow.table.jobs.get(number)
            if job is None or not job.request.reservation:
                continue
            if not (rid := request_of(queue, job)):
                continue
            if is_key_of_part(job.key):
                self._loop.call_soon(self._began, machine, rid, job)
            else:
                self._loop.call_soon(self._used_again, rid, machine)

    def _began(self, machine: str, rid: str, job: BatchJob) -> None:
        if job.begun_attempt:
            number, at = job.number, job.begun_s
            self._tell(lambda site, now: self._reports.began(rid, machine, number, at))

    def _used_again(self, rid: str, machine: str) -> None:
        self._tell(lambda site, now: self._reports.used_again(rid, machine))

    def _other_over(self, machine: str, rid: str, job: JobOver) -> None:
        """Another job in the slot of a part is over, which may have ended before."""
        table = self._service.queues[machine].flow.table
        known = table.submissions.get((job.user, key_of_part(job.request.reservation)))
        if known is not None and known.first not in table.jobs:
            self._look_up(machine, known.first, partial(self._ended_with, rid, job.over))

    def _ended_with(self, rid: str, at: int, part: JobOver) -> None:
        if _had_its_time(part.ending):
            self._ended(rid, part, at)

    def _ended(self, rid: str, part: JobOver, at: int) -> None:
        """Report that the slot of a part is of no more use since `at`, unless something says otherwise."""
        slot = (part.user, part.request.reservation)
        jobs = self._service.queues[part.machine].flow.table
        if part.request.keep_slot or any(
            (each.principal.user, each.request.reservation) == slot for each in jobs
        ):
            return
        machine, number = part.machine, part.number
        self._tell(lambda site, now: self._reports.ended(rid, machine, number, at, now))

    def _look_up(self, machine: str, number: int, then: Callable[[JobOver], None]) -> None:
        """Go on with a job that is over, once that is stored: the queue does not know it any more."""

        async def look_up() -> None:
            past = await read_again(partial(self._history.job, machine, number))
            if past is not None:
                then(past)

        task = asyncio.create_task(look_up())
        self._look_ups.add(task)
        task.add_done_callback(self._look_ups.discard)

    def _fail(self, rid: str, machine: str, job: int, why: str) -> None:
        self._tell(lambda site, now: self._reports.failed(rid, machine, job, why, now))

    def _tell(self, say: Callable[[Participant, Moment], None]) -> None:
        with contextlib.suppress(Unavailable):  # The next life begins with all that stands.
            self._engine.apply(say)


def _had_its_time(ending: JobEnding | None) -> bool:
    """Return whether a part has ended well; one that had all of its time has."""
    return ending is not None and (ending.succeeded or ending.kind == "limit")
