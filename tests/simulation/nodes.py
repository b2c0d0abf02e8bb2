"""Sites and broker replicas: the shipped state machines with the rules of their shipped shells.

A site stores the facts of a step, and of all steps before, before a message of that step leaves. A
broker's results of the register are handed over after they are durable. A node may crash between any
two of these effects; then its memory is gone, and it starts again from what is stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from msgspec import structs

from kalends.agents.runs import RunOutcome
from kalends.backends.records import SystemAnswer
from kalends.batch.queue.accounts import Liens
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.coordination.user_calls import NO_TICKET
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.planning.directory import Directory
from kalends.broker.reconciliation.recognition import Live, Recognition, mark_for
from kalends.broker.reconciliation.reconciler import ROWS_MAX, ComparedRows, Reconciler
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.register.contract import Outlook, WholeReservation, readable
from kalends.broker.register.sqlite.register_reads import RegisterReads
from kalends.broker.register.writes import LeaseRenewal, Retire
from kalends.broker.replica.leases import BEAT_EVERY_S, CLOCK_AHEAD, Leases
from kalends.broker.series.joint_commits import JointCommits
from kalends.broker.series.occurrence_changes import anchor_of, key_of
from kalends.broker.series.series_ids import member, series_of
from kalends.calendars import ResourceCalendar
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.calls import RequestView
from kalends.core.clock import LogicalClock
from kalends.core.errors import NotAllowed
from kalends.core.identifiers import request_id
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.resource_servers.participation.effects import ParticipantEffects as SiteEffects
from kalends.resource_servers.participation.effects import Provision, Send
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.registers import NO_BADGE
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from kalends.servers.restored_participant import guarded_by
from kalends.serving.clock_watch import ClockWatch
from tests.simulation.agents import DELAYS_MS, SCRIPT, outcome_of
from tests.simulation.batch_systems import BatchSystem
from tests.simulation.clocks import NodeClock
from tests.simulation.disks import DiskFailed, SiteDisk, life_of
from tests.simulation.network import Session
from tests.support.at_once import at_once

if TYPE_CHECKING:
    from tests.simulation.world import World

T = TypeVar("T")

HEARTBEAT_MS: Final = int(BEAT_EVERY_S * 1_000)
ADOPT_MAX: Final = 100


class Crashed(Exception):
    """Power is lost in the middle of a step."""


@dataclass
class Trouble:
    """How likely each fault of a node is, at each chance for it."""

    crash: float = 0.0
    torn: float = 0.0
    full: float = 0.0
    sync: float = 0.0
    commit_ms_max: int = 20
    down_ms_max: int = 20_000


class Node:
    """What sites and brokers share: lives, pauses, crashes."""

    logical: LogicalClock

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.kernel = world.kernel
        self.network = world.network
        self.name = name
        self.url = f"sim://{name}"
        self.clock = NodeClock(world.kernel)
        self.trouble = Trouble()
        self.up = False
        self.life = 0
        self.paused_until_ms = 0
        self.sessions: dict[str, Session] = {}
        self._waking_ms: int | None = None
        world.network.nodes[name] = self

    def enter(self, action: Callable[..., None], *arguments: Any) -> None:
        """Run an event of this node, if it is up (and not paused: then later)."""
        self._enter(self.life, action, arguments)

    def later(self, delay_ms: int, action: Callable[..., None], *arguments: Any) -> None:
        """As `enter`, in `delay_ms`, unless this life is over then."""
        self.kernel.after(delay_ms, self._enter, self.life, action, arguments)

    def enter_life(self, life: int, action: Callable[..., None], *arguments: Any) -> None:
        """As `enter`, of one life only."""
        self._enter(life, action, arguments)

    @property
    def runs(self) -> bool:
        """Whether there is a process whose events are run."""
        return self.up

    @property
    def in_place(self) -> bool:
        """Whether it is up, or rightly waits for its turn."""
        return self.up

    def _enter(self, life: int, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if not self.runs or life != self.life:
            return
        if self.paused_until_ms > self.kernel.now_ms:
            # No longer than this at once: a pause may be healed before its time.
            wait_ms = min(self.paused_until_ms - self.kernel.now_ms, 1_000)
            self.kernel.after(wait_ms, self._enter, life, action, arguments)
            return
        try:
            action(*arguments)
        except (Crashed, DiskFailed):
            self.crash()

    def point(self, kind: str) -> None:
        """A place where power may be lost: raises `Crashed`."""
        self.world.points += 1
        if self.world.crash_at == self.world.points or self.kernel.chance(self.trouble.crash):
            self.kernel.fault(f"crash {kind}", self.name)
            raise Crashed

    def crash(self) -> None:
        """Memory is gone; start again after a while."""
        if self.up:
            self.end_life()
            self.kernel.after(self.kernel.random.randrange(1, self.trouble.down_ms_max), self.start)

    def end_life(self) -> None:
        self.up = False
        self.life += 1
        self.kernel.note(f"{self.name} is down")
        self.network.lose(self)
        self.sessions = {}
        self.forget()

    def start(self) -> None:
        if self.up:
            return
        self.up = True
        self.paused_until_ms = 0
        self.clock.boot()
        self.watch = ClockWatch(self.clock.moment, lambda doubt: None)
        self._waking_ms = None
        self.kernel.note(f"{self.name} is up")
        self.boot()

    def wake(self, deadline_ms: int | None) -> None:
        """Call `advance` when the monotonic clock shows `deadline_ms`."""
        if deadline_ms is None or (self._waking_ms is not None and self._waking_ms <= deadline_ms):
            return
        self._waking_ms = deadline_ms
        self.later(self.clock.until(deadline_ms), self._woken, deadline_ms)

    def _woken(self, deadline_ms: int) -> None:
        if self._waking_ms == deadline_ms:
            self._waking_ms = None
            self.advance()

    def now(self) -> Moment:
        """The time that this node goes by: brokers follow their clocks."""
        return self.clock.moment()

    def boot(self) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        raise NotImplementedError

    def advance(self) -> None:
        raise NotImplementedError

    def asked(self, token: str, message: m.Message) -> None:
        raise NotImplementedError

    def answered(self, url: str, message: m.Message) -> None:
        raise NotImplementedError

    def session_lost(self, session: Session) -> None:
        raise NotImplementedError


class SiteNode(Node):
    """`calendars` makes the site's calendars anew: empty, with the owner's rules."""

    participant: Participant
    persist_first = True
    """False only in a broken site: its messages leave before its facts are stored."""
    run_ends = staticmethod(outcome_of)
    delays_ms: Sequence[int] = DELAYS_MS

    def __init__(
        self, world: World, name: str, calendars: Callable[[], dict[str, ResourceCalendar]]
    ) -> None:
        super().__init__(world, name)
        self._calendars = calendars
        self.disk = SiteDisk(world.kernel, world.auditor, name, files=world.files)
        self._queue: list[tuple[SiteEffects, int]] = []
        """Steps, each with the position of the site when all its facts are durable."""
        self._storing = False
        self._relays: dict[tuple[str, str, int], int] = {}
        self.system: BatchSystem | None = None
        """The batch system behind ``SITE/n``, in worlds that have some."""

    def boot(self) -> None:
        loaded, epoch = self.disk.open()
        self.world.auditor.site_opened(self, loaded, epoch)
        now = self.now()
        self.logical = LogicalClock(now.wall_ms)
        self.participant = self.world.make_participant(
            self.name,
            self._calendars(),
            epoch=epoch,
            jitter=self.kernel.random.random,
            stakes=loaded.stakes,
            forgotten=loaded.forgotten,
            registers=loaded.registers,
            horizon_s=loaded.horizon_s,
            passed=loaded.passed,
            past=loaded.past,
            recovering=loaded.recovering,
            guard=guarded_by(
                {f"{self.name}/n": self.system.backend()} if self.system else {},
                loaded.grants,
                loaded.slots,
                self.world.make_guard,
            ),
            payments=partial(
                self.world.make_payments,
                accounts=self.world.accounts,
                entries=loaded.credits,
                of_jobs=self.liens(),
            ),
            visitors=partial(
                VisitingAgents, limits=AgentLimits(held_max=4, near=self.world.near[self.name])
            ),
            now=now,
        )
        self.participant.wing(ReclaimReminders).restore(loaded.reclaims, now)
        self.position = self.participant.position
        self.enter(self._carry_out)

    def liens(self) -> Sequence[Liens]:
        """What jobs have reserved, as it is now whenever it is read: these sites run none."""
        return ()

    def forget(self) -> None:
        self._queue = []
        self._storing = False
        self._relays = {}

    def now(self) -> Moment:
        """A jump of the clock that nobody confirms is not followed."""
        return self.watch.now()

    def accept(self, session: Session) -> None:
        broker = session.broker
        try:
            self.participant.welcome(session.name, session.welcome, broker.badge, broker.name)
        except NotAllowed:
            self.network.break_session(session)
            return
        self.sessions[session.name] = session
        self._carry_out()
        self._hear_clock(session.name, session.broker.watch.wall_ms())
        self._send_frame(session, [self.participant.hello()])
        self.participant.meet(session.name, session.welcome, self.now())
        self.participant.wing(ReclaimReminders).remind_all(self.now())
        self._carry_out()

    def session_lost(self, session: Session) -> None:
        self.sessions.pop(session.name, None)
        self.watch.lost(session.name)

    def _hear_clock(self, source: str, wall_ms: int) -> None:
        self.watch.heard(source, wall_ms)
        self.participant.retention.heard_clock(source, wall_ms, self.now())

    def receive(self, session: Session, frame: m.FrameToSite) -> None:
        self.logical.merge(frame.lc, self.now().wall_ms)
        self._hear_clock(session.name, frame.wall_ms)
        source = session.name
        if frame.mark is not None:
            self.participant.registers.mark(source, frame.mark)
        for message in frame.messages:
            self.participant.receive(source, message, self.now())
        self._carry_out()

    def asked(self, token: str, message: m.Message) -> None:
        """As the routes for peers and near sites: each passes a visit on in its own name only."""
        passed_on = isinstance(message, m.Dispatch) and message.way == self.network.asker(token)
        if passed_on or isinstance(message, m.PeerAsk):
            self.participant.receive(token, message, self.now())
            self._carry_out()

    def answered(self, url: str, message: m.Message) -> None:
        if isinstance(message, m.Report | m.Stale):
            self._relayed(url, message)
            return
        self.participant.receive(url, message, self.now())
        self._carry_out()

    # Agents

    def _set_out(self, effects: SiteEffects) -> None:
        """Runs and visits passed on wait for nothing to be stored; a crash loses them."""
        for errand in effects.errands:
            self.point("before a site sends an agent")
            outcome = self.run_ends(errand.job, self.kernel.random)
            self.kernel.note(f"{self.name} runs an agent of {errand.rid[-6:]}: {outcome.code}")
            delay_ms = self.kernel.random.choice(self.delays_ms)
            self.later(delay_ms, self._errand_done, errand.number, outcome)
        for relay in effects.relays:
            self.point("before a site sends an agent")
            dispatch = relay.dispatch
            self._relays[relay.site, dispatch.rid, dispatch.att] = relay.number
            self.network.post(self, f"sim://{relay.site}", dispatch)

    def _errand_done(self, number: int, outcome: RunOutcome) -> None:
        self.participant.wing(VisitingAgents).runs.errand_done(number, outcome, self.now())
        self._carry_out()

    def _relayed(self, url: str, answer: m.Report | m.Stale) -> None:
        """What a near site says of itself; one that calls the visit stale has no report."""
        site = url.partition("//")[2]
        number = self._relays.pop((site, answer.rid, answer.att), None)
        if number is None:
            return
        reports = answer.sites if isinstance(answer, m.Report) else ()
        report = next((each for each in reports if each.site == site), None)
        self.participant.wing(VisitingAgents).runs.relayed(number, report, self.now())
        self._carry_out()

    def advance(self) -> None:
        self.participant.advance(self.now())
        self._carry_out()

    @property
    def idle(self) -> bool:
        return not self._queue and not self._storing

    def _carry_out(self) -> None:
        self.carry_out(self.participant.take_effects())

    def carry_out(self, effects: SiteEffects) -> None:
        """Do what follows from a step, once its facts are stored."""
        self.stepped(effects)
        if effects:
            self._queue.append((effects, self.participant.position))
        self.wake(self.participant.next_deadline_ms())
        self._set_out(effects)
        self._pump()

    def stepped(self, effects: SiteEffects) -> None:
        self.world.auditor.site_stepped(self, effects.alarms)

    def waits(self, effects: SiteEffects) -> bool:
        """Whether they leave when a batch is stored that begins after them."""
        return bool(effects.facts)

    def _pump(self) -> None:
        while not self._storing and self._queue:
            if not self.waits(self._queue[0][0]):
                self._let_go(self._queue.pop(0)[0])
                continue
            batch, self._queue = self._queue, []
            self._storing = True
            if not self.persist_first:
                for effects, _ in batch:
                    self._let_go(effects)
            self.hand_in(batch)

    def hand_in(self, batch: list[tuple[SiteEffects, int]]) -> None:
        delay_ms = self.kernel.random.randrange(1, self.trouble.commit_ms_max)
        self.later(delay_ms, self._store, batch)

    def _store(self, batch: list[tuple[SiteEffects, int]]) -> None:
        facts = [fact for effects, _ in batch for fact in effects.facts]
        wall_ms = self.now().wall_ms
        self.point("before a site stores")
        if self.kernel.chance(self.trouble.torn):
            self.world.auditor.tearing(self.name, facts)
            self.disk.tear(facts, wall_ms)
            raise Crashed
        self.kernel.note(f"{self.name} stores {' '.join(map(_shown_fact, facts))}")
        self.disk.store(facts, wall_ms, full=self.trouble.full, sync=self.trouble.sync)
        self.world.auditor.site_is_at(self.name, batch[-1][1], self.disk.position)
        self._stored(batch)

    def _stored(self, batch: list[tuple[SiteEffects, int]]) -> None:
        self.point("after a site stored")
        self._storing = False
        self.position = batch[-1][1]
        if self.persist_first:
            for effects, _ in batch:
                self._let_go(effects)
        self._pump()

    def _let_go(self, effects: SiteEffects) -> None:
        self._send_all(effects.sends)
        for provision in effects.provisions:
            self.command(provision)

    def command(self, provision: Provision) -> None:
        self.point("before a site asks its batch system")
        assert self.system is not None
        answered = partial(self.enter_life, self.life, self._provisioned, provision.number)
        self.system.ask(self, provision.errand, answered)

    def _provisioned(self, number: int, answer: SystemAnswer) -> None:
        self.participant.wing(Provisions).answered(number, answer, self.now())
        self._carry_out()

    def _send_all(self, sends: Sequence[Send]) -> None:
        """Neighbours to the same end share a frame, now and then."""
        for to, group in itertools.groupby(sends, key=lambda send: send.to):
            messages = [send.message for send in group]
            if self.kernel.random.random() < 0.5:
                self._send_to(to, messages)
            else:
                for message in messages:
                    self._send_to(to, [message])

    def _send_to(self, to: str, messages: list[Any]) -> None:
        self.point("before a site sends")
        for message in messages:
            self.says(to, message)
        if to.startswith("sim://"):
            for message in messages:
                self.network.post(self, to, message)
        elif to.startswith("call:"):
            for message in messages:
                self.network.reply(to, message)
        elif to.startswith(REGISTER):
            for session in list(self.sessions.values()):
                if to.removeprefix(REGISTER) in ("", session.welcome.register):
                    self._send_frame(session, messages)
        elif to in self.sessions:
            self._send_frame(self.sessions[to], messages)
        else:
            self._send_again(to, messages)

    def says(self, to: str, message: m.Message) -> None:
        self.world.auditor.sent(self, to, message)

    def _send_again(self, to: str, messages: list[Any]) -> None:
        """The session is gone; a broker that has come back has another, by which it answers to."""
        broker = to.partition("~")[0]
        for session in self.sessions.values():
            if session.broker.name == broker:
                self._send_frame(session, messages)
                return

    def _send_frame(self, session: Session, messages: list[Any]) -> None:
        lc = self.logical.value
        mark = self.participant.past.mark(session.welcome.register, self.position)
        if isinstance(messages[0], m.Hello):
            mark = None  # Nobody has been welcomed yet.
        frame = m.FrameToBroker(
            v=2,
            source=self.name,
            lc=lc,
            messages=messages,
            wall_ms=self.watch.wall_ms(),
            mark=mark,
        )
        self.network.send(session, frame)


class Change(NamedTuple):
    """All occurrences of a series of so many from `since` on: `later_s` later, and `longer_s` longer."""

    occurrences: int
    since: str
    later_s: int
    longer_s: int
    together: bool

    def spec(self, record: r.Record, mark: r.SeriesChange) -> r.Spec:
        """Return what `record` is to be."""
        more_s = self.later_s + self.longer_s
        wants = tuple(
            m.Want(each.resource, each.start + self.later_s, each.end + more_s, each.units)
            for each in record.wants
        )
        start, end = wants[0].start, wants[0].end
        request = structs.replace(
            record.spec.request, not_before=start, not_after=end, duration_s=end - start
        )
        return r.Spec(
            request=request, wants=wants, change=mark, series=record.spec.series, patience="none"
        )


@dataclass
class Call:
    """What a client wants of a broker; `reply` takes a view or an error."""

    kind: str
    user: str
    key: str = ""
    rid: str = ""
    spec: r.Spec | None = None
    replaces: str = ""
    groups: tuple[str, ...] = ()
    number: int = 0
    series: tuple[r.Spec, ...] = ()
    """In place of `spec`: those of all occurrences, which are to be booked together."""
    heir: str = ""
    """To whom a reservation is offered, or no longer."""
    change: Change | None = None
    """What becomes of the occurrences of the series `rid`."""
    reply: Callable[[Any], None] = field(default=lambda answer: None)


class BrokerNode(Node):
    """A replica; all replicas share the register of the world."""

    coordinator: Coordinator
    badge = NO_BADGE
    """By which key it comes to sites."""
    decide_first = True
    """False only in a broken broker: it believes results before they are durable."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self.register = world.register
        self._starts = 0
        self._life = ""
        self._position = 0
        """As many transactions of this life are durable."""
        self._operations: list[r.Operation] = []
        self._writing = False
        self._tickets: dict[int, Call] = {}
        self._ticket_numbers = itertools.count(1)

    def boot(self) -> None:
        self._starts += 1
        self.owner = f"{self.name}:{self._starts}"
        self._life = life_of(self.owner)
        self.register.write((Retire(self.name, self.owner), Live(self._life, 0)))
        outlook = at_once(self.register.reads.look())
        self.logical = LogicalClock.resumed(outlook.clock_bound, self.now().wall_ms)
        self._bound = 0
        self.begin(outlook, self.now().monotonic_ms)

    def begin(self, outlook: Outlook, asked_ms: int) -> None:
        """A life begins, of `owner`: the register knows it, and has been `asked_ms` how all looks."""
        reads = self.register.reads
        self._position = 0
        self._leases = Leases()
        self.look_at_leases(outlook, asked_ms)
        self.recognition = Recognition(
            reads.secret,
            {site.name for site in self.world.sites},
            put_back=False,
            promoted=self.register.promoted,
            monotonic_ms=self.now().monotonic_ms,
        )
        directory = Directory({site.name: site.url for site in self.world.sites})
        coords = tuple(broker.url for broker in self.world.brokers)
        self.coordinator = self.world.make_coordinator(
            Identity(self.owner.partition(":")[0], self.owner, coords, reads.secret),
            directory,
            self.logical,
            new_rid=lambda now: request_id(now.wall_ms, self.kernel.random.getrandbits(74)),
            jitter=self.kernel.random.random,
            owner_alive=self._leases.alive,
            certain=lambda: self.recognition.is_certain(self.now().monotonic_ms),
            wings=(JobParts, self.world.joint_commits),
        )
        self.memories = Memories()
        self.reconciler = Reconciler(
            {site.name: site.url for site in self.world.sites},
            coords,
            lambda: reads.secret,
        )
        self.enter(self._beat)
        for site in self.world.sites:
            self.later(self.kernel.random.randrange(200), self._connect, site)

    def forget(self) -> None:
        self._operations = []
        self._writing = False
        self._tickets = {}

    # Sites

    def _connect(self, site: SiteNode) -> None:
        if site.name not in self.sessions:
            self.network.connect(self, site)
        self.later(1_000 + self.kernel.random.randrange(1_000), self._connect, site)

    def welcome(self, site: str) -> m.Welcome:
        reads = self.register.reads
        return m.Welcome(
            register=reads.identity,
            secret=proofs.site_key(reads.secret, site),
            remembered=self.memories.of(site, at_once(reads.look()).marks.get(site)),
        )

    def session_lost(self, session: Session) -> None:
        if self.sessions.get(session.site.name) is session:
            del self.sessions[session.site.name]
            self.watch.lost(session.site.name)
            self.coordinator.site_lost(session.site.name, "the session broke")
            self.reconciler.lost(session.site.name)
            self._carry_out()

    def receive(self, session: Session, frame: m.FrameToBroker) -> None:
        self.logical.merge(frame.lc, self.now().wall_ms)
        self.watch.heard(session.site.name, frame.wall_ms)
        self._hear(session, frame, 0)

    def _hear(self, session: Session, frame: m.FrameToBroker, first: int) -> None:
        """Take the messages of `frame` from number `first` on; those before have been answered for."""
        now = self.now()
        # A late datagram of a session that is over says nothing of the site as it is now.
        current = self.sessions.get(frame.source) is session
        for number, message in enumerate(frame.messages[first:], first + 1):
            if isinstance(message, m.Known):
                lives = [mark.life for mark in message.marks]
                self.ask(
                    lambda reads, lives=lives: reads.look(lives),
                    partial(self._known, session, frame, number),
                )
                return
            if isinstance(message, m.Compared) and self.reconciler.awaits(frame.source, message):
                rids = [each.rid for each in message.kept]
                page = (message.after, message.until, rids, ROWS_MAX)
                self.ask(
                    lambda reads, page=page: reads.compared(*page),
                    partial(self._compared, session, frame, number),
                )
                return
            if isinstance(message, m.Relocked):
                self.reconciler.receive(frame.source, message, ComparedRows((), {}), now.wall_ms)
            elif not isinstance(message, m.Compared):
                self.coordinator.receive(frame.source, message, now)
        if current and frame.mark is not None:
            self.memories.at(frame.source, frame.mark)
        self._carry_out()
        self.heard(session)

    def _known(
        self, session: Session, frame: m.FrameToBroker, number: int, outlook: Outlook
    ) -> None:
        message = frame.messages[number - 1]
        assert isinstance(message, m.Known)
        # No image of the register is ever put back here.
        assert self.recognition.hear(frame.source, message.marks, outlook.lives), message.marks
        current = self.sessions.get(frame.source) is session
        if current and message.forgotten:
            self.coordinator.site_forgot(frame.source, self.now())
        if current and (message.behind or message.forgotten):
            self.reconciler.begin(frame.source, again=True)
        self._hear(session, frame, number)

    def _compared(
        self, session: Session, frame: m.FrameToBroker, number: int, rows: ComparedRows
    ) -> None:
        message = frame.messages[number - 1]
        assert isinstance(message, m.Compared)
        self.reconciler.receive(frame.source, message, rows, self.now().wall_ms)
        self._hear(session, frame, number)

    def heard(self, session: Session) -> None:
        """All of a frame of `session` has been taken."""

    def ask(
        self,
        question: Callable[[RegisterReads], Coroutine[Any, Any, T]],
        answered: Callable[[T], None],
    ) -> None:
        """Ask the register, which answers at once here."""
        answered(at_once(question(self.register.reads)))

    def asked(self, token: str, message: m.Message) -> None:
        if isinstance(message, m.Inquire):
            self.coordinator.receive(token, message, self.now())
            self._carry_out()

    # Clients

    def call(self, call: Call) -> None:
        """Serve one call of a client, as the HTTP shell does."""
        if call.kind in ("give", "withdraw"):
            self.network.carry(None, call.reply, self.world.hand_overs.offered(call))
        elif call.kind in ("submit", "series"):
            self.ask(
                lambda reads: reads.by_key(call.user, call.key), partial(self._submitted, call)
            )
        elif call.change is not None:
            rids = [member(call.rid, number + 1) for number in range(call.change.occurrences)]
            self.ask(
                lambda reads: _reservations(reads, rids),
                lambda tries: self._answer_by(call, partial(self.change_series, call, tries)),
            )
        else:
            self.ask(
                lambda reads: reads.reservation(call.rid),
                lambda found: self._answer_by(call, partial(self._command, call, found)),
            )

    def _submitted(self, call: Call, found: WholeReservation | None) -> None:
        if found is None and call.replaces:
            self.ask(
                lambda reads: reads.reservation(call.replaces),
                lambda old: self._answer_by(call, partial(self._change, call, old)),
            )
        else:
            self._answer_by(call, partial(self._submit, call, found))

    def _answer_by(self, call: Call, serve: Callable[[int, Moment], RequestView | None]) -> None:
        ticket = next(self._ticket_numbers)
        self._tickets[ticket] = call
        try:
            view = serve(ticket, self.now())
        except Exception as error:
            if not self.world.is_answer(error):
                raise
            del self._tickets[ticket]
            self._answer(call, error)
        else:
            if view is not None:
                del self._tickets[ticket]
                self._answer(call, view)
        self._carry_out()

    def _submit(
        self, call: Call, found: WholeReservation | None, ticket: int, now: Moment
    ) -> RequestView | None:
        if found is not None and (row := found.of_key(call.user, call.key)) is not None:
            known = readable(row)
            self.coordinator.table.notice(known)
            if self.coordinator.calls.join(known.rid, ticket):
                return None
            return cast(RequestView, self.world.view_of(known))
        if call.series:
            self.begin_series(call, ticket, now)
        else:
            self._begin(call, None, ticket, now)
        return None

    def begin_series(self, call: Call, ticket: int, now: Moment) -> None:
        """Begin all occurrences of a series; the first one's answer is that of the call."""
        id = series_of(request_id(now.wall_ms, self.kernel.random.getrandbits(74)))
        rids = [member(id, number) for number in range(1, len(call.series) + 1)]
        names = [str(spec.wants[0].start) for spec in call.series]
        keys = {
            rid: call.key if rid == rids[0] else f"{call.key}/{name}"
            for rid, name in zip(rids, names, strict=True)
        }
        part = r.SeriesPart(
            id=id, name="", rule="", zone="UTC", first="", together=True, count=len(rids)
        )
        specs = {
            rid: structs.replace(spec, series=structs.replace(part, name=name))
            for rid, spec, name in zip(rids, call.series, names, strict=True)
        }
        tickets = {rid: ticket if rid == rids[0] else NO_TICKET for rid in rids}
        self.coordinator.wing(JointCommits).begin(
            Principal(call.user, call.groups), keys, call.key, specs, tickets, now
        )

    def change_series(
        self, call: Call, tries: Sequence[WholeReservation], ticket: int, now: Moment
    ) -> RequestView | None:
        """Change what stands of a series, all or none, or each by itself; the answer is that of the first."""
        change, key = call.change, call.key
        assert change is not None
        due = [record for whole in tries if (record := due_in(call, whole, now)) is not None]
        changing = {whole.id for whole in tries if whole.changing}
        ready = [record for record in due if record.done and record.reservation not in changing]
        known = next((row for each in tries if (row := each.of_key(call.user, key))), None)
        if known is None and (not ready or (change.together and len(ready) < len(due))):
            return cast(RequestView, self.world.not_changeable(None))
        if known is None or not change.together:
            wholes = {whole.id: whole for whole in tries}
            names = [name_of_occurrence(record) for record in ready]
            anchor = anchor_of(tries, call.user, key) or next(iter(names), "")
            keys = [
                self.change_key(call, anchor, name, number) for number, name in enumerate(names)
            ]
            new = {
                request_id(now.wall_ms, self.kernel.random.getrandbits(74)): (key, record)
                for key, record in zip(keys, ready, strict=True)
                if wholes[record.reservation].of_key(call.user, key) is None
            }
            self._begin_changes(call, new, ticket, now)
        if known is None or self.coordinator.calls.join(known.rid, ticket):
            return None
        return cast(RequestView, self.world.view_of(readable(known)))

    def change_key(self, call: Call, anchor: str, name: str, number: int) -> str:
        """Return the key of the change of an occurrence, by its name; `number` counts those that are due."""
        return key_of(call.key, anchor, name)

    def _begin_changes(
        self, call: Call, new: Mapping[str, tuple[str, r.Record]], ticket: int, now: Moment
    ) -> None:
        change, principal = call.change, Principal(call.user, call.groups)
        assert change is not None
        id = request_id(now.wall_ms, self.kernel.random.getrandbits(74))
        mark = r.SeriesChange(
            id, call.key, call.key, change.later_s, len(new) if change.together else 0
        )
        specs = {rid: change.spec(record, mark) for rid, (_, record) in new.items()}
        tickets = {rid: ticket if key == call.key else NO_TICKET for rid, (key, _) in new.items()}
        if change.together:
            self.coordinator.wing(JointCommits).begin(
                principal, {rid: key for rid, (key, _) in new.items()}, call.key, specs, tickets, now,
                {rid: record for rid, (_, record) in new.items()},
            )  # fmt: skip
            return
        for rid, (key, record) in new.items():
            self.coordinator.calls.submit(
                principal, key, call.key, specs[rid], tickets[rid], now, rid=rid, replaces=record
            )

    def _change(
        self, call: Call, found: WholeReservation | None, ticket: int, now: Moment
    ) -> RequestView | None:
        replaced = _record(found, call.replaces)
        if replaced is None or replaced.state != "commit":
            return cast(RequestView, self.world.not_changeable(replaced))
        self._begin(call, replaced, ticket, now)
        return None

    def _begin(self, call: Call, replaced: r.Record | None, ticket: int, now: Moment) -> None:
        assert call.spec is not None
        self.coordinator.calls.submit(
            Principal(call.user, call.groups), call.key, call.key, call.spec, ticket, now,
            replaces=replaced, source=SCRIPT if call.spec.script else "",
        )  # fmt: skip

    def _command(
        self, call: Call, found: WholeReservation | None, ticket: int, now: Moment
    ) -> RequestView | None:
        record = _record(found, call.rid)
        if record is None or call.kind == "show":
            return cast(RequestView, self.world.view_of(record))
        calls = self.coordinator.calls
        if call.kind == "lock":
            calls.lock(record, ticket, now)
        elif call.kind == "release":
            calls.release(record, ticket, now)
        else:
            calls.cancel(record, ticket, now)
        return None

    def _answer(self, call: Call, answer: Any) -> None:
        self.point("before a broker answers")
        self.world.auditor.told(self, call, answer)
        self.network.carry(None, call.reply, answer)

    # Time

    def advance(self) -> None:
        self.coordinator.advance(self.now())
        self._carry_out()

    def _beat(self) -> None:
        self.renew(self._renewed)

    def renew(self, renewed: Callable[[], None]) -> None:
        """Renew the lease; what follows it comes when that is durable."""
        self._store_beat(self.now().wall_ms)
        renewed()

    def _renewed(self) -> None:
        asked_ms = self.now().monotonic_ms
        if self.recognition.has_listened(asked_ms):
            self.ask(lambda reads: reads.look(), partial(self._looked, asked_ms))
        else:
            self._beaten()

    def _looked(self, asked_ms: int, outlook: Outlook) -> None:
        self.look_at_leases(outlook, asked_ms)
        alive, attended = self._leases.all_alive(), [*self.coordinator.cases]
        self.ask(
            lambda reads: reads.left_behind(self.owner, alive, attended, ADOPT_MAX),
            self._take_over,
        )

    def _take_over(self, found: Sequence[Any]) -> None:
        now = self.now()
        for record in self.left_behind(found):
            assert isinstance(record, r.Record)
            self.kernel.note(f"{self.name} adopts {record.rid[-6:]} of {record.owner}")
            self.coordinator.attempts.take_over(record, now)
        self._beaten()

    def left_behind(self, found: Sequence[Any]) -> list[Any]:
        """What nobody works on: of others, and of this replica."""
        records = [each for each in found if isinstance(each, r.Record)]
        mine = [each for each in records if each.owner == self.owner]
        self.world.auditor.found_unattended(self, mine)
        self.world.auditor.takes_over(self, [each for each in records if each not in mine])
        return [*found]

    def _beaten(self) -> None:
        self.reconciler.beat()
        self._carry_out()
        self.later(HEARTBEAT_MS, self._beat)

    def look_at_leases(self, outlook: Outlook, asked_ms: int) -> None:
        self._leases.look(outlook.beats, asked_ms, self.now().monotonic_ms)

    def _store_beat(self, wall_ms: int) -> None:
        self.register.write([self.lease(wall_ms), *self.memories.to_store()])

    def lease(self, wall_ms: int) -> LeaseRenewal:
        self._bound = max(self.logical.value, wall_ms) + CLOCK_AHEAD
        return LeaseRenewal(self.owner, self._bound)

    # Effects

    @property
    def idle(self) -> bool:
        return not self._operations and not self._writing

    def _carry_out(self) -> None:
        if self.logical.value >= self._bound:
            self._store_beat(self.now().wall_ms)
        effects = self.coordinator.take_effects()
        self.world.auditor.broker_stepped(self, effects.alarms)
        sends, mending = self.reconciler.take()
        self._operations += [*effects.operations, *mending]
        for site, message in sends:
            self._send_to(site, [message])
        for to, group in itertools.groupby(effects.sends, key=lambda send: send.to):
            messages: list[Any] = [send.message for send in group]
            self._send_to(to, messages)
        for answer in effects.answers:
            call = self._tickets.pop(answer.ticket, None)
            if call is not None:
                self._answer(call, answer.view)
        self.wake(self.coordinator.next_deadline_ms())
        self._pump()

    def _send_to(self, to: str, messages: list[Any]) -> None:
        self.point("before a broker sends")
        for message in messages:
            self.world.auditor.sent(self, to, message)
        if to.startswith("call:"):
            for message in messages:
                self.network.reply(to, message)
        elif to in self.sessions:
            lc = self.logical.value
            secret = self.register.reads.secret
            frame = m.FrameToSite(
                v=2,
                source=self.name,
                lc=lc,
                messages=messages,
                wall_ms=self.watch.wall_ms(),
                mark=mark_for(secret, to, self._life, self._position),
            )
            self.network.send(self.sessions[to], frame)

    def _pump(self) -> None:
        if self._writing or not self._operations:
            return
        batch, self._operations = self._operations, []
        self._writing = True
        if not self.decide_first:
            foreseen = self.register.foresee(batch)
            for result in foreseen:
                self.coordinator.registered(result, self.now())
        delay_ms = self.kernel.random.randrange(1, self.trouble.commit_ms_max)
        self.later(delay_ms, self._write, batch)
        if not self.decide_first:
            self._carry_out()

    def _write(self, batch: list[r.Operation]) -> None:
        self.point("before the register stores")
        results = self.register.apply(
            batch,
            self.name,
            self.memories.to_store() if commits(batch) else (),
            Live(self._life, self._position + 1),
            full=self.trouble.full,
            sync=self.trouble.sync,
        )
        self.point("after the register stored")
        self._position += 1
        self._writing = False
        if self.decide_first:
            now = self.now()
            for result in results:
                self.coordinator.registered(result, now)
        self._carry_out()


async def _reservations(reads: RegisterReads, rids: Sequence[str]) -> list[WholeReservation]:
    return [found for rid in rids if (found := await reads.reservation(rid)) is not None]


def due_in(call: Call, whole: WholeReservation, now: Moment) -> r.Record | None:
    """Return what is reserved of an occurrence, if it is the caller's, has not begun, and is to change."""
    record = whole.current
    if not isinstance(record, r.Record) or (record.user, record.state) != (call.user, "commit"):
        return None
    begins = min(want.start for want in record.wants)
    assert call.change is not None
    due = begins > now.wall_s and name_of_occurrence(record) >= call.change.since
    return record if due else None


def name_of_occurrence(record: r.Record) -> str:
    return record.spec.series.name if record.spec.series is not None else ""


def _record(found: WholeReservation | None, rid: str) -> r.Record | None:
    row = found.row(rid) if found is not None else None
    return readable(row) if row is not None else None


def commits(batch: Sequence[r.Operation]) -> bool:
    return any(isinstance(op, r.Commit | r.CommitSeries) for op in batch)


def _shown_fact(fact: Any) -> str:
    return f"{type(fact).__name__}({getattr(fact, 'rid', '')[-6:]},{getattr(fact, 'event', '')})"
