"""Sites and broker replicas: the shipped state machines with the rules of their shipped shells.

A site stores the facts of a step, and of all steps before, before a message of that step leaves. A
broker's results of the register are handed over after they are durable. A node may crash between any
two of these effects; then its memory is gone, and it starts again from what is stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from kalends.agents.runs import RunOutcome
from kalends.backends.records import SystemAnswer
from kalends.broker.coordination.coordinator import Coordinator
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.trust.credentials import Identity
from kalends.broker.jobs.parts.wing import JobParts
from kalends.broker.planning.directory import Directory
from kalends.broker.reconciliation.recognition import Live, Recognition, mark_for
from kalends.broker.reconciliation.reconciler import Reconciler
from kalends.broker.reconciliation.site_memory import Memories
from kalends.broker.register import lives, request_reads
from kalends.broker.replica.leases import BEAT_EVERY_S, CLOCK_AHEAD, Leases
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
from kalends.resource_servers.participation.effects import Send
from kalends.resource_servers.participation.outbox import REGISTER
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.registers import NO_BADGE
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from kalends.servers.restored_participant import guarded_by
from kalends.serving.clock_watch import ClockWatch
from tests.simulation.agents import DELAYS_MS, SCRIPT, SCRIPT_HASH, outcome_of
from tests.simulation.batch_systems import BatchSystem
from tests.simulation.clocks import NodeClock
from tests.simulation.disks import DiskFailed, SiteDisk
from tests.simulation.network import Session

if TYPE_CHECKING:
    from tests.simulation.world import World

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

    def _enter(self, life: int, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if not self.up or life != self.life:
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
        if not self.up:
            return
        self.up = False
        self.life += 1
        self.kernel.note(f"{self.name} is down")
        self.network.lose(self)
        self.sessions = {}
        self.forget()
        self.kernel.after(self.kernel.random.randrange(1, self.trouble.down_ms_max), self.start)

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
            visitors=partial(
                VisitingAgents, limits=AgentLimits(held_max=4, near=self.world.near[self.name])
            ),
            now=now,
        )
        self.participant.wing(ReclaimReminders).restore(loaded.reclaims, now)
        self.position = self.participant.position
        self.enter(self._carry_out)

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
            outcome = outcome_of(errand.job, self.kernel.random)
            self.kernel.note(f"{self.name} runs an agent of {errand.rid[-6:]}: {outcome.code}")
            delay_ms = self.kernel.random.choice(DELAYS_MS)
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
        effects = self.participant.take_effects()
        self.world.auditor.site_stepped(self, effects.alarms)
        if effects:
            self._queue.append((effects, self.participant.position))
        self.wake(self.participant.next_deadline_ms())
        self._set_out(effects)
        self._pump()

    def _pump(self) -> None:
        while not self._storing and self._queue:
            if not self._queue[0][0].facts:
                self._let_go(self._queue.pop(0)[0])
                continue
            batch, self._queue = self._queue, []
            self._storing = True
            if not self.persist_first:
                for effects, _ in batch:
                    self._let_go(effects)
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
            self.point("before a site asks its batch system")
            assert self.system is not None
            answered = partial(self.enter_life, self.life, self._provisioned, provision.number)
            self.system.ask(self, provision.errand, answered)

    def enter_life(self, life: int, action: Callable[..., None], *arguments: Any) -> None:
        """As `enter`, of one life only."""
        self._enter(life, action, arguments)

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
            self.world.auditor.sent(self, to, message)
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
        connection = self.register.connection
        connection.execute("begin immediate")
        lives.retire(connection, self.name, self.owner)
        self._life = sha256(self.owner.encode()).hexdigest()[:32]
        self._position = 0
        lives.live(connection, Live(self._life, 0))
        connection.execute("commit")
        bound = lives.clock_bound(connection)
        self._leases = Leases()
        self._leases.look(lives.beats(connection), self.now().monotonic_ms)
        self.recognition = Recognition(
            lives.secret(connection),
            {site.name for site in self.world.sites},
            lambda life: lives.position_of(connection, life),
            put_back=False,
            monotonic_ms=self.now().monotonic_ms,
        )
        self.logical = LogicalClock.resumed(bound, self.now().wall_ms)
        self._bound = 0
        directory = Directory({site.name: site.url for site in self.world.sites})
        coords = tuple(f"sim://{name}" for name in self.world.broker_names)
        self.coordinator = self.world.make_coordinator(
            Identity(self.name, self.owner, coords, lives.secret(connection)),
            directory,
            self.logical,
            new_rid=lambda now: request_id(now.wall_ms, self.kernel.random.getrandbits(74)),
            jitter=self.kernel.random.random,
            owner_alive=self._leases.alive,
            scripts={SCRIPT_HASH: SCRIPT}.get,
            certain=lambda: self.recognition.is_certain(self.now().monotonic_ms),
            wings=(JobParts,),
        )
        self.memories = Memories()
        self.reconciler = Reconciler(
            lambda *page: request_reads.between(connection, *page),
            {site.name: site.url for site in self.world.sites},
            coords,
            lambda: lives.secret(connection),
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
        connection = self.register.connection
        secret = proofs.site_key(lives.secret(connection), site)
        stored = lives.memory_of(connection, site)
        return m.Welcome(
            register=lives.identity(connection),
            secret=secret,
            remembered=self.memories.of(site, stored),
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
        now = self.now()
        # A late datagram of a session that is over says nothing of the site as it is now.
        current = self.sessions.get(frame.source) is session
        for message in frame.messages:
            if isinstance(message, m.Known):
                # No image of the register is ever put back here.
                assert self.recognition.hear(frame.source, message.marks), message.marks
                if current and message.forgotten:
                    self.coordinator.site_forgot(frame.source, now)
                if current and (message.behind or message.forgotten):
                    self.reconciler.begin(frame.source, again=True)
            elif isinstance(message, m.Compared | m.Relocked):
                self.reconciler.receive(frame.source, message, now.wall_ms)
            else:
                self.coordinator.receive(frame.source, message, now)
        if current and frame.mark is not None:
            self.memories.at(frame.source, frame.mark)
        self._carry_out()

    def asked(self, token: str, message: m.Message) -> None:
        if isinstance(message, m.Inquire):
            self.coordinator.receive(token, message, self.now())
            self._carry_out()

    # Clients

    def call(self, call: Call) -> None:
        """Serve one call of a client, as the HTTP shell does."""
        connection = self.register.connection
        now = self.now()
        ticket = next(self._ticket_numbers)
        self._tickets[ticket] = call
        try:
            view = self._serve(call, ticket, now, connection)
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

    def _serve(self, call: Call, ticket: int, now: Any, connection: Any) -> RequestView | None:
        coordinator = self.coordinator
        if call.kind == "submit":
            assert call.spec is not None
            known = request_reads.by_key(connection, call.user, call.key)
            if known is not None:
                coordinator.table.notice(known)
                if coordinator.calls.join(known.rid, ticket):
                    return None
                return self.world.view_of(known)
            replaced = None
            if call.replaces:
                replaced = request_reads.read(connection, call.replaces)
                if replaced is None or replaced.state != "commit":
                    return self.world.not_changeable(replaced)
            coordinator.calls.submit(
                Principal(call.user, call.groups), call.key, call.key, call.spec, ticket, now,
                replaces=replaced,
            )  # fmt: skip
            return None
        record = request_reads.read(connection, call.rid)
        if record is None or call.kind == "show":
            return self.world.view_of(record)
        if call.kind == "lock":
            coordinator.calls.lock(record, ticket, now)
        elif call.kind == "release":
            coordinator.calls.release(record, ticket, now)
        else:
            coordinator.calls.cancel(record, ticket, now)
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
        now = self.now()
        self._store_beat(now.wall_ms)
        certain = self.recognition.is_certain(now.monotonic_ms)
        for record in self._left_behind(now) if certain else ():
            assert isinstance(record, r.Record)
            self.kernel.note(f"{self.name} adopts {record.rid[-6:]} of {record.owner}")
            self.coordinator.attempts.take_over(record, now)
        self.reconciler.beat()
        self._carry_out()
        self.later(HEARTBEAT_MS, self._beat)

    def _left_behind(self, now: Any) -> list[Any]:
        """What nobody works on: of others, and of this replica."""
        connection = self.register.connection
        mine = request_reads.unattended(connection, self.owner, self.coordinator.cases, ADOPT_MAX)
        self.world.auditor.found_unattended(
            self, [each for each in mine if isinstance(each, r.Record)]
        )
        self._leases.look(lives.beats(connection), now.monotonic_ms)
        alive = (self.owner, *self._leases.all_alive())
        left = request_reads.orphans(connection, alive, ADOPT_MAX)
        self.world.auditor.takes_over(self, [each for each in left if isinstance(each, r.Record)])
        return [*left, *mine]

    def _store_beat(self, wall_ms: int) -> None:
        self._bound = max(self.logical.value, wall_ms) + CLOCK_AHEAD
        connection = self.register.connection
        connection.execute("begin immediate")
        lives.beat(connection, self.owner, self._bound)
        for memory in self.memories.to_store():
            lives.remember(connection, memory)
        connection.execute("commit")

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
            secret = lives.secret(self.register.connection)
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
            self.memories.to_store() if _commits(batch) else (),
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


def _commits(batch: list[r.Operation]) -> bool:
    return any(isinstance(op, r.Commit) for op in batch)


def _shown_fact(fact: Any) -> str:
    return f"{type(fact).__name__}({getattr(fact, 'rid', '')[-6:]},{getattr(fact, 'event', '')})"
