"""The site as a server: its life from start to stop, its sessions with brokers, its peers.

A site lives as long as its store works. When the store fails, what was not stored was not said, and
what was said is stored: so the site drops everything in memory, closes its sessions, and opens the
store again every second until that works, with a new epoch that tells brokers that holds are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final, Literal

from aiohttp import WSCloseCode, web

from kalends.backends.adapter import Adapter
from kalends.backends.records import SystemAnswer
from kalends.batch.job_notices import JobNotices, job_notifier
from kalends.batch.operations import JobOperations
from kalends.batch.terminal_sessions import TerminalSessions
from kalends.contract import calls
from kalends.contract import messages as m
from kalends.contract.paths import PEERS_PATH, SESSION_PATH, VISITS_PATH
from kalends.contract.terminal_frames import TERMINALS_PATH
from kalends.contract.versions import KNOWN, ServerVersion, own_version
from kalends.core.errors import KalendsError, Unavailable
from kalends.core.intervals import Moment
from kalends.notices.delivery_table import DeliveriesDone, stored_deliveries
from kalends.resource_servers.jobs.batch_desk import BatchDesk
from kalends.resource_servers.jobs.machines import SiteMachines
from kalends.resource_servers.jobs.usage_operations import UsageOperations
from kalends.resource_servers.journal.runs_store import RunsStore
from kalends.resource_servers.journal.site_store import SiteStore
from kalends.resource_servers.metrics import RunMeasures, SiteMeasures
from kalends.resource_servers.neighbours.broker_sessions import BrokerSessions
from kalends.resource_servers.neighbours.near_visits import SOURCE as VISIT_SOURCE
from kalends.resource_servers.neighbours.near_visits import NearVisits
from kalends.resource_servers.neighbours.peer_questions import SOURCE, PeerQuestions
from kalends.resource_servers.neighbours.peers import PeerCalls, peer_calls_of
from kalends.resource_servers.neighbours.relays import RelayCalls
from kalends.resource_servers.operations import SiteOperations
from kalends.resource_servers.participation.effects import Relay, RunTask, Send
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.script_runner import ScriptRunner
from kalends.resource_servers.service import SiteEngine, unavailable
from kalends.resource_servers.setup.assembly import calendars_of
from kalends.resource_servers.setup.configured_backends import adapters_of, backends_of, check_files
from kalends.resource_servers.setup.rules_change import rules_change
from kalends.resource_servers.store_failures import StoreFailures
from kalends.servers.restored_participant import restored_participant
from kalends.serving.alarms import Alarms
from kalends.serving.auth.authenticator import asks_for_certificates, authenticator_of
from kalends.serving.auth.callers import Authenticator
from kalends.serving.clock_watch import ClockWatch
from kalends.serving.clocks import moment
from kalends.serving.configuration import SiteConfiguration
from kalends.serving.http.application import build_application
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.reload import RULES, RulesChange
from kalends.serving.logs import Logger, get_logger
from kalends.serving.metrics import Metrics
from kalends.stores.sqlite.group_commit import StoreFailed

REOPEN_EVERY_S: Final = 1.0
STUCK_S: Final = 1.0
"""A write takes milliseconds: after this time health says that the store is stuck."""


def build_site(
    configuration: SiteConfiguration,
    *,
    version: str,
    features: frozenset[str] = KNOWN,
    moment: Callable[[], Moment] = moment,
    adapters: Mapping[str, Adapter] | None = None,
) -> web.Application:
    """The complete application of a site; it opens its store when it starts to serve.

    `adapters` stand for the batch systems of the same names, in place of those that are configured. With
    fewer `features` it behaves towards others like an older one.

    Raises `InvalidInput` for a configuration that cannot be. Starting raises what
    `SiteStore.open` raises, and `StoreDamaged` when the calendars cannot carry what was promised.
    """
    calendars_of(configuration)
    if adapters is None:
        check_files(configuration)
        adapters = adapters_of(configuration)
    backends_of(configuration, adapters)
    metrics = Metrics(role="site", name=configuration.name, version=version)
    logger = get_logger(role="site", name=configuration.name)
    speaks = own_version(version, features)
    site = SiteServer(configuration, speaks, moment, metrics, logger, adapters)
    application = build_application(
        role="site",
        name=configuration.name,
        version=speaks,
        handlers={
            **SiteOperations(site, moment).handlers(),
            **site.jobs.handlers(),
            **site.usage.handlers(),
        },
        authenticator=authenticator_of(configuration, site.alarms.report),
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
    return application


class SiteServer:
    """One site: `SiteEngine`s one after the other, and whoever is connected."""

    def __init__(
        self,
        configuration: SiteConfiguration,
        version: ServerVersion,
        moment: Callable[[], Moment],
        metrics: Metrics,
        logger: Logger,
        adapters: Mapping[str, Adapter],
    ) -> None:
        self.limits = ServingLimits(
            calls_per_s=configuration.limits.calls_per_s,
            calls_burst=configuration.limits.calls_burst,
        )
        self.alarms = Alarms(logger, lambda: self._measures.alarm())
        self._configuration, self._version = configuration, version
        self._watch = ClockWatch(moment, self.alarms.reporter("clock"))
        self._moment = moment = self._watch.now
        self._logger = logger
        self._engine: SiteEngine | None = None
        self._state: Literal["ok", "starting", "failing"] = "starting"
        self._detail = ""
        self._failures = StoreFailures(logger)
        self._stopping = False
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
        self._scripts = ScriptRunner(
            configuration, moment, RunMeasures(metrics), logger, self.alarms.tell
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
            configuration, self.engine, moment, logger, self.alarms.tell, self.alarms.report,
            JobNotices(self._notices),
        )  # fmt: skip
        self.jobs = JobOperations(self.machines)
        self.usage = UsageOperations(self.engine, self._backends, self.machines, self.jobs)
        self.terminals = TerminalSessions(self.jobs, self.limits, lambda: moment().wall_s)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, application: web.Application) -> None:
        configuration, version = self._configuration, self._version
        self._peers = peer_calls_of(configuration, version, self._answered, self._logger)
        try:
            await self._relays.start()
            await self._scripts.start()
            await self.machines.start()
            self._engine = await self._begin()
        except BaseException:
            await self._close_calls()
            raise
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
        await self._notices.close()
        if self._engine is not None:
            await self._engine.close()
            self._engine = None

    async def _close_calls(self) -> None:
        """Runs, and whatever was asked of others, end without an answer."""
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
        """Open the store and take over what it knows."""
        configuration = self._configuration
        store = await asyncio.to_thread(SiteStore.open, configuration.store, configuration.name)
        try:
            participant = await asyncio.to_thread(self._restore, store)
            queues = await asyncio.to_thread(self.machines.replayed, store, self._moment())
            self._watch.passed(max((queue.last_s for queue in queues.values()), default=0))
            deliveries = stored_deliveries(store.file.connection)
            await self.machines.end_forgotten()
        except BaseException:
            store.close()
            raise
        self._logger.info("store_opened", epoch=store.epoch, requests=len(participant.book.stakes))
        engine = SiteEngine(
            store,
            participant,
            moment=self._moment,
            deliver=self._deliver,
            set_out=self._set_out,
            provision=self._desk.carry,
            alarmed=self.alarms.tell,
            reported=self.alarms.report,
            failed=self._failed,
            observe=self._measures.committed,
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
        return engine

    def _restore(self, store: SiteStore) -> Participant:
        given = (self._configuration, self._backends, self.machines.hooks)
        participant = restored_participant(*given, store, self._moment())
        participant.left_alone = self._left_alone
        return participant

    def engine(self) -> SiteEngine:
        """The site as it runs now; raises `Unavailable` when its store does not work."""
        if self._engine is None or self._state != "ok":
            raise unavailable()
        return self._engine

    def health(self) -> calls.Health:
        status: Literal["ok", "starting", "draining", "failing"] = self._state
        detail = self._detail or self._watch.doubt or self._scripts.detail
        if status == "ok":
            engine = self.engine()
            closed = engine.participant.set_aside.refusal(0)
            if engine.participant.admission.draining or closed:
                status = "draining"
            if (stuck_s := engine.stuck_s) >= STUCK_S:
                status, detail = "failing", f"the store has not taken a write for {stuck_s:.1f} s"
            detail = detail or closed
        return calls.Health(
            status=status, role="site", name=self._configuration.name,
            version=self._version.number, detail=detail,
        )  # fmt: skip

    @property
    def records(self) -> RunsStore:
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

    def _failed(self, failure: StoreFailed) -> None:
        engine, self._engine = self._engine, None
        self.machines.end_life()
        self._notices.end_life()
        self._state, self._detail = "failing", failure.detail
        self._failures.tell(failure, self._moment().monotonic_ms)
        self.questions.fail(unavailable())
        self.visits.fail(unavailable())
        if engine is not None:
            self._spawn(self._recover(engine))

    async def _recover(self, engine: SiteEngine) -> None:
        await self.sessions.close(WSCloseCode.TRY_AGAIN_LATER, "the site's store has failed")
        await engine.close()
        while not self._stopping:
            await asyncio.sleep(REOPEN_EVERY_S)
            try:
                self._engine = await self._begin()
            except KalendsError as error:
                if str(error) != self._detail:
                    self._logger.error("store_not_reopened", detail=str(error))
                self._detail = str(error)
            else:
                self._state, self._detail = "ok", ""
                return

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

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
