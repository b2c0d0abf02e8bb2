"""Sites that run jobs: the shipped queue, its service and its ledger, beside the bookings of brokers.

Each has a machine, ``SITE/m``, of which clients book nothing. What the queue stores goes to the disk of the
site in the order of all its steps. So servers crash, disks fail, stores are put back and standbys take over
between any two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from kalends.batch.forgotten import find_forgotten
from kalends.batch.job_notices import JobNotices
from kalends.batch.queue import facts as f
from kalends.batch.queue.accounts import Liens, liens_of
from kalends.batch.queue.effects import Action
from kalends.batch.queue.milestones import Milestone
from kalends.batch.queue.queue import BatchQueue
from kalends.batch.queue.replay import replayed
from kalends.batch.service import QueueService
from kalends.batch.shepherds.launcher import Launcher
from kalends.calendars import AccessList, ResourceCalendar, open_access
from kalends.core.errors import Unavailable
from kalends.core.identifiers import queue_of
from kalends.core.intervals import Moment
from kalends.core.limits import TIME_S_MAX, UNITS_MAX, WINDOW_S_MAX
from kalends.core.resources import ResourceInfo
from kalends.notices.delivery import Delivery
from kalends.resource_servers.jobs.job_ledger import JobLedger
from kalends.resource_servers.jobs.place_desk import machines_and_queues
from kalends.resource_servers.journal.contract import SiteOperation
from kalends.resource_servers.participation.effects import ParticipantEffects as SiteEffects
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.service import SiteEngine
from tests.simulation.clocks import EPOCH_S
from tests.simulation.job_hosts import JobHost
from tests.simulation.nodes import SiteNode
from tests.simulation.postgres_site import OF_A_PROCESS, PostgresSite
from tests.simulation.schedule import FAULTS_MS
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.jobs_paid import JobUser

T = TypeVar("T")
Step = Callable[[BatchQueue, int], object]

NODES: Final = 4
TERMS: Final = f.Terms(machine=f"pool:{NODES}", policy="easy", ending_s=2, undecided_s=20)
ASIDE: Final = 0.15
"""So often a machine is put aside for a life of its site: it is another host's, or its queue is broken."""

LATER_MS: Final = 1_000
"""What may be stored later is stored after so long, if nothing else was."""


class Timer:
    """A call of a queue's service that is still to come."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        if self._call is not None:
            self._call()


class Timers:
    """What the service of a queue asks of an event loop."""

    def __init__(self, site: SiteNode) -> None:
        self._site = site

    def call_later(self, in_s: float, call: Callable[[], object]) -> Timer:
        timer = Timer(call)
        self._site.later(int(in_s * 1_000) + 1, timer.fire)
        return timer

    @contextmanager
    def running(self) -> Iterator[None]:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, self))
        try:
            yield
        finally:
            asyncio._set_running_loop(before)


class NoNotices(JobNotices):
    """Nobody wants to be told of anything."""

    def __init__(self) -> None:
        pass

    def post(self, machine: str, milestones: Iterable[Milestone], now: int) -> Sequence[Delivery]:
        return ()

    def stored(self, deliveries: Sequence[Delivery]) -> None:
        pass


@dataclass
class Operations(SiteEffects):
    """A step of a queue, or of both that is stored as one; `durable` follows."""

    durable: Callable[[], None] = lambda: None


class Engine:
    """What the queues of a site ask of its engine."""

    def __init__(self, site: JobSite) -> None:
        self._site = site

    @property
    def participant(self) -> Participant:
        return self._site.participant

    def persist(self, operations: Sequence[SiteOperation], durable: Callable[[], None]) -> None:
        self._site.hand_on(Operations(facts=[*operations], durable=durable))  # type: ignore[list-item]

    def persist_with(
        self,
        step: Callable[[Participant, Moment], None],
        operations: Sequence[SiteOperation],
        durable: Callable[[], None],
    ) -> None:
        step(self.participant, self._site.now())
        self._site.carry_out_with(operations, durable)

    def persist_later(self, operations: Sequence[SiteOperation]) -> None:
        self._site.hand_on(Operations(facts=[*operations]), at_once=False)  # type: ignore[list-item]

    def apply(self, step: Callable[[Participant, Moment], T]) -> T:
        result = step(self.participant, self._site.now())
        self._site._carry_out()
        return result


class JobSite(SiteNode):
    """A site with a machine; `service` is None while its queue is not here."""

    make_ledger: Any = JobLedger

    def __init__(self, world: World, *arguments: Any) -> None:
        super().__init__(world, *arguments)
        self.machine = f"{self.name}/m"
        self.host = JobHost(self)
        self.queue = BatchQueue(self.machine, TERMS, EPOCH_S)
        self.service: QueueService | None = None
        self.ledger: JobLedger | None = None
        self.is_aside = False

    def liens(self) -> Sequence[Liens]:
        entries = self.disk.job_entries(self.machine)
        self.service = None
        self.is_aside = self.kernel.now_ms < FAULTS_MS and self.kernel.chance(ASIDE)
        if self.is_aside:
            self.kernel.fault("machine put aside", self.name)
            if self.kernel.random.random() < 0.5:
                return (liens_of(entries),)
        self.queue = replayed(
            self.machine, TERMS, self.now().wall_s, lambda number: entries[number:]
        )
        return (self.queue.flow.accounts.reserved,)

    def boot(self) -> None:
        super().boot()
        self.enter(self._begin)

    def _begin(self) -> None:
        """As the machines of a site when a life begins."""
        engine = cast(SiteEngine, Engine(self))
        ledger = self.make_ledger(engine, self.participant.wing(PlacedJobs))
        self.ledger = ledger
        now = self.now().wall_s
        if self.is_aside:
            ledger.moved(self.machine, (), partial(tuple, [(now, TIME_S_MAX, NODES)]), None)
            return
        timers = Timers(self)
        with timers.running():
            service = QueueService(
                {self.machine: self.queue}, ledger, moment=self.now,
                carry_out=self._perform, moved=lambda machine, users: None,
                alarmed=self._alarmed, reserved={}, reported=lambda about, text: None,
                notices=NoNotices(), broken=_broken, over=(),
            )  # fmt: skip
        forgotten = find_forgotten(cast(Launcher, self.host), self.queue)
        self.host.end_all(forgotten.alive)
        self.queue.skip_numbers(forgotten.first_free)
        self.service = service
        service.step(self.machine, forgotten.tell)
        service.begin()
        for job in [each for each in self.queue.flow.table if each.offered]:
            service.step(self.machine, partial(_cancel, job.number))

    def _perform(self, machine: str, actions: Sequence[Action]) -> None:
        self.point("before a job is asked for")
        self.host.carry_out(actions)

    def _alarmed(self, text: str) -> None:
        self.kernel.note(f"{self.name} alarms: {text}")

    def forget(self) -> None:
        super().forget()
        self.service = None

    # Steps

    def step(self, step: Callable[[BatchQueue, int], T]) -> T:
        """Do something with the queue, which is here."""
        assert self.service is not None
        return self.service.step(self.machine, step)

    def heard(self, step: Step) -> None:
        """Take what the host says, if the queue is here; it is heard again when it comes back."""
        if self.service is not None:
            self.step(step)

    def when_durable(self, durable: Callable[[], None]) -> None:
        """Call `durable` once all steps up to now are stored."""
        self.hand_on(Operations(durable=durable))

    def hand_on(self, step: Operations, *, at_once: bool = True) -> None:
        self._queue.append((step, self.participant.position))
        if at_once:
            self._pump()
        else:
            self.later(LATER_MS, self._pump)

    def carry_out_with(
        self, operations: Sequence[SiteOperation], durable: Callable[[], None]
    ) -> None:
        """Carry out a step of the site, whose facts are stored with `operations`."""
        effects = self.participant.take_effects()
        made = {each.name: getattr(effects, each.name) for each in fields(effects)}
        made["facts"] = [*effects.facts, *operations]
        self.carry_out(Operations(**made, durable=durable))
        self._tell_queue()

    def _carry_out(self) -> None:
        super()._carry_out()
        self._tell_queue()

    def _tell_queue(self) -> None:
        if self.service is not None and (moved := self.participant.book.take_moved()):
            self.service.claims_moved(machines_and_queues(moved, self.service.queues)[0])

    def waits(self, effects: SiteEffects) -> bool:
        return super().waits(effects) or isinstance(effects, Operations)

    def _let_go(self, effects: SiteEffects) -> None:
        super()._let_go(effects)
        if isinstance(effects, Operations):
            effects.durable()


class PostgresJobSite(JobSite, PostgresSite):
    """The same with a standby, on the host of the machine or beside it."""

    of_a_process = (*OF_A_PROCESS, "service", "queue", "ledger", "is_aside")


def _cancel(number: int, queue: BatchQueue, now: int) -> None:
    queue.cancel(number, "", now)


def _broken(machine: str, error: Exception) -> Unavailable:
    """Let power go where it goes, and have everything else end the schedule."""
    raise error


class JobWorld(World):
    """Sites with machines. Nobody books them: jobs compete with bookings for credit alone."""

    site_node = JobSite

    def __init__(self, seed: int | str, **options: Any) -> None:
        super().__init__(seed, **options)
        self.job_users: list[JobUser] = []

    @property
    def job_sites(self) -> list[JobSite]:
        return [each for each in self.sites if isinstance(each, JobSite)]

    def _calendars(self, site: str) -> Any:
        others = super()._calendars(site)

        def make() -> dict[str, ResourceCalendar]:
            machine = f"{site}/m"
            nodes = ResourceInfo(name=machine, capacity=NODES, attributes={"kind": "machine"})
            places = ResourceInfo(
                name=queue_of(machine), capacity=UNITS_MAX, grain_s=1, horizon_s=WINDOW_S_MAX
            )
            return {
                **others(),
                machine: ResourceCalendar(nodes, open_access()),
                places.name: ResourceCalendar(places, AccessList([])),
            }

        return make

    def quiet(self) -> bool:
        return super().quiet() and not self._jobs_left()

    def unquiet(self) -> str:
        return "; ".join([super().unquiet(), *self._jobs_left()])

    def _jobs_left(self) -> list[str]:
        found = [
            f"a user of jobs waits for {each.waits}" for each in self.job_users if not each.finished
        ]
        found += [
            f"the machine of {each.name} is away" for each in self.job_sites if not each.service
        ]
        return found + [
            f"{site.name} has job {job.number} {job.phase} {job.reasons}"
            for site in self.job_sites
            if site.service is not None
            for job in site.queue.flow.table
        ]


class PostgresJobWorld(JobWorld):
    site_node = PostgresJobSite
