"""The machines of a site: their queues, the processes that run their jobs, and who may do what with them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from kalends.agents.runs import RunOutcome
from kalends.batch.follower import Foreseen, Question, Span
from kalends.batch.forecast import Forecaster
from kalends.batch.forgotten import Forgotten
from kalends.batch.hosts.machine_hosts import MachineHosts
from kalends.batch.job_notices import JobNotices
from kalends.batch.job_watch import JobWatch
from kalends.batch.journal.contract import ReservedTime, StoredState
from kalends.batch.kept_state import KeptStates
from kalends.batch.queue.accounts import Liens, liens_of
from kalends.batch.queue.facts import JobPays
from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue_breaks import QueueBreaks, disabled_words
from kalends.batch.service import QueueService
from kalends.batch.shepherds.shepherd_line import Attachment
from kalends.batch.terms import terms_of_all
from kalends.contract import job_calls
from kalends.core.durations import format_duration
from kalends.core.errors import Conflict, NotAllowed, Unavailable
from kalends.core.hosts import Host
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
from kalends.resource_servers.jobs.way_choice import RunScript
from kalends.resource_servers.journal.contract import Journal, SiteStorage
from kalends.resource_servers.participation.claims.earmarks import LAST
from kalends.resource_servers.participation.effects import RunTask
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.service import SiteEngine, unavailable
from kalends.serving.auth.callers import Caller
from kalends.serving.configuration import MachineConfiguration, SiteConfiguration
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
        storage: SiteStorage,
        engine: Callable[[], SiteEngine],
        moment: Callable[[], Moment],
        logger: Logger,
        alarmed: Callable[[str], None],
        reported: Callable[[str, str], None],
        notices: JobNotices,
        here: Host,
        run_script: RunScript,
    ) -> None:
        """`here` is the host of this process. Raises `InvalidInput` for a machine that cannot be."""
        self.terms = terms_of_all(configuration)
        self.history = storage.history(self.settled)
        self._engine, self._moment = engine, moment
        self._alarmed, self._reported = alarmed, reported
        self._notices, self._logger = notices, logger
        self._run_script = run_script
        self.watch = JobWatch()
        self.hooks = QueueHooks()
        self._repeated: list[asyncio.Task[None]] = []
        """What is looked at again and again in this life."""
        self._reserved: dict[str, Sequence[ReservedTime]] = {}
        self.disabled: dict[str, str] = {}
        """Machines whose queues do not work, with the reason: the rest of the site goes on."""
        self._breaks = QueueBreaks()
        self.hosts = MachineHosts(here)
        self._begun = False
        self._forgotten: dict[str, Forgotten] = {}
        self.liens: Sequence[Liens] = ()
        """What the jobs of each machine have reserved in this life, also if its queue is not here."""
        self._forecaster = Forecaster(configuration.store, self.terms, logger)
        self._states = KeptStates(
            configuration.store_file, self._forecaster, self._numbers, self._keep_state, logger
        )
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

    def replayed(self, journal: Journal, now: Moment) -> dict[str, BatchQueue]:
        """Rebuild the queues from the journal, except those that are `disabled`, or put aside (`hosts`).

        Raises `Unavailable`.
        """
        jobs = journal.jobs
        self._runners.named_by(journal.past.first_life)
        queues, away = {}, []
        self.disabled = self._breaks.too_many(now.monotonic_ms)
        self.hosts.begin_life(jobs.hosts(), self._runners.of_this_host)
        for name, terms in self.terms.items():
            idle = name in self.disabled or name in self.hosts.aside
            ms_max = self._rules[name].policy_ms_max
            try:
                queue = self._states.restored(name, terms, jobs, now.wall_s, ms_max)
            except Exception as error:
                self._logger.error("machine_disabled", machine=name, exc_info=error)
                if not idle:
                    self.disabled[name] = str(error)
                away.append(liens_of(jobs.entries_after(name, 0)))
                continue
            if idle:  # Its jobs are still there, and go on when it works again.
                away.append(queue.flow.accounts.reserved)
            else:
                queues[name] = queue
        self.liens = [*away, *(each.flow.accounts.reserved for each in queues.values())]
        self._reserved = {
            name: jobs.reserved_after(name, queue.last_s) for name, queue in queues.items()
        }
        self._forgotten = {
            name: self._runners.find_forgotten(queue, moved=name in self.hosts.moved)
            for name, queue in queues.items()
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
        self._close_what_does_not_work(engine, ledger, now.wall_s)
        if not queues:
            return
        engine.persist(self.hosts.first_bound(queues), lambda: None)
        self._begun = False
        self.watch.begin()
        ends = PlacedEnds(engine, jobs.ends, self.history)
        carry_out = partial(self._runners.carry_out, engine)
        gates = self.hooks.gates = StartGates(
            engine, jobs.starts, queues, carry_out, self._runners.hosts, self._heard
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
            if name not in self.hosts.moved:
                service.step(name, forgotten.tell)
        service.begin(self.hosts.first_steps(self._forgotten))
        places = PlaceDesk(engine, jobs, service, self, self._alarmed, self._runners)
        steps = StepDesk(engine, jobs.part_reports, service, self.check_part, self.history)
        self.hooks.desks = (places, steps)
        places.begin()
        steps.begin()
        nodes_out = NodesOutWatch(engine, ledger, service, self._rules)
        self.hooks.look_at_nodes = nodes_out.note
        self._begun = True
        self._repeat(service, queues)
        lasting = (nodes_out.run(), ends.tell_again(tuple(queues), now.wall_s))
        self._repeated += map(asyncio.create_task, lasting)
        for name, forgotten in self._forgotten.items():
            if forgotten.alarm:
                self._alarmed(f"{name}: {forgotten.alarm}")

    def _close_what_does_not_work(self, engine: SiteEngine, ledger: JobLedger, now_s: int) -> None:
        """Keep all nodes of machines without a queue: jobs may run there, of which nothing is known."""
        for name in self.terms:
            told = self.hosts.words(name) or disabled_words(name, self.disabled.get(name, ""))
            self._reported(f"machine {name}", told)
        for name in (*self.disabled, *self.hosts.aside):
            nodes = engine.participant.book.calendars[name].info.capacity
            ledger.moved(name, (), partial(tuple, [(now_s, TIME_S_MAX, nodes)]), None)

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

    async def run_script(self, task: RunTask) -> RunOutcome:
        return await self._run_script(task)

    def rules_of(self, machine: str) -> MachineConfiguration:
        return self._rules[machine]

    def check_part(self, principal: Principal, job: JobRequest) -> None:
        self._notices.check(principal.user, job)
        self._runners.check(principal.user, job)

    @property
    def queues(self) -> Mapping[str, BatchQueue]:
        if self.hooks.service is not None:
            return self.hooks.service.queues
        if self.terms.keys() - self.disabled.keys() - self.hosts.aside.keys():
            raise unavailable()
        return {}

    @property
    def aside(self) -> Mapping[str, str]:
        return self.hosts.labels

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

    def reserve(self, principal: Principal, queue: BatchQueue, job: JobRequest) -> JobPays | None:
        engine = self._engine()
        return JobLedger(engine, engine.participant.wing(PlacedJobs)).reserve(principal, queue, job)

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
        if self.hooks.service is not None:
            return self.hooks.service.now_s()
        if self.queues:
            raise unavailable()
        return self._moment().wall_s

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

    def _keep_state(self, state: StoredState) -> None:
        if self.hooks.service is not None:
            self._engine().persist_later((state,))

    def _is_over(self, machine: str, number: int) -> bool:
        """Whether the queue knows the job, and its end."""
        if self.hooks.service is None or machine not in self.queues:
            return False
        table = self.queues[machine].flow.table
        return number < table.next_number and number not in table.jobs

    async def attach(self, machine: str, attempt: str) -> Attachment:
        return await self._runners.attach(machine, attempt)

    def _heard(self, machine: str, step: Callable[[BatchQueue, int], None]) -> None:
        if self.hooks.service is None or machine not in self.queues:
            return
        with contextlib.suppress(Unavailable):  # It is heard again in the next life.
            self.hooks.service.step(machine, step)
