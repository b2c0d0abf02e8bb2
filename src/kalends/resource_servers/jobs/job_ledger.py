"""The site's calendar and store, as its queues use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from msgspec.structs import astuple

from kalends.batch.queue.effects import Occupied
from kalends.batch.queue.facts import JobPays, JobShare, NodeClaim
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.priority_classes import charged_class
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import Operation
from kalends.calendars import Booking
from kalends.contract.job_calls import ReservedNodes
from kalends.core.errors import (
    InvalidInput,
    LimitExceeded,
    NotAllowed,
    NotFound,
    Refusal,
    RefusalCode,
)
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.money import COST_MAX, NO_CAP, PIECES_MAX, format_credits
from kalends.core.principals import Principal
from kalends.core.refusals import error_of
from kalends.resource_servers.participation.claims.bills import Share
from kalends.resource_servers.participation.claims.occupancy import Piece
from kalends.resource_servers.participation.credits.credits import Credits
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.job_bookings import QueueMove, RunningJob
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.service import SiteEngine

MOVES_MAX: Final = 100
"""A queue hears of every change when it is made: only what happened while it was away is looked up."""


STEPS_MAX: Final = 2 * PIECES_MAX
"""Prices of one attempt, one after the other; a job that runs longer costs nothing more."""

ASKED: Final = -(1 << 62)
"""Below the numbers of all bookings, and of jobs with fixed starts, which are negative there."""


def have_place(
    ledger: JobLedger,
    queue: BatchQueue,
    now_s: Callable[[], int],
    wanted: Sequence[Piece],
    gone: Collection[int],
) -> bool:
    """Return whether a machine with a topology has a place for claims, once the bookings `gone` are no more.

    What has moved in this step, the queue has not been told yet.
    """
    machine, known = queue.name, queue.flow.room.claims()
    there = {
        each.id
        for each in ledger.claims_within(
            machine, min(start for _, start, _, _ in wanted), max(end for _, _, end, _ in wanted)
        )
    }
    left = {number for number in known if ledger.claim(machine, number) is None}
    came = [
        each
        for number in there - known.keys() - set(gone)
        if (each := ledger.claim(machine, number))
    ]
    came += [
        NodeClaim(ASKED - number, start, end, units)
        for number, (_, start, end, units) in enumerate(wanted)
    ]
    return queue.flow.room.have_room(came, left.union(gone), max(now_s(), queue.last_s))


def reserved_nodes(
    ledger: JobLedger, queue: BatchQueue, seen_by: str, now_s: int
) -> list[ReservedNodes]:
    """Return which nodes are reserved and for whom, of the present and the future.

    `seen_by` sees no other users' names; "" sees all.
    """
    found = []
    for each in queue.flow.room.reservations():
        booking = int(each.name)
        if booking < 0:  # A job with a fixed start, which nobody else books.
            user: str | None = queue.flow.table.jobs[-booking].principal.user
        else:
            user = ledger.holder(queue.name, booking)
        if user is not None and each.end_s > now_s:
            holder = user if seen_by in ("", user) else ""
            found.append(
                ReservedNodes(nodes=each.nodes, start=each.start_s, end=each.end_s, holder=holder)
            )
    return found


class JobLedger:
    """One life of a site, seen by its queues."""

    def __init__(self, engine: SiteEngine, jobs: PlacedJobs) -> None:
        self._engine, self._jobs = engine, jobs

    def store_jobs(
        self,
        operations: Sequence[Operation],
        durable: Callable[[], None],
        charged: Sequence[tuple[str, BatchJob]] = (),
    ) -> None:
        if charged:
            self._engine.persist_with(partial(_charge, charged), operations, durable)
        else:
            self._engine.persist(operations, durable)

    def store_later(self, operations: Sequence[Operation]) -> None:
        self._engine.persist_later(operations)

    def moved(
        self,
        machine: str,
        jobs: Sequence[tuple[Occupied, str]],
        planned: Callable[[], Sequence[tuple[int, int, int]]],
        given_back: Collection[int] | None,
    ) -> list[int]:
        running = tuple(
            RunningJob(machine, each.number, user, each.nodes, each.start_s, each.until_s)
            for each, user in jobs
        )

        def plan() -> tuple[Piece, ...]:
            return tuple((machine, start, end, nodes) for start, end, nodes in planned())

        site = self._engine.participant
        if not (running or given_back is not None or site.anybody_waits):
            site.room.planned.changed(machine, plan)
            return []  # Nobody hears of it before they ask.
        change = QueueMove(machine, running, plan, given_back)
        return self._engine.apply(lambda site, now: self._jobs.queue_moved(change, now))

    def bookings(self, machine: str) -> Iterable[int]:
        return [each.id for each in self._jobs.bookings.claims(machine)]

    def claims_within(self, machine: str, start: int, end: int) -> Iterable[Booking]:
        return self._jobs.bookings.claims(machine, start, end)

    def claim(self, machine: str, booking: int) -> NodeClaim | None:
        calendar = self._engine.participant.book.calendars[machine].calendar
        try:
            found = calendar.get(booking)
        except NotFound:
            return None
        if found.state != "locked" or not found.holder:  # The owner's own is for nobody's jobs.
            return NodeClaim(booking, found.start, found.end, found.units)
        return NodeClaim(
            booking, found.start, found.end, found.units, found.reservation, found.holder
        )

    def reserve(self, principal: Principal, queue: BatchQueue, job: JobRequest) -> JobPays | None:
        """See `Machines.reserve`."""
        prices = self._engine.participant.book.calendars[queue.name].rules.prices
        terms = queue.flow.terms
        rate = prices.dearest(principal, charged_class(terms, job.priority, queue.flow.policy))
        if not rate or job.reservation:
            return None
        most = queue.flow.accounts.most_of(job)[1] * rate
        at = max(queue.last_s, job.at, job.not_before)
        amount = most * max(len(job.indices), 1)
        if amount > COST_MAX:
            raise InvalidInput(
                f"the job may cost {format_credits(amount)} credits, more than can be charged at once",
                where="job",
                remedy="ask for fewer nodes, a shorter limit or fewer jobs",
            )
        if NO_CAP < job.at_most < amount:
            budget = f"it may cost {format_credits(amount)} credits, of at most {format_credits(job.at_most)}"
            raise error_of([Refusal(where=queue.name, code=RefusalCode.PRICE, detail=budget)])
        found = self._engine.participant.wing(Credits).shares_of_jobs(
            principal, job.project, amount, at
        )
        if isinstance(found, Refusal):
            if found.code == RefusalCode.PAYER:
                raise NotAllowed(
                    "an owner does not let you charge this project",
                    where="project",
                    remedy="leave the project out, or ask the owner who may charge it",
                    refusals=(found,),
                )
            raise LimitExceeded(
                "your account cannot pay for the job up to its limit",
                where="job",
                remedy="ask for fewer nodes or a shorter limit; the owner grants credit",
                refusals=(found,),
            )
        account, shares = found
        return JobPays(account, most, tuple(JobShare(*astuple(each)) for each in shares))

    def steps(self, queue: BatchQueue, job: BatchJob) -> Sequence[tuple[int, int, int]]:
        prices = self._engine.participant.book.calendars[queue.name].rules.prices
        request, start = job.request, job.since_s
        longest_s = max(request.limit_on(each) for each in request.sizes or (request.nodes,))
        priority = charged_class(queue.flow.terms, request.priority, queue.flow.policy)
        return [*islice(prices.steps(job.principal, start, start + longest_s, priority), STEPS_MAX)]

    def holder(self, machine: str, booking: int) -> str | None:
        """Return who holds or has locked what is booked, or None if it is no more."""
        try:
            return self._engine.participant.book.calendars[machine].calendar.get(booking).holder
        except NotFound:
            return None

    def changed(self, request: str) -> Sequence[str]:
        stakes = self._engine.participant.book.stakes
        found: list[str] = []
        stake = stakes.peek(request)
        while stake is not None and stake.replaces and len(found) < MOVES_MAX:
            found.append(stake.replaces)
            stake = stakes.peek(stake.replaces)
        return found


def _charge(charged: Sequence[tuple[str, BatchJob]], site: Participant, now: Moment) -> None:
    for machine, job in charged:
        assert job.pays is not None
        shares = [Share(*astuple(each)) for each in job.shares]
        user, account = job.principal.user, job.pays.account
        credits = site.wing(Credits)
        credits.job_over(machine, job.number, user, account, job.charge, shares, now.wall_s)
