"""The site as a server: its life from start to stop, its sessions with brokers, its peers.

A site lives as long as its store works. When the store fails, what was not stored was not said, and
what was said is stored: so the site drops everything in memory, closes its sessions, and opens the
store again every second until that works, with a new epoch that tells brokers that holds are gone.

In a database, another process of the same site may have the store. Then this one is its standby: it answers
nothing but how it is, looks several times a second whether the other one lives, and begins when it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Final, Literal

from aiohttp import WSCloseCode, web

from kalends.backends.adapter import Adapter
from kalends.backends.records import SystemAnswer
from kalends.batch.job_notices import JobNotices, job_notifier
from kalends.batch.operations import JobOperations
from kalends.batch.queue.accounts import Liens
from kalends.batch.terminal_sessions import TerminalSessions
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.contract.paths import PEERS_PATH, SESSION_PATH, VISITS_PATH
from kalends.contract.terminal_frames import TERMINALS_PATH
from kalends.contract.versions import KNOWN, ServerVersion, own_version
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.hosts import Host
from kalends.core.intervals import Moment
from kalends.notices.delivery import DeliveriesDone
from kalends.resource_servers.credit_operations import CreditOperations
from kalends.resource_servers.jobs.batch_desk import BatchDesk
from kalends.resource_servers.jobs.host_operations import HostOperations
from kalends.resource_servers.jobs.machines import SiteMachines
from kalends.resource_servers.jobs.usage_operations import UsageOperations
from kalends.resource_servers.journal.contract import NOTHING, Journal, Loaded, RunRecords
from kalends.resource_servers.metrics import RunMeasures, SiteMeasures
from kalends.resource_servers.morning_mail import MorningMail
from kalends.resource_servers.neighbours.broker_sessions import BrokerSessions
from kalends.resource_servers.neighbours.near_visits import SOURCE as VISIT_SOURCE
from kalends.resource_servers.neighbours.near_visits import NearVisits
from kalends.resource_servers.neighbours.peer_questions import SOURCE, PeerQuestions
from kalends.resource_servers.neighbours.peers import PeerCalls, peer_calls_of
from kalends.resource_servers.neighbours.relays import RelayCalls
from kalends.resource_servers.operations import SiteOperations
from kalends.resource_servers.owners_day import OwnersDay
from kalends.resource_servers.participation.effects import Relay, RunTask, Send
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.script_runner import ScriptRunner
from kalends.resource_servers.service import LifeEnded, SiteEngine, unavailable
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.resource_servers.setup.configured_backends import adapters_of, backends_of, check_files
from kalends.resource_servers.setup.rules_change import rules_change
from kalends.resource_servers.store_failures import StoreFailures
from kalends.servers.database_address import check_folder, log_opening
from kalends.servers.restored_participant import restored_participant
from kalends.servers.revocations import follow, stored_revocations
from kalends.servers.site_folder import FolderLock, folder_lock
from kalends.servers.site_storage import home_of, storage_of
from kalends.servers.standby_watch import detail_of, watch_of
from kalends.serving.alarms import Alarms
from kalends.serving.auth.authenticator import asks_for_certificates, authenticator_of
from kalends.serving.auth.callers import Authenticator
from kalends.serving.clock_watch import ClockWatch
from kalends.serving.clocks import moment
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.http.application import build_application
from kalends.serving.http.dispatch import Handler
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.reload import RULES, RulesChange
from kalends.serving.logs import Logger, get_logger
from kalends.serving.metrics import Metrics
from kalends.serving.this_host import this_host
from kalends.stores.group_commit import Contradicted, StoreFailed
from kalends.stores.served_elsewhere import ServedElsewhere

REOPEN_EVERY_S: Final = 1.0
LOOK_EVERY_S: Final = 0.1
"""A standby looks this often whether its turn has come, and what is new in the store."""

State = Literal["ok", "starting", "standby", "failing"]

_STORE: Final[Mapping[State, Literal["works", "fails"]]] = {
    "ok": "works",
    "standby": "works",
    "failing": "fails",
}


def build_site(
    configuration: SiteConfiguration,
    *,
    version: str,
    features: frozenset[str] = KNOWN,
    moment: Callable[[], Moment] = moment,
    adapters: Mapping[str, Adapter] | None = None,
    host: Host | None = None,
) -> web.Application:
    """The complete application of a site; it opens its store when it starts to serve.

    `adapters` stand for the batch systems of the same names, in place of those that are configured. With
    fewer `features` it behaves towards others like an older one. `host` stands for this host.

    Raises `InvalidInput` for a configuration that cannot be. Starting raises what `FolderLock` and
    `SiteStorage.open` raise, and `StoreDamaged` when the calendars cannot carry what was promised.
    """
    check_folder(configuration)
    calendars_of(configuration)
    if adapters is None:
        check_files(configuration)
        adapters = adapters_of(configuration)
    backends_of(configuration, adapters)
    metrics = Metrics(role="site", name=configuration.name, version=version)
    logger = get_logger(role="site", name=configuration.name)
    speaks = own_version(version, features)
    site = SiteServer(configuration, speaks, moment, metrics, logger, adapters, host or this_host())
    revoked = stored_revocations(configuration, site.alarms.report)
    application = build_application(
        role="site",
        name=configuration.name,
        version=speaks,
        handlers=site.handlers(),
        authenticator=authenticator_of(configuration, site.alarms.report, revoked),
        metrics=metrics,
        logger=logger,
        certified=asks_for_certificates(configuration),
        limits=site.limits,
        routes=[
            web.get(SESSION_PATH, site.sessions.respond, allow_head=False),
            web.get(TERMINALS_PATH, site.terminals.respond, allow_head=False),
            web.post(PEERS_PATH, site.questions.respond),
            web.post(VISITS_PATH, site.visits.respond),
        ],
        on_stop=site.begin_stop,
        report=site.alarms.report,
        audit=configuration.audit_place,
    )
    application[RULES] = site.prepared
    application.on_startup.append(site.start)
    application.on_cleanup.append(site.stop)
    follow(application, revoked)
    return application


class SiteServer:
    """One site: `SiteEngine`s one after the other, and whoever is connected."""

    _beating: asyncio.Task[None] | None = None
    _watching: asyncio.Task[None] | None = None
    _folder: FolderLock | None = None
    _stopping = False
    _recovery: asyncio.Task[None]
    """Leads from the last life to the present one."""

    def __init__(
        self,
        configuration: SiteConfiguration,
        version: ServerVersion,
        moment: Callable[[], Moment],
        metrics: Metrics,
        logger: Logger,
        adapters: Mapping[str, Adapter],
        host: Host,
    ) -> None:
        given = configuration.limits
        self.limits = ServingLimits(calls_per_s=given.calls_per_s, calls_burst=given.calls_burst)
        self.alarms = Alarms(logger, lambda: self._measures.alarm())
        self._configuration, self._version = configuration, version
        self._watch = ClockWatch(moment, self.alarms.reporter("clock"))
        self._moment = moment = self._watch.now
        self._logger = logger
        self._engine: SiteEngine | None = None
        self._state: State = "starting"
        self._detail = self._served_on = ""
        """The host of the process that serves, while this is its standby."""
        self._failures = StoreFailures(logger)
        self._left_alone: set[str] = set()
        """Requests that have broken a step since the start of the server."""
        self._peers: PeerCalls | None = None
        self.sessions = BrokerSessions(
            configuration.name, self.engine, self._watch, self.limits, version,
            lambda count: self._measures.messages(count), logger,
        )  # fmt: skip
        self.questions = PeerQuestions(self.engine, moment, self.limits)
        near = [each.name for each in configuration.near]
        self.visits = NearVisits(self.engine, moment, self.limits, near)
        self._storage = storage_of(configuration, host.name)
        self._scripts = ScriptRunner(
            configuration, self._storage, moment, RunMeasures(metrics), logger, self.alarms.tell
        )
        self._desk = BatchDesk(adapters, self._provisioned)
        self._backends = backends_of(configuration, adapters)
        self._relays = RelayCalls(configuration, version, moment, logger)
        self._measures = SiteMeasures(
            metrics, self.sessions.__len__, lambda: self._engine, lambda: bool(self._watch.doubt)
        )
        self._notices = job_notifier(
            configuration.notices,
            now_s=lambda: moment().wall_s, chance=random.random,
            reported=self.alarms.report, logger=logger, metrics=metrics,
        )  # fmt: skip
        self.machines = SiteMachines(
            configuration, self._storage, self.engine, moment, logger, self.alarms.tell,
            self.alarms.report, JobNotices(self._notices), home_of(configuration, host),
            self._scripts.run,
        )  # fmt: skip
        self.jobs = JobOperations(self.machines)
        self.usage = UsageOperations(self.engine, self._backends, self.machines, self.jobs)
        self.terminals = TerminalSessions(self.jobs.attach, self.limits, lambda: moment().wall_s)
        self._day = OwnersDay(self, configuration, SiteOperations(self, moment), moment)
        self._morning = MorningMail(configuration.notices, self._notices, self._day, logger)
        self._standbys = watch_of(configuration, "site", self.alarms.report)
        self._tasks: set[asyncio.Task[None]] = set()

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each call."""
        return {
            **self._day.operations.handlers(),
            **self._day.handlers(),
            **CreditOperations(self.engine).handlers(),
            **self.jobs.handlers(),
            **self.usage.handlers(),
            **HostOperations(self.machines.hosts, self.begin_again).handlers(),
        }

    async def start(self, application: web.Application) -> None:
        configuration, version = self._configuration, self._version
        self._folder = folder_lock(configuration)
        log_opening(configuration, self._logger)
        self._peers = peer_calls_of(configuration, version, self._answered, self._logger)
        if self._standbys is not None:
            self._watching = asyncio.create_task(self._standbys.run())
        try:
            await self._relays.start()
            await self._scripts.start()
            await self.machines.start()
            self._engine = await self._begin()
        except ServedElsewhere as served:
            self._stand_by(served)
            self._spawn(self._reopen())
        except BaseException:
            await self._close_calls()
            raise
        else:
            self._state = "ok"

    def begin_stop(self) -> None:
        """Everything received so far is settled, then sessions are closed as going away."""
        self._stopping = True
        self._spawn(self._scripts.stop())
        self._spawn(self._end_sessions())

    async def stop(self, application: web.Application) -> None:
        """Store everything and close the store; nothing that was promised is lost without it."""
        self._stopping = True
        await self._close_calls()
        await self._desk.close()
        await self.machines.close()
        self._morning.end_life()
        await self._notices.close()
        if self._engine is not None:
            await self._engine.close()
            self._engine = None
        self._end_beats()
        await self._storage.close()
        if self._folder is not None:
            self._folder.release()

    async def _close_calls(self) -> None:
        """Runs, and whatever was asked of others, end without an answer."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._scripts.stop()
        await self._relays.close()
        while self._tasks:
            # Taken out first: of tasks that have all ended, `gather` does not wait at all (Python 3.12),
            # and what takes them out one by one would never get its turn.
            ending, self._tasks = self._tasks, set()
            await asyncio.gather(*ending, return_exceptions=True)
        if self._peers is not None:
            await self._peers.close()
        await self.records.close()

    async def _end_sessions(self) -> None:
        if self._engine is not None:
            with contextlib.suppress(StoreFailed):
                await self._engine.settle()
        reason = "the site is stopping"
        await self.terminals.close(WSCloseCode.GOING_AWAY, reason)
        await self.sessions.close(WSCloseCode.GOING_AWAY, reason, stopping=True)

    async def _begin(self) -> SiteEngine:
        """Open the store and take over what it knows; raises as `SiteStorage.open`."""
        journal = await self._storage.open(self._measures.committed)
        self._end_beats()
        if (beat_s := self._storage.beat_s) is not None:
            self._beating = asyncio.create_task(self._beat(journal, beat_s))
        try:
            loaded = await journal.load()
            queues = await asyncio.to_thread(self.machines.replayed, journal, self._moment())
            participant = await asyncio.to_thread(self._restore, loaded, self.machines.liens)
            self._watch.passed(max((queue.last_s for queue in queues.values()), default=0))
            deliveries = await journal.deliveries()
            await self.machines.end_forgotten()
        except BaseException:
            self._end_beats()
            await journal.close()
            raise
        self._logger.info(
            "store_opened", epoch=journal.epoch, requests=len(participant.book.stakes)
        )
        engine = SiteEngine(
            journal,
            participant,
            moment=self._moment,
            deliver=self._deliver,
            set_out=self._set_out,
            provision=self._desk.carry,
            alarmed=self.alarms.tell,
            reported=self.alarms.report,
            failed=self._failed,
            queues=self.machines.hooks,
        )
        self._notices.begin_life(
            *deliveries, lambda ids: engine.persist((DeliveriesDone(tuple(ids)),), lambda: None)
        )
        known = len(self.machines.disabled)
        try:
            self.machines.begin_life(engine, queues)
        except Unavailable:
            await engine.close()
            if len(self.machines.disabled) == known:
                raise
            return await self._begin()
        self._morning.begin_life(engine, loaded.morning)
        return engine

    async def _beat(self, journal: Journal, beat_s: float) -> None:
        """Show that this process lives, from the beginning of a life: reading the store may take long."""
        while True:
            if self._engine is not None:
                self._engine.persist((NOTHING,), lambda: None)
            else:
                journal.writer.submit((NOTHING,), lambda _: None, lambda _: None)
            await asyncio.sleep(beat_s)

    def _end_beats(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    def _restore(self, loaded: Loaded, of_jobs: Iterable[Liens]) -> Participant:
        given = (self._configuration, self._backends, self.machines.hooks)
        participant = restored_participant(*given, loaded, self._moment(), of_jobs)
        participant.left_alone = self._left_alone
        return participant

    def engine(self) -> SiteEngine:
        """The site as it runs now; raises `Unavailable` when its store does not work, or is another's."""
        if self._state == "standby":
            raise ServedElsewhere(self._served_on)
        if self._engine is None or self._state != "ok":
            raise unavailable()
        return self._engine

    def health(self) -> calls.Health:
        status: State | Literal["draining"] = self._state
        detail = self._detail or self._watch.doubt or self._scripts.detail
        until, stuck_s = 0, 0.0
        if status == "ok":
            engine = self.engine()
            until = engine.participant.admission.drained_until_s
            closed = engine.participant.set_aside.refusal(0)
            if engine.participant.admission.draining or closed:
                status = "draining"
            if stuck_s := engine.stuck_s:
                status, detail = "failing", f"the store has not taken a write for {stuck_s:.1f} s"
            elif not engine.is_ours:
                status, detail = "failing", "this process stood still: its standby may serve now"
            detail = detail or closed
        return calls.Health(
            status=status, role="site", name=self._configuration.name,
            version=self._version.number, detail=detail_of(self._standbys, detail), until=until,
            store="hangs" if stuck_s else _STORE.get(self._state, ""), stuck_s=round(stuck_s, 1),
            served_on=self._served_on if self._state == "standby" else "",
        )  # fmt: skip

    @property
    def records(self) -> RunRecords:
        return self._scripts.records

    def prepared(self, changed: SiteConfiguration, trusted: Authenticator) -> RulesChange:
        """Check the rules of `changed`, raising `InvalidInput`; what is returned lets them hold."""

        def hold() -> None:
            self._configuration = changed
            self._spawn(self.sessions.close_unless(trusted.believes))
            self._spawn(self.terminals.close_unless(trusted.believes))
            if self._engine is not None:
                self.sessions.push_to("", self._engine.participant.hello())

        return rules_change(changed, lambda: self._engine, self._moment, hold)

    async def begin_again(self, why: str) -> None:
        """End this life of the site, and return when the next one has begun, durably.

        Raises `Unavailable` if there is none now, or the site is stopping.
        """
        self.engine().end(why)
        await asyncio.shield(self._recovery)
        try:
            await self.engine().settle()
        except StoreFailed:
            raise unavailable() from None

    def _failed(self, failure: StoreFailed) -> None:
        engine, self._engine = self._engine, None
        self._end_beats()
        self.machines.end_life()
        self._morning.end_life()
        self._notices.end_life()
        self._state, self._detail = "failing", failure.detail
        if isinstance(failure, LifeEnded):
            self._logger.info("site_begins_again", detail=failure.detail)
        else:
            self._failures.tell(failure, self._moment().monotonic_ms)
        self.questions.fail(unavailable())
        self.visits.fail(unavailable())
        if isinstance(failure, Contradicted):
            self.alarms.tell(f"the site has stopped: {failure.detail}")
        if engine is not None:
            goes_on = not isinstance(failure, Contradicted)
            self._recovery = self._spawn(self._recover(engine, goes_on=goes_on))

    async def _recover(self, engine: SiteEngine, *, goes_on: bool) -> None:
        """Begin again from the store; after facts that contradict it, the operator has to look first."""
        await self.sessions.close(WSCloseCode.TRY_AGAIN_LATER, "the site's store has failed")
        await engine.close()
        if goes_on:
            await self._reopen()

    async def _reopen(self) -> None:
        """Open the store when it works, and no other process has it."""
        while not self._stopping:
            await asyncio.sleep(LOOK_EVERY_S if self._state == "standby" else REOPEN_EVERY_S)
            try:
                self._engine = await self._begin()
            except ServedElsewhere as served:
                self._stand_by(served)
            except KalendsError as error:
                if str(error) != self._detail:
                    self._logger.error("store_not_reopened", detail=str(error))
                self._state, self._detail = "failing", str(error)
            else:
                self._state, self._detail = "ok", ""
                return

    def _stand_by(self, served: ServedElsewhere) -> None:
        if self._state != "standby" or self._served_on != served.host:
            self._logger.info("standby", served_on=served.host)
        self._state, self._detail, self._served_on = "standby", served.detail, served.host

    def _provisioned(self, number: int, answer: SystemAnswer) -> None:
        if self._engine is not None:
            self._engine.provisioned(number, answer)

    # Messages out

    def _deliver(self, sends: Sequence[Send]) -> None:
        """To a session, to a peer that waits for its answer, or to an address; else it is lost.

        What is for a register goes to all replicas of its broker: whoever looks after it answers.
        """
        link_of = self.sessions.link
        for to, message in sends:
            if to.startswith(REGISTER):
                self.sessions.push_to(to.removeprefix(REGISTER), message)
                continue
            link = link_of(to)
            if link is not None:
                link.push(message)
            elif to.startswith(SOURCE):
                self.questions.answer(to, message)
            elif to.startswith(VISIT_SOURCE):
                self.visits.answer(to, message)
            elif "://" in to and self._peers is not None:
                self._peers.ask(to, message)

    def _answered(self, url: str, answer: m.Message) -> None:
        """Take the answer of a broker or a peer at `url`."""
        engine = self._engine
        if engine is None:
            return
        with contextlib.suppress(Unavailable):
            engine.receive(url, (answer,))

    def _set_out(self, errands: Sequence[RunTask], relays: Sequence[Relay]) -> None:
        for errand in errands:
            self._spawn(self._run(errand))
        for relay in relays:
            self._spawn(self._relay(relay))

    async def _run(self, errand: RunTask) -> None:
        outcome = await self._scripts.run(errand)
        if self._engine is not None:
            self._engine.errand_done(errand.number, outcome)

    async def _relay(self, relay: Relay) -> None:
        report = await self._relays.visit(relay)
        if self._engine is not None:
            self._engine.relayed(relay.number, report)

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
