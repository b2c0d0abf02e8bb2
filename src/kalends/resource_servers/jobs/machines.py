"""The machines of a site: their queues, the processes that run their jobs, and who may do what with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from kalends.batch.follower import Foreseen, Question, Span
from kalends.batch.forecast import Forecaster
from kalends.batch.forgotten import Forgotten
from kalends.batch.job_notices import JobNotices
from kalends.batch.job_watch import JobWatch
from kalends.batch.journal.job_history import StoreReader
from kalends.batch.journal.job_journal import ReservedTime, reserved_after
from kalends.batch.kept_state import KeptStates
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue_breaks import QueueBreaks, disabled_words
from kalends.batch.service import QueueService
from kalends.batch.shepherds.shepherd_line import Attachment
from kalends.batch.terms import terms_of_all
from kalends.contract import job_calls
from kalends.core.durations import format_duration
from kalends.core.errors import Conflict, NotAllowed, Unavailable
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.limits import TIME_S_MAX
from kalends.core.principals import Principal
from kalends.core.refusals import error_of
from kalends.resource_servers.jobs.job_ledger import JobLedger, have_place, reserved_nodes
from kalends.resource_servers.jobs.machine_runners import MachineRunners
from kalends.resource_servers.jobs.nodes_out import NodesOutWatch
from kalends.resource_servers.jobs.place_desk import PlaceDesk
from kalends.resource_servers.jobs.placed_ends import PlacedEnds
from kalends.resource_servers.jobs.queue_hooks import QueueHooks
from kalends.resource_servers.jobs.start_gates import StartGates
from kalends.resource_servers.jobs.step_desk import StepDesk
from kalends.resource_servers.journal.site_store import SiteStore
from kalends.resource_servers.participation.claims.earmarks import LAST
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.service import SiteEngine, unavailable
from kalends.serving.auth.callers import Caller
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.logs import Logger

T = TypeVar("T")

FORESEE_EVERY_S: Final = 1.0
FORESEE_S_MAX: Final = 600.0
"""Where no job may be delayed, starts are foreseen anew so soon after each change of the queue."""


class SiteMachines:
    """All machines of a site. The processes live on through the lives of the site, and through its end."""

    def __init__(
        self,
        configuration: SiteConfiguration,
        engine: Callable[[], SiteEngine],
        moment: Callable[[], Moment],
        logger: Logger,
        alarmed: Callable[[str], None],
        reported: Callable[[str, str], None],
        notices: JobNotices,
    ) -> None:
        """Raises `InvalidInput` for a machine that cannot be."""
        self.terms = terms_of_all(configuration)
        self.history = StoreReader(configuration.store, self.settled)
        self._engine, self._moment = engine, moment
        self._alarmed, self._reported = alarmed, reported
        self._notices, self._logger = notices, logger
        self.watch = JobWatch()
        self.hooks = QueueHooks()
        self._repeated: list[asyncio.Task[None]] = []
        """What is looked at again and again in this life."""
        self._reserved: dict[str, list[ReservedTime]] = {}
        self.disabled: dict[str, str] = {}
        """Machines whose queues do not work, with the reason: the rest of the site goes on."""
        self._breaks = QueueBreaks()
        self._begun = False
        self._forgotten: dict[str, Forgotten] = {}
        self._forecaster = Forecaster(configuration.store, self.terms, logger)
        self._states = KeptStates(configuration.store, self._forecaster, self._numbers, logger)
        self._rules = dict(zip(self.terms, configuration.machines, strict=True))
        self._runners = MachineRunners(
            configuration, self._rules, engine, lambda name: partial(self._heard, name),
            lambda name: self.queues[name], self.history, logger,
        )  # fmt: skip

    # Life

    async def start(self) -> None:
        """Raises `InvalidInput` and `Unavailable` where jobs cannot be run."""
        await self._runners.start(self._sure_s, self._is_over)
        if self.terms:
            self._states.start()

    async def close(self) -> None:
        """Close all machines; running jobs continue."""
        self.end_life()
        await self._states.close()
        await self._forecaster.close()
        await self._runners.close()

    def replayed(self, store: SiteStore, now: Moment) -> dict[str, BatchQueue]:
        """Rebuild the queues from the store, except disabled ones (`disabled`).

        Raises `Unavailable`.
        """
        connection = store.file.connection
        self._runners.named_by(store.past.first_life)
        queues = {}
        self.disabled = self._breaks.too_many(now.monotonic_ms)
        for name, terms in self.terms.items():
            if name in self.disabled:
                continue
            ms_max = self._rules[name].policy_ms_max
            try:
                queues[name] = self._states.restored(name, terms, connection, now.wall_s, ms_max)
            except Exception as error:
                self._logger.error("machine_disabled", machine=name, exc_info=error)
                self.disabled[name] = str(error)
        self._reserved = {
            name: reserved_after(connection, name, queue.last_s) for name, queue in queues.items()
        }
        self._forgotten = {
            name: self._runners.find_forgotten(queue) for name, queue in queues.items()
        }
        return queues

    async def end_forgotten(self) -> None:
        """End attempts missing in the store, because their nodes are given to others when a life begins."""
        for name, forgotten in self._forgotten.items():
            await self._runners.end_forgotten(name, forgotten)

    def begin_life(self, engine: SiteEngine, queues: Mapping[str, BatchQueue]) -> None:
        """The store was opened: jobs and calendar are brought together, and everything goes on.

        Raises `Unavailable` if a queue breaks at once, and has been `disabled` for that.
        """
        if not self.terms:
            return
        jobs, now = engine.participant.wing(PlacedJobs), self._moment()
        ledger = JobLedger(engine, jobs)
        for name in self.terms:
            self._reported(f"machine {name}", disabled_words(name, self.disabled.get(name, "")))
        for name in self.disabled:
            # Jobs may run there, of which the calendar knows nothing.
            nodes = engine.participant.book.calendars[name].info.capacity
            ledger.moved(name, (), partial(tuple, [(now.wall_s, TIME_S_MAX, nodes)]), None)
        if not queues:
            return
        self._begun = False
        self.watch.begin()
        ends = PlacedEnds(engine, jobs.ends)
        gates = self.hooks.gates = StartGates(
            engine, jobs.starts, queues, self._runners.carry_out, self._runners.hosts, self._heard
        )
        service = self.hooks.service = QueueService(
            queues,
            ledger,
            moment=self._moment,
            carry_out=gates.carry_out,
            moved=self._jobs_moved,
            alarmed=self._alarmed,
            reserved=self._reserved,
            reported=self._reported,
            notices=self._notices,
            broken=partial(self._broken, engine),
            over=(gates.over, self.hooks.job_over, ends.over),
        )
        for name, queue in queues.items():
            if queue.flow.room.names_nodes:
                place = partial(have_place, ledger, queue, self.now_s)
                engine.participant.room.places.ask(name, place)
        for name, forgotten in self._forgotten.items():
            queues[name].skip_numbers(forgotten.first_free)
            service.step(name, forgotten.tell)
        service.begin()
        places = PlaceDesk(engine, jobs, service, self, self._alarmed, self._runners)
        steps = StepDesk(engine, jobs.part_reports, service, self)
        self.hooks.desks = (places, steps)
        places.begin()
        steps.begin()
        nodes_out = NodesOutWatch(engine, ledger, service, self._rules)
        self.hooks.look_at_nodes = nodes_out.note
        ends.tell_again(queues, now.wall_s)
        self._begun = True
        self._repeat(service, queues)
        self._repeated.append(asyncio.create_task(nodes_out.run()))
        for name, forgotten in self._forgotten.items():
            if forgotten.alarm:
                self._alarmed(f"{name}: {forgotten.alarm}")

    def _repeat(self, service: QueueService, queues: Mapping[str, BatchQueue]) -> None:
        """Look at queues, and at what runs, again and again in this life."""
        for name, queue in queues.items():
            told = partial(self._reported, f"names of jobs of {name}")
            tasks = [self._runners.sweep(queue, told)]
            if self.terms[name].may_delay == "none":
                tasks.append(self._foresee(name, service))
            self._repeated += map(asyncio.create_task, tasks)

    def end_life(self) -> None:
        """The store has failed, or is about to be closed: what shepherds say is heard again later."""
        for task in self._repeated:
            task.cancel()
        self._repeated = []
        self.hooks.end_life()

    def _broken(self, engine: SiteEngine, machine: str, error: Exception) -> Unavailable:
        """Restart the site after a fault of a queue, whose state in memory is no longer trusted."""
        self._alarmed(f"{machine}: its queue broke, and is rebuilt from the store: {error}")
        if self._begun:
            self._breaks.add(machine, str(error), self._moment().monotonic_ms)
        else:
            self.disabled[machine] = str(error)
        return engine.broken(error)

    def _jobs_moved(self, machine: str, users: Mapping[int, str]) -> None:
        self.watch.moved(machine, users)
        self.hooks.jobs_moved(machine, users)

    def check_place(self, principal: Principal, job: JobRequest) -> None:
        self.may_submit(principal, job)
        if not self._rules[job.machine].bids:
            raise NotAllowed("its owner allows no bids for jobs", where="machine")
        self._runners.check_bid(job)
        self.check_part(principal, job)

    def check_part(self, principal: Principal, job: JobRequest) -> None:
        self._notices.check(principal.user, job)
        self._runners.check(principal.user, job)

    @property
    def queues(self) -> Mapping[str, BatchQueue]:
        if self.hooks.service is not None:
            return self.hooks.service.queues
        if self.terms:
            raise unavailable()
        return {}

    def visible(self, caller: Caller, machine: str) -> bool:
        calendar = self._engine().participant.book.calendars[machine]
        return calendar.visible_to(caller.principal) or "audit" in caller.scopes

    def may_submit(self, principal: Principal, job: JobRequest) -> None:
        access = self._engine().participant.book.calendars[job.machine].access
        most = access.units_ever(principal, "lock")
        if not most:
            raise NotAllowed(
                f"no rule of the owner lets you run jobs on {job.machine}",
                where="machine",
                remedy="ask its owner for access",
            )
        room = self.queues[job.machine].flow.room
        nodes = max(room.granted(each, job.shape) for each in (job.nodes, *job.sizes))
        if nodes > most and not job.reservation:
            raise NotAllowed(
                f"it takes {nodes} nodes, and the owner's rules let you have at most {most} of {job.machine}",
                where="sizes" if job.sizes else "nodes",
                remedy="ask for fewer nodes",
            )

    def nodes_ever(self, principal: Principal, machine: str) -> int:
        access = self._engine().participant.book.calendars[machine].access
        most, room = access.units_ever(principal, "lock"), self.queues[machine].flow.room
        sizes = range(min(most, room.nodes), 0, -1)
        return next((nodes for nodes in sizes if 0 < room.granted(nodes, ()) <= most), 0)

    def check_submission(self, caller: Caller, job: JobRequest) -> None:
        self.check_part(caller.principal, job)
        if job.at and not self.terms[job.machine].handed_to:
            self._check_time(caller, job, self.queues[job.machine].flow.room.width(job))

    def _check_time(self, caller: Caller, job: JobRequest, nodes: int) -> None:
        """As for a booking: the owner's rules hold, and nobody gets what others wait for."""
        participant = self._engine().participant
        calendar = participant.book.calendars[job.machine]
        end = calendar.grain.ceil(job.at + job.limit_on(job.nodes))
        refusal = calendar.refusal(
            caller.principal, ("hold", "lock"), job.at, end, nodes, self._moment().wall_s
        )
        if refusal is not None:
            raise error_of([refusal])
        if not participant.room.is_for(LAST, (job.machine, job.at, end, nodes)):
            asked = f"{job.machine}:{nodes} --for {format_duration(job.limit_s)}"
            raise Conflict(
                f"{nodes} nodes are not free then",
                where="at",
                remedy=f"kalends find {asked} shows when they are",
            )

    async def called(self, machine: str, step: Callable[[BatchQueue, int], T]) -> T:
        if self.hooks.service is None:
            raise unavailable()
        result = self.hooks.service.step(machine, step)
        self.hooks.look_at_nodes({machine})
        await self.settled()
        return result

    async def settled(self) -> None:
        await self._engine().settle()

    def now_s(self) -> int:
        if self.hooks.service is None:
            raise unavailable()
        return self.hooks.service.now_s()

    def reservations(self, caller: Caller, machine: str) -> list[job_calls.ReservedNodes]:
        engine, queue = self._engine(), self.queues[machine]
        access = engine.participant.book.calendars[machine].access
        seen_by = "" if access.sees_detail(caller.principal) else caller.principal.user
        return reserved_nodes(
            JobLedger(engine, engine.participant.wing(PlacedJobs)), queue, seen_by, self.now_s()
        )

    def left_free(self, machine: str) -> int | None:
        participant, now = self._engine().participant, self.now_s()
        if machine not in participant.guard.resources:
            return None
        return participant.book.calendars[machine].free(now, now + 1)

    async def foreseen(self, question: Question, machine: str, wait_s: float) -> Foreseen:
        queue = self.queues[machine]
        if question == "starts" and not queue.flow.room.scheduler.waiting:
            return Foreseen()
        self._engine().hasten()
        return await self._forecaster.foreseen(question, machine, queue.number, wait_s)

    async def delays(self, machine: str, spans: Sequence[Span]) -> Foreseen:
        if not self.queues[machine].flow.room.scheduler.waiting:
            return Foreseen(made_at=self.now_s(), delays=tuple({} for _ in spans))
        self._engine().hasten()
        return await self._forecaster.delays(machine, spans)

    async def _foresee(self, machine: str, service: QueueService) -> None:
        """Tell a queue's service, again and again, when its jobs will start: none may be delayed."""
        known = 0
        while True:
            await asyncio.sleep(FORESEE_EVERY_S)
            if service.queues[machine].number != known:
                foreseen = await self.foreseen("starts", machine, FORESEE_S_MAX)
                if foreseen.known != known:
                    known = foreseen.known
                    latest = {job: each.latest for job, each in foreseen.starts.items()}
                    service.foreseen(machine, latest)

    async def output(
        self, machine: str, number: int, stream: str, offset: int, wait_s: float, attempt: int
    ) -> job_calls.JobOutput:
        return await self._runners.output(machine, number, stream, offset, wait_s, attempt)

    def words(self, machine: str, job: BatchJob) -> str:
        waits = self.hooks.gates.words(machine, job) if self.hooks.gates is not None else ""
        return waits or self._runners.words(machine, job)

    def _sure_s(self) -> int:
        """Return the time that has surely passed, as far as is known now."""
        if self.hooks.service is None:
            return 0
        return self._engine().participant.retention.sure_time.sure_s

    def _numbers(self) -> dict[str, int]:
        """Return up to which fact each queue is."""
        if self.hooks.service is None:
            return {}
        return {name: queue.number for name, queue in self.hooks.service.queues.items()}

    def _is_over(self, machine: str, number: int) -> bool:
        """Whether the queue knows the job, and its end."""
        if self.hooks.service is None or machine in self.disabled:
            return False
        table = self.queues[machine].flow.table
        return number < table.next_number and number not in table.jobs

    async def attach(self, machine: str, attempt: str) -> Attachment:
        return await self._runners.attach(machine, attempt)

    def _heard(self, machine: str, step: Callable[[BatchQueue, int], None]) -> None:
        if self.hooks.service is None or machine in self.disabled:
            return
        with contextlib.suppress(Unavailable):  # It is heard again in the next life.
            self.hooks.service.step(machine, step)
