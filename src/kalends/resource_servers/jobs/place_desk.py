"""Places in the queues of a site: given to jobs that brokers bid for, and what becomes of them.

The claim on a place is the truth (`placed_jobs/places`), and the queue follows it: an offered job whose
claim is gone is withdrawn, one whose claim is locked may run, and one whose reservation is cancelled ends.
What follows from a claim can be done twice, so after a restart it is done again for every job.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Final, Literal, Protocol

from msgspec import structs

from kalends.agents.runs import RunOutcome
from kalends.backends.adapter import SystemRefused, SystemSilent
from kalends.batch.follower import Foreseen, Question
from kalends.batch.place_keys import (
    GONE,
    Place,
    claim_of_job,
    key_of_place,
    place_of_job,
    request_of_key,
)
from kalends.batch.queue.facts import JobPays
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.offers import PlaceOffers
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.service import QueueService
from kalends.contract import messages as m
from kalends.core.errors import (
    Conflict,
    KalendsError,
    LimitExceeded,
    NotAllowed,
    NotFound,
    Refusal,
    RefusalCode,
    Unavailable,
)
from kalends.core.identifiers import machine_of, queue_of
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.limits import JOBS_MAX, TEXT_MAX
from kalends.core.principals import Principal
from kalends.resource_servers.jobs.bid_terms import with_terms
from kalends.resource_servers.jobs.start_trust import StartTrust
from kalends.resource_servers.jobs.starts_elsewhere import DecidingSystems, StartsElsewhere
from kalends.resource_servers.jobs.way_choice import (
    FIRST,
    Chosen,
    backlog_end_s,
    chosen_way,
    schedules_of,
    trials_of,
    withdraw,
)
from kalends.resource_servers.participation.claims.occupancy import Placed
from kalends.resource_servers.participation.effects import PlaceAsk, RunTask
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.participation.placed_jobs.places import locked_places
from kalends.resource_servers.service import SiteEngine
from kalends.serving.configuration import MachineConfiguration

FORESEEN_S: Final = 0.4
"""So long it is waited for the start that is foreseen for a job, where the policy promises none."""

PLACES_MAX: Final = 2 * JOBS_MAX
"""Places that are remembered, before it is looked which of their jobs are over."""

FOLLOWED_MAX: Final = 10
"""Claims that the queues follow in one turn of the loop: each may make a plan anew."""

SHOWN_S: Final = 5.0
"""A program that still runs after this has been started."""

NOT_TAKEN: Final = "the place was not taken"

ClaimOf = Literal["none", "held", "locked", "cancelled"]


class MachinesOfSite(Protocol):
    """Interface of the site for a desk."""

    def check_place(self, principal: Principal, job: JobRequest) -> None:
        """Raise `KalendsError` where `job` may not be on its machine, whatever the queue says."""

    def reserve(self, principal: Principal, queue: BatchQueue, job: JobRequest) -> JobPays | None:
        """See `batch.machine_host.Machines.reserve`."""

    def rules_of(self, machine: str) -> MachineConfiguration:
        """Return what the owner has configured for a machine."""

    async def run_script(self, task: RunTask) -> RunOutcome:
        """Run a script of a job in the site's sandbox."""

    async def foreseen(self, question: Question, machine: str, wait_s: float) -> Foreseen:
        """Return when the jobs that wait are expected to start; what is known after `wait_s`."""


class PlaceDesk:
    """Has queues give places, and follow the claims on them; for one life of a site."""

    def __init__(
        self,
        engine: SiteEngine,
        jobs: PlacedJobs,
        service: QueueService,
        machines: MachinesOfSite,
        alarmed: Callable[[str], None],
        systems: DecidingSystems,
    ) -> None:
        self._engine, self._jobs = engine, jobs
        self._elsewhere = StartsElsewhere(systems)
        self._service = service
        self._machines = machines
        self._alarmed = alarmed
        self._places: dict[int, Place] = {}
        self._moved: dict[int, None] = {}
        """Claims that have come or gone, and are still to be followed: the last of them first."""
        self._loop = asyncio.get_running_loop()
        self._following = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._trust = {name: StartTrust() for name in service.queues}
        self._waiting_again: dict[tuple[str, int], str] = {}
        """By machine and number: the requests of jobs that have lost their nodes, and wait for others."""

    def begin(self) -> None:
        """Bring the jobs of earlier lives and their claims together."""
        for name, queue in self._service.queues.items():
            for number in trials_of(queue):
                self._service.step(name, partial(withdraw, number))
        for queue in self._service.queues.values():
            for job in queue.flow.table:
                if (hold_id := claim_of_job(job)) is not None:
                    self._places[hold_id] = place_of_job(queue.name, job)
        self.moved((queue_of(place.machine), hold_id) for hold_id, place in [*self._places.items()])
        for name, queue in self._service.queues.items():
            self.moved_jobs(name, queue.flow.table.jobs)
        self._use_up_starts()

    def has_job(self, rid: str) -> bool:
        """Whether a job of the request waits or runs here."""
        return any(place.rid == rid and self._waits(place) for place in self._places.values())

    def _use_up_starts(self) -> None:
        """Ask for the only start of each job that is over: it may have been killed, and nobody asked in time.

        Where it has started, that changes nothing.
        """
        for stake, claim in list(locked_places(self._engine.participant.book)):
            known = machine_of(claim.resource) in self._service.queues
            if stake.once and known and not self.has_job(stake.rid):
                self._engine.apply(partial(self._ask_to_start, stake.rid))

    def _ask_to_start(self, rid: str, site: Participant, now: Moment) -> None:
        self._jobs.starts.ask(rid, now)

    def close(self) -> None:
        self._moved.clear()
        for task in self._tasks:
            task.cancel()

    # What brokers ask for

    def ask(self, asks: Iterable[PlaceAsk]) -> None:
        """Have the queues give places, and offer them to the site."""
        if len(self._places) > PLACES_MAX:
            self._places = {id_: place for id_, place in self._places.items() if self._waits(place)}
        for each in asks:
            task = asyncio.create_task(self._answer(each))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, ask: PlaceAsk) -> None:
        """Give places, and say when they are expected to come up; a fault in it ends this bid alone."""
        given: dict[int, Place] = {}
        offers: list[m.PlaceOffer] = []
        refusals: list[Refusal] = []
        try:
            ask, chosen = await self._in_chosen_ways(ask)
            decided_s = self._service.now_s() + ask.counted_s
            self._give_places(ask, given, refusals)
            told = await asyncio.gather(
                *(self._offer_or_not(hold_id, each, decided_s) for hold_id, each in given.items())
            )
            offers = [
                structs.replace(each, way=how.way, chosen_by=how.by, rank_fault=how.fault)
                for each in told
                if isinstance(each, m.PlaceOffer)
                for how in [chosen.get(each.machine, FIRST)]
            ]
            refusals += [each for each in told if isinstance(each, Refusal)]
        except Unavailable:
            return  # This life is over: the next one withdraws all.
        except Exception as error:
            self._alarmed(f"{ask.rid}: no bid could be made: {error!r}")
            offers = []
            refusals = [
                refusal_of(machine, NotFound("no bid can be made")) for machine, _ in ask.places
            ]
        with contextlib.suppress(Unavailable):
            if not self._engine.apply(
                lambda site, now: self._jobs.offered(ask.number, ask.rid, offers, refusals, now)
            ):
                self.moved((queue_of(place.machine), hold_id) for hold_id, place in given.items())

    async def _in_chosen_ways(self, ask: PlaceAsk) -> tuple[PlaceAsk, dict[str, Chosen]]:
        """Return the question with one job for each machine, and how it was chosen if there were several."""
        chosen: dict[str, Chosen] = {}
        for machine, hold_id in ask.places:
            ways, queue = ask.ways.get(machine, ()), self._service.queues.get(machine)
            if queue is None or not ways:
                continue
            chosen[machine] = self._way_before(queue, hold_id, ways) or await self._way(
                ask, queue, hold_id, ways
            )
        jobs = {machine: ask.ways[machine][how.way] for machine, how in chosen.items()}
        return ask._replace(jobs={**ask.jobs, **jobs}), chosen

    def _way_before(
        self, queue: BatchQueue, hold_id: int, ways: Sequence[JobRequest]
    ) -> Chosen | None:
        """Return the way that was chosen in an earlier attempt, whose place is still held."""
        place = self._places.get(hold_id)
        job = queue.flow.table.jobs.get(place.number) if place is not None else None
        found = [structs.replace(each, machine=queue.name) for each in ways]
        return Chosen(found.index(job.request)) if job and job.request in found else None

    async def _way(
        self, ask: PlaceAsk, queue: BatchQueue, hold_id: int, ways: Sequence[JobRequest]
    ) -> Chosen:
        rules, machine = self._machines.rules_of(queue.name), queue.name
        if not (ask.rank or rules.aim):
            return FIRST
        if system := queue.flow.terms.handed_to:
            return Chosen(fault=f"{system} decides alone" if ask.rank else "")
        allowed = [structs.replace(each, machine=machine) for each in ways]
        schedules = schedules_of(
            partial(self._service.step, machine), ask, hold_id, allowed, self._machines.reserve
        )
        if not schedules:
            return FIRST
        return await chosen_way(
            queue, ask, hold_id, schedules, rules.aim, self._machines.run_script,
            self._service.now_s(), shared=rules.shared,
        )  # fmt: skip

    def _give_places(self, ask: PlaceAsk, given: dict[int, Place], refusals: list[Refusal]) -> None:
        for machine, hold_id in ask.places:
            try:
                number = self._give(ask, machine, hold_id)
            except Unavailable:
                raise
            except KalendsError as error:
                refusals.append(refusal_of(machine, error))
            else:
                given[hold_id] = self._places[hold_id] = Place(machine, number, ask.rid)

    def _give(self, ask: PlaceAsk, machine: str, hold_id: int) -> int:
        job = structs.replace(ask.jobs.get(machine, ask.job), machine=machine)
        if machine not in self._service.queues:
            raise NotFound(f"{machine} takes no jobs at present")
        if why := self._trust[machine].why_not(ask.principal.user, self._now_ms()):
            raise Conflict(f"the last jobs could not be started there: {why}"[:TEXT_MAX])
        self._machines.check_place(ask.principal, job)
        key = key_of_place(hold_id, ask.rid)
        return self._service.step(
            machine,
            lambda queue, now: PlaceOffers(queue).offer(
                ask.principal,
                job,
                key,
                ask.counted_s,
                now,
                self._machines.reserve(ask.principal, queue, job),
            ),
        )

    async def _offer_or_not(
        self, hold_id: int, place: Place, decided_s: int
    ) -> m.PlaceOffer | Refusal:
        """Return an offer of a place that may be taken at `decided_s`, or why there is none.

        Raises `Unavailable`.
        """
        system = self._service.queues[place.machine].flow.terms.handed_to
        try:
            offer = self._offer_there if system else self._offer
            told = await offer(hold_id, place, decided_s)
            queue = self._service.queues[place.machine]
            return with_terms(told, self._machines.rules_of(place.machine), queue)
        except NotFound as error:  # It has been ended meanwhile.
            return refusal_of(place.machine, error)
        except (SystemRefused, SystemSilent) as error:
            self._places.pop(hold_id, None)
            with contextlib.suppress(NotFound):
                self._service.step(
                    place.machine, lambda queue, now: queue.cancel(place.number, NOT_TAKEN, now)
                )
            # A system that is only slow or away may take the job a moment later.
            silent = isinstance(error, SystemSilent)
            return Refusal(
                where=place.machine,
                code=RefusalCode.SITE_DOWN if silent else RefusalCode.NO_PLACE,
                detail=f"{system}: {error}"[:TEXT_MAX],
            )

    async def _offer_there(self, hold_id: int, place: Place, decided_s: int) -> m.PlaceOffer:
        """Return what a batch system foresees: the job goes there once its place here is taken."""
        queue = self._service.queues[place.machine]
        request = queue.job(place.number).request
        start = await self._elsewhere.start_of(queue, place.number, self._service.now_s())
        return m.PlaceOffer(
            machine=place.machine, hold_id=hold_id, job=place.number, nodes=request.nodes,
            start=start, end=start + request.limit_s, late_start=max(start, decided_s),
        )  # fmt: skip

    async def _offer(self, hold_id: int, place: Place, decided_s: int) -> m.PlaceOffer:
        """Return what is known of a place: a promised start, or else what is foreseen."""
        queue = self._service.queues[place.machine]
        job, now = queue.job(place.number), self._service.now_s()
        start_by = PlaceOffers(queue).start_by(place.number, decided_s)
        start = late_start = max(start_by, now)
        if not start_by and job.phase != "kept":
            foreseen = await self._machines.foreseen("starts", place.machine, FORESEEN_S)
            predicted = foreseen.starts.get(place.number)
            first = max(now, job.request.not_before)
            start = max(
                predicted.p50 if predicted else backlog_end_s(queue, job.number, first), first
            )
            late_start = max(predicted.p90 if predicted else start, start)
        nodes = queue.flow.room.width(job.request)
        return m.PlaceOffer(
            machine=place.machine, hold_id=hold_id, job=place.number, nodes=nodes, start=start,
            end=start + job.request.limit_on(job.request.nodes), start_by=start_by and start,
            late_start=max(late_start, decided_s),
        )  # fmt: skip

    def _waits(self, place: Place) -> bool:
        queue = self._service.queues.get(place.machine)
        return queue is not None and place.number in queue.flow.table.jobs

    # What becomes of the claims

    def moved(self, placed: Iterable[Placed]) -> None:
        """These claims on places have come or gone; whatever has become of them, the queues follow.

        Thousands may end in one moment. So the last is followed first, for when it is withdrawn there is
        nobody behind it to be planned anew; and after a few of them others have a turn.
        """
        hold_ids = [
            hold_id
            for queue, hold_id in placed
            if (place := self._places.get(hold_id)) and machine_of(queue) == place.machine
        ]
        for hold_id in sorted(hold_ids):
            self._moved.pop(hold_id, None)
            self._moved[hold_id] = None
        if not self._following:
            self._follow_some()

    def _follow_some(self) -> None:
        self._following = True
        try:
            for _ in range(min(FOLLOWED_MAX, len(self._moved))):
                hold_id, _ = self._moved.popitem()
                if (place := self._places.get(hold_id)) is not None:
                    self._follow(hold_id, place)
        except Unavailable:  # The next life compares all claims.
            self._moved.clear()
        self._following = bool(self._moved)
        if self._following:
            self._loop.call_soon(self._follow_some)

    def _follow(self, hold_id: int, place: Place) -> None:
        queue = self._service.queues.get(place.machine)
        job = queue.flow.table.jobs.get(place.number) if queue is not None else None
        claim = self._claim_of(hold_id, place)
        if job is None:
            del self._places[hold_id]
        elif claim == "locked":
            self._service.step(
                place.machine, lambda queue, now: PlaceOffers(queue).take(place.number, now)
            )
        elif claim == "cancelled" or (claim == "none" and job.offered):
            why = NOT_TAKEN if job.offered else GONE
            self._service.step(
                place.machine, lambda queue, now: queue.cancel(place.number, why, now)
            )

    def over(self, machine: str, job: BatchJob) -> None:
        """A job is over: one that this site could not start says something of the next."""
        ending, trust, user = job.ending, self._trust[machine], job.principal.user
        if ending is not None and ending.kind in ("exit", "limit"):
            trust.began(user)
        elif ending is not None and ending.of_site:
            trust.could_not_start(user, ending.detail, self._now_ms())

    def _still_runs(self, machine: str, number: int, attempt: int) -> None:
        job = self._service.queues[machine].flow.table.jobs.get(number)
        if job is not None and job.phase == "running" and job.attempt == attempt:
            self._trust[machine].began(job.principal.user)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)

    def moved_jobs(self, machine: str, numbers: Iterable[int]) -> None:
        """Report to brokers the jobs that lost their nodes, after they ran or before a decision."""
        jobs = self._service.queues[machine].flow.table.jobs
        for number in numbers:
            job = jobs.get(number)
            if job is not None and job.phase == "running" and self._trust[machine].doubted:
                # A shepherd begins before it knows whether the program can be started.
                self._loop.call_later(SHOWN_S, self._still_runs, machine, number, job.attempt)
            if job is not None and "undecided" in job.reasons:
                self._loop.call_soon(self._tell_fell_back, request_of_key(job.key))
            rid = request_of_key(job.key) if job is not None and job.waits_again else ""
            known = self._waiting_again.pop((machine, number), "")
            if rid:
                self._waiting_again[machine, number] = rid
            if rid != known:
                # It is heard in the middle of a step of its queue.
                self._loop.call_soon(self._tell_waits, known or rid, bool(rid))

    def _tell_fell_back(self, rid: str) -> None:
        with contextlib.suppress(Unavailable):  # The next life looks at all jobs.
            self._engine.apply(lambda site, now: self._jobs.places.fell_back(rid))

    def _tell_waits(self, rid: str, waits: bool) -> None:
        with contextlib.suppress(Unavailable):  # The next life looks at all jobs.
            self._engine.apply(lambda site, now: self._jobs.returns.note(rid, waits_again=waits))

    def _claim_of(self, hold_id: int, place: Place) -> ClaimOf:
        """Return how the claim stands; of one whose time is long over there may be nothing left."""
        stake = self._engine.participant.book.stakes.peek(place.rid)
        claims = stake.claims if stake is not None else ()
        for claim in claims:
            if claim.hold_id == hold_id:
                if claim.state == "locked":
                    return "locked"
                return "cancelled" if claim.state in ("cancelled", "replaced") else "held"
        return "none"


def refusal_of(machine: str, error: KalendsError) -> Refusal:
    """Return why a queue does not take a job, for its broker."""
    if error.refusals:
        return structs.replace(error.refusals[0], where=machine)
    code = RefusalCode.NO_PLACE
    if isinstance(error, NotAllowed):
        code = RefusalCode.NOT_ALLOWED
    elif isinstance(error, LimitExceeded):
        code = RefusalCode.LIMIT
    elif isinstance(error, NotFound):
        code = RefusalCode.UNKNOWN_RESOURCE
    return Refusal(where=machine, code=code, detail=error.detail)


def machines_and_queues(
    placed: Iterable[Placed], queues: Container[str]
) -> tuple[list[Placed], list[Placed]]:
    """Divide bookings into those of machines, and those of places in their queues; of `queues` that work."""
    both: tuple[list[Placed], list[Placed]] = ([], [])
    for each in placed:
        machine = machine_of(each[0])
        if (machine or each[0]) in queues:
            both[bool(machine)].append(each)
    return both
