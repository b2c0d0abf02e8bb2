"""The site's half of the commit protocol, as a pure state machine.

Messages and the passing of time go in, together with `now`; facts to store, messages to send and
alarms come out (`ParticipantEffects`; persist before send). A vote of yes is a promise: it ends only by the
register's outcome (Decide, Outcome), by proof of it (a higher attempt, a locked peer), or by so many
durable refusals of peers that a commit can never have happened. The rules of each state are in
`transitions`; what is booked where is `book`'s.

The machine is its parts, and the order in which they work: `HANDLERS` says which part takes a message,
`_listen` which parts have to know what another has done, `advance` who lets time pass, and `_settle` who gets
what a step has freed. Each part owns its record. Presumed abort (Mohan and Lindsay 1983) with numbered
attempts; holds that end after Ramamoorthi et al. 1997, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final

from kalends.agents.runs import RunOutcome
from kalends.backends.names import OwnNames
from kalends.backends.records import SystemAnswer
from kalends.calendars import ResourceCalendar
from kalends.contract import approval_calls, reclaim_calls
from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import (
    DEFAULT_LIMITS,
    Admission,
    ParticipantLimits,
)
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.approval.petitions import Petition
from kalends.resource_servers.participation.attempts import LiveAttempts
from kalends.resource_servers.participation.claim_handler import ClaimHandler
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeDropped,
    StakeStored,
)
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.earmarks import Earmarks
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.contention.planned_room import PlannedRoom
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.contention.wait_queue import WaitQueue
from kalends.resource_servers.participation.contention.waiting_list_offers import WaitingLists
from kalends.resource_servers.participation.contention.wound_wait import WoundWait
from kalends.resource_servers.participation.effects import ParticipantEffects
from kalends.resource_servers.participation.loss_reports import LossReports
from kalends.resource_servers.participation.memory.comparison import Comparison
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.memory.past import Past
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.memory.unreadable import SetAside
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.outcome_handler import OutcomeHandler
from kalends.resource_servers.participation.ownership import Ownership
from kalends.resource_servers.participation.placed_jobs.end_reports import EndReports
from kalends.resource_servers.participation.placed_jobs.job_bookings import JobBookings, QueueMove
from kalends.resource_servers.participation.placed_jobs.part_reports import PartReports
from kalends.resource_servers.participation.placed_jobs.place_returns import PlaceReturns
from kalends.resource_servers.participation.placed_jobs.places import Places
from kalends.resource_servers.participation.placed_jobs.start_questions import StartQuestions
from kalends.resource_servers.participation.provision.errands import Errands
from kalends.resource_servers.participation.provision.foreign_room import ForeignRoom
from kalends.resource_servers.participation.provision.grant_table import GrantTable
from kalends.resource_servers.participation.provision.grants import NodeGrant
from kalends.resource_servers.participation.provision.kept_room import KeptRoom
from kalends.resource_servers.participation.provision.mirror import Mirror
from kalends.resource_servers.participation.provision.provisions import Provisions
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.provision.slots import NO_SLOTS, KnownSlots
from kalends.resource_servers.participation.provision.systems import Systems
from kalends.resource_servers.participation.reclaims.owner_room import OwnerRoom
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.reclaims.reclaims import OutOfService
from kalends.resource_servers.participation.registers import (
    NO_BADGE,
    Badge,
    KnownRegister,
    Registers,
)
from kalends.resource_servers.participation.this_site import AnyAddress, FenceNumbers, ThisSite
from kalends.resource_servers.participation.views import Views
from kalends.resource_servers.participation.visits.agent_holds import AgentHolds
from kalends.resource_servers.participation.visits.agent_recalls import AgentRecalls
from kalends.resource_servers.participation.visits.agent_visits import (
    DEFAULT_AGENT_LIMITS,
    AgentLimits,
    AgentVisits,
)
from kalends.resource_servers.participation.visits.runs import RunTable
from kalends.resource_servers.participation.visits.visit_handler import VisitHandler

NOTHING_PASSED: Final = TimePassed()

RESTORED_HOLD_MS: Final = 120_000
"""What waits for its owner is held for so long after a start, until its broker renews it."""

Handler = Callable[["Participant", str, Any, Moment], None]


class Participant:
    """One site. Not thread-safe; `receive` and `advance` take effect at once in memory.

    `epoch` must be higher than at any earlier start of this site; `jitter` gives numbers in [0, 1).
    `stakes`, `forgotten`, `registers`, `horizon_s`, `passed`, `past`, `recovering`, `grants` and `slots`
    are what was stored. `backends` are the batch systems behind resources.
    The types of the parts are seams: tests put broken parts there.
    """

    numbers_type: ClassVar[type[FenceNumbers]] = FenceNumbers
    outbox_type: ClassVar[type[ParticipantOutbox]] = ParticipantOutbox
    claims_type: ClassVar[type[Claims]] = Claims
    retention_type: ClassVar[type[Retention]] = Retention
    outcomes_type: ClassVar[type[OutcomeHandler]] = OutcomeHandler
    in_doubt_type: ClassVar[type[InDoubtResolver]] = InDoubtResolver
    ownership_type: ClassVar[type[Ownership]] = Ownership
    room_type: ClassVar[type[FreeRoom]] = FreeRoom
    approval_type: ClassVar[type[OwnerApproval]] = OwnerApproval
    admission_type: ClassVar[type[Admission]] = Admission
    wound_wait_type: ClassVar[type[WoundWait]] = WoundWait
    lists_type: ClassVar[type[WaitingLists]] = WaitingLists
    agent_recalls_type: ClassVar[type[AgentRecalls]] = AgentRecalls
    agent_holds_type: ClassVar[type[AgentHolds]] = AgentHolds
    claim_handler_type: ClassVar[type[ClaimHandler]] = ClaimHandler
    places_type: ClassVar[type[Places]] = Places
    provisions_type: ClassVar[type[Provisions]] = Provisions
    mirror_type: ClassVar[type[Mirror]] = Mirror
    grants_type: ClassVar[type[GrantTable]] = GrantTable
    starts_type: ClassVar[type[StartQuestions]] = StartQuestions

    def __init__(
        self,
        site: str,
        calendars: Mapping[str, ResourceCalendar],
        *,
        epoch: int,
        jitter: Callable[[], float],
        limits: ParticipantLimits = DEFAULT_LIMITS,
        agents: AgentLimits = DEFAULT_AGENT_LIMITS,
        stakes: Iterable[Stake] = (),
        forgotten: Iterable[str] = (),
        registers: Iterable[KnownRegister] = (),
        horizon_s: int = 0,
        passed: TimePassed = NOTHING_PASSED,
        past: Past = Past(),  # noqa: B008  immutable
        recovering: bool = False,
        backends: Mapping[str, ResourceBackend] = MappingProxyType({}),
        grants: Iterable[NodeGrant] = (),
        slots: KnownSlots = NO_SLOTS,
        addresses: Container[str] = AnyAddress(),
        now: Moment,
    ) -> None:
        self.past = past
        self.position = past.position
        """As many facts about stakes have been given out, and will be durable."""
        self.set_aside = SetAside()
        self.left_alone: set[str] = set()
        """Requests that a step has broken at: with the next message it might break again."""
        self._near = agents.near

        here = self.here = ThisSite(site, epoch, addresses)
        then = Consequences()
        numbers = self.numbers_type(epoch)
        outbox = self.outbox = self.outbox_type()
        known = self.registers = Registers(registers)

        book = self.book = ClaimTable(calendars, numbers.new)
        provisions = self.provisions = self._provisions(backends, numbers)
        claims = self.claims = self.claims_type(book, outbox, then, provisions)
        held_ms = min(limits.hold_ms_max, RESTORED_HOLD_MS)
        book.restore(stakes, now.wall_s, now.monotonic_ms + held_ms)
        provisions.restore(grants, now, slots)
        self.retention = self.retention_type(
            here, book, claims, outbox, known, jitter,
            forgotten=forgotten, horizon_s=horizon_s, passed=passed, now=now,
        )  # fmt: skip
        self.recovery = Recovery(
            here, past, book.stakes, claims, outbox, known, recovering=recovering, now=now
        )
        self.recovery.lives_forgotten = provisions.mirror.foreign.names.remember
        provisions.mirror.may_sweep = lambda: self.recovery.refusal() is None
        self.outcomes = self.outcomes_type(here, book.stakes, claims, outbox, then, self.recovery)
        self.in_doubt = self.in_doubt_type(
            here, book.stakes, claims, self.outcomes, self.retention, self.recovery, known, outbox, jitter
        )  # fmt: skip
        approval = self.approval = self.approval_type(
            here, book, claims, outbox, self.recovery, limits.approval_s
        )  # fmt: skip
        self.comparison = Comparison(
            book,
            claims,
            self.outcomes,
            self.in_doubt,
            self.retention,
            approval,
            known,
            outbox,
            numbers,
        )
        self.owner_room = OwnerRoom(book, KeptRoom(book, numbers.new), provisions.grants.room)
        self.reminders = ReclaimReminders(
            book, outbox, self.retention, self.set_aside, self.owner_room, jitter
        )
        dangers = provisions.mirror.dangers
        dangers.give_up, dangers.keep = self.reminders.give_up, self.reminders.keep
        self.reminders.resumed = dangers.resume

        self.starts = self.starts_type(here, book.stakes, outbox, jitter)
        self.ends = EndReports(book.stakes, outbox, jitter)
        self.part_reports = PartReports(book.stakes, claims, outbox, jitter)
        self.losses = LossReports(book.stakes, claims, outbox, numbers.new, jitter)
        dangers.lacks = self.losses.seen
        self.jobs = JobBookings(book, numbers.new, provisions.grants.room)

        line, offers = WaitQueue(), Earmarks()
        room = self.room = self.room_type(book.calendars, (line.earmarks, offers), PlannedRoom())
        self.admission = self.admission_type(
            here, book, claims, room, line.earmarks, self.retention, self.recovery, self.set_aside, known,
            provisions, self.reminders, approval, numbers, limits,
        )  # fmt: skip
        self.reminders.names_nodes = room.places.are_asked
        self.wound_wait = self.wound_wait_type(
            here, book, claims, room, line, self.admission, outbox, limits
        )

        runs = self.runs = RunTable(outbox, numbers)
        visits = self.agent_visits = AgentVisits(runs)
        self.agent_recalls = self.agent_recalls_type(
            here, book, claims, room, runs, visits, outbox, held_max=agents.held_max
        )
        holds = self.agent_holds_type(
            book, claims, room, self.admission, known, numbers,
            held_max=agents.held_max, held=self.wound_wait.held,
        )  # fmt: skip
        attempts = LiveAttempts(book.stakes, outbox)
        places = self.places = self.places_type(
            here, book, claims, then, attempts, self.admission, known, outbox, numbers
        )
        self.place_returns = PlaceReturns(book, self.admission, outbox, jitter)
        attempts.under_way = (
            visits.att_of, self.agent_recalls.att_of, self.wound_wait.att_of, places.att_of,
        )  # fmt: skip
        self.lists = self.lists_type(here, book.calendars, room, attempts, offers, outbox)
        self.views = Views(
            here,
            book,
            room,
            self.lists.listed,
            provisions,
            lambda: self.admission.closed_for_long(),
        )
        self.visit_handler = VisitHandler(
            here, book, claims, then, attempts, room, self.admission, visits, runs, self.agent_recalls,
            holds, known, outbox, agents,
        )  # fmt: skip
        self.claim_handler = self.claim_handler_type(
            here, book.stakes, claims, then, attempts, self.admission, visits, self.agent_recalls,
            self.wound_wait, self.lists, provisions, outbox,
        )  # fmt: skip
        self.ownership = self.ownership_type(
            here, book.stakes, claims, known, outbox,
            (visits.secret_of, self.wound_wait.secret_of, self.lists.secret_of, places.secret_of),
        )  # fmt: skip
        self.owner_room.may_take = lambda: self.recovery.refusal() is None
        self._listen(then)
        self.in_doubt.restore(now)
        approval.restore(now)
        self.wound_wait.restore()

    def _provisions(
        self, backends: Mapping[str, ResourceBackend], numbers: FenceNumbers
    ) -> Provisions:
        """Make the parts that speak to batch systems."""
        room = KeptRoom(self.book, numbers.new)
        past = self.past
        names = OwnNames(self.here.name, (past.life, *past.ended))
        foreign = ForeignRoom(names, self.book, room)
        grants = self.grants_type(
            self.here, self.book, self.outbox, backends, numbers, room, foreign, past.life
        )
        errands = Errands(self.outbox, numbers)
        systems = Systems(errands, self.outbox)
        mirror = self.mirror_type(grants, errands, systems, foreign, self.outbox)
        return self.provisions_type(grants, mirror)

    def _listen(self, then: Consequences) -> None:
        """Register all listeners; where the order matters, the reason stands with it."""
        then.committed.listeners = (
            # First: it reads the claims as the commit has left them.
            self.reminders.ask_for_locked,
            lambda stake, rid, att: self.in_doubt.forget(rid),
            lambda stake, rid, att: then.attempt_over(rid, att),
            # Looks through the line, which its own place has left by then.
            self.wound_wait.end_holding,
            # Last: what is declined goes to those behind, after what the others have freed.
            lambda stake, rid, att: self.lists.leave(rid),
        )
        then.refused.listeners = (
            lambda rid, att: self.in_doubt.forget(rid),
            then.attempt_over,
            lambda rid, att: self.wound_wait.forget_holder(rid),
        )
        then.superseded.listeners = (self.in_doubt.forget, self.wound_wait.forget_holder)
        then.cleared.listeners = (
            self.wound_wait.forget_holder,
            self.agent_visits.forget_answered,
            self.places.forget,
        )
        then.cancelled.listeners = (self.wound_wait.end_changes,)
        then.intended.listeners = (
            # What a batch system is asked for is not recalled.
            lambda stake: self.wound_wait.forget_holder(stake.rid),
        )
        then.promised.listeners = (
            # First: a promise is never recalled.
            lambda stake, now: self.wound_wait.forget_holder(stake.rid),
            self.in_doubt.promised,
            lambda stake, now: self.places.forget(stake.rid),
        )
        then.attempt_over.listeners = (
            # Who waits for agents is not in line yet; runs end before the room that they wait for is freed.
            self.agent_recalls.end,
            self.agent_visits.end,
            self.places.end,
            self.wound_wait.end_place,
        )

    # Events in

    def receive(self, source: str, message: m.Message, now: Moment) -> None:
        """Take one message from the session or URL `source`, to which answers go.

        Nothing is answered, and nothing is begun, about a request whose stake cannot be read, or that
        is left alone.
        """
        rid = getattr(message, "rid", "")
        if rid in self.set_aside or rid in self.left_alone:
            return
        self.lists.pass_time(now)
        self._take_in(source, message, now)
        self._settle(now)

    def _take_in(self, source: str, message: m.Message, now: Moment) -> None:
        proven = self.ownership.proven(source, message)
        if proven is None:
            return
        handle = HANDLERS.get(type(proven))
        if handle is None:
            self.outbox.alarm(f"{type(message).__name__} from {source} is not for a site")
        else:
            handle(self, source, proven, now)

    def advance(self, now: Moment) -> None:
        """Let time pass: end holds, inquire about promises, drop what is no longer needed."""
        self.lists.pass_time(now)
        self.claims.expire(now.monotonic_ms)
        for number in self.runs.overdue(now.monotonic_ms):
            self.errand_done(
                number, RunOutcome("killed", detail="the run did not end in time"), now
            )
            self.relayed(number, None, now)
        self.approval.advance(now)
        self.wound_wait.advance(now)
        self.lists.advance(now)
        self.places.advance(now)
        self.place_returns.advance(now)
        self.reminders.advance(now)
        self.recovery.advance(now)
        self.in_doubt.advance(now)
        self.starts.advance(now)
        self.ends.advance(now)
        self.part_reports.advance(now)
        self.losses.advance(now)
        self.retention.advance(now)
        self.provisions.advance(now)
        self._settle(now)

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do next (monotonic)."""
        times_ms = (
            self.book.next_expiry_ms(),
            self.runs.next_deadline_ms(),
            self.approval.next_deadline_ms(),
            self.wound_wait.next_deadline_ms(),
            self.lists.next_deadline_ms(),
            self.places.next_deadline_ms(),
            self.place_returns.next_deadline_ms(),
            self.reminders.next_deadline_ms(),
            self.recovery.next_deadline_ms(),
            self.in_doubt.next_deadline_ms(),
            self.starts.next_deadline_ms(),
            self.ends.next_deadline_ms(),
            self.part_reports.next_deadline_ms(),
            self.losses.next_deadline_ms(),
            self.retention.next_deadline_ms(),
            self.provisions.next_deadline_ms(),
        )
        return min(each for each in times_ms if each is not None)

    def take_effects(self) -> ParticipantEffects:
        """Return all effects since the last call, in order."""
        taken = self.outbox.take()
        if any(isinstance(fact, StakeStored) for fact in taken.facts):
            taken.facts.extend(self.registers.take_marked())
        self.position += sum(isinstance(f, StakeStored | StakeDropped) for f in taken.facts)
        return taken

    def _settle(self, now: Moment) -> None:
        """Find takers for what came free, was locked, or is no longer kept in this step.

        First the lists are told, for what they keep counts in line; a grant, or a place that is given up,
        may free or lock more.
        """
        self.provisions.carry_on(now)
        self.jobs.stand_alone(now.wall_s)
        self.owner_room.catch(())
        while True:
            freed, locked = self.book.take_freed(), self.book.take_locked()
            self.owner_room.catch(freed)
            declined = self.lists.take_declined()
            if not (freed or locked or declined):
                return
            if self.recovery.recovering or not self.anybody_waits:
                continue
            self.lists.offer(freed, declined, now)
            if self.wound_wait.line:
                self.wound_wait.serve(now, {*freed, *locked, *(piece for piece, _ in declined)})

    # Events of the shell

    def take_rules(
        self, changed: Mapping[str, ResourceCalendar], limits: ParticipantLimits, now: Moment
    ) -> None:
        """The owner has changed resources, rules and limits: `changed` has them, by name of the resource.

        They carry what is booked: see `check_carries`.
        """
        self.reminders.let_resize(lambda: self.book.take_rules(changed, now.wall_s))
        self.admission.limits = self.wound_wait.limits = limits
        self.approval.within_s = limits.approval_s
        self._settle(now)

    def check_carries(self, changed: Mapping[str, ResourceCalendar], now: Moment) -> None:
        """Raise `Conflict`, and name what is in the way, unless `changed` resources carry what is booked."""
        self.book.check_carries(changed, now.wall_s)

    def hello(self) -> m.Hello:
        """Return the first message of every session."""
        infos = tuple(
            calendar.info for calendar in self.book.calendars.values() if not calendar.is_retired
        )
        return m.Hello(
            site=self.here.name, epoch=self.here.epoch, resources=infos, near=self._near,
            vote_ms=self.provisions.vote_ms(),
        )  # fmt: skip

    def welcome(
        self, source: str, welcome: m.Welcome, badge: Badge = NO_BADGE, name: str = ""
    ) -> None:
        """Admit `source` as the voice of a register; raises `NotAllowed` as `Registers.admit` does."""
        self.ownership.welcome(source, welcome, badge, name)

    def meet(self, source: str, welcome: m.Welcome, now: Moment) -> None:
        """Answer a broker that was admitted, now that there is a session to answer on."""
        self.recovery.meet(source, welcome, self.position, now)
        self.ends.met(welcome.register)

    def broker_came(self, now: Moment) -> None:
        """Take the session of a broker, and repeat messages and questions that it may have missed."""
        self.places.met()
        self.reminders.remind_all(now)
        self.part_reports.tell_all()
        self.losses.tell_all(now)
        self.starts.met(now)

    def errand_done(self, number: int, outcome: RunOutcome, now: Moment) -> None:
        """Take the outcome of a run; one that nobody waits for any more changes nothing."""
        self.runs.errand_done(number, outcome, now)
        self._settle(now)

    def relayed(self, number: int, report: m.SiteReport | None, now: Moment) -> None:
        """Take the answer of a near site to a relayed visit, or None for silence."""
        self.runs.relayed(number, report)
        self._settle(now)

    def provisioned(self, number: int, answer: SystemAnswer, now: Moment) -> None:
        """Take what a batch system has answered; an errand that is over already changes nothing."""
        self.provisions.answered(number, answer, now)
        self._settle(now)

    def offered(
        self, number: int, rid: str, offers: Sequence[m.PlaceOffer], refusals: Sequence[Refusal],
        now: Moment,
    ) -> bool:  # fmt: skip
        """Take the places that queues give to a job; return False where nobody waits for them any more."""
        taken = self.places.offered(number, rid, offers, refusals, now)
        self._settle(now)
        return taken

    def keep_aside(self, set_aside: SetAside) -> None:
        """Keep unreadable records safe, and alarm the operator."""
        self.set_aside.include(set_aside)
        for told in set_aside.told():
            self.outbox.alarm(told)

    def leave_alone(self, rids: set[str]) -> None:
        """Ignore messages about these requests; the caller may add to them."""
        self.left_alone = rids

    def queue_moved(self, moved: QueueMove, now: Moment) -> list[int]:
        """Take all that a step of a queue has changed; only then what it has given back finds takers.

        Returns the jobs that have nodes without room for them on the calendar.
        """
        without_room = self.jobs.take(moved, now.wall_s)
        if moved.planned is not None:
            self.book.note_freed(self.room.planned.changed(moved.resource, moved.planned))
        self._settle(now)
        return without_room

    # Calls of the owner

    def reclaim(self, body: reclaim_calls.Reclaim, now: Moment) -> reclaim_calls.ReclaimView:
        """Reclaim as `ReclaimReminders.reclaim`, and inform those who wait there in vain."""
        view = self.reminders.reclaim(body, now)
        self._settle(now)
        return view

    def nodes_out(self, out: OutOfService, now: Moment) -> None:
        """Take what a machine has out of service: as `ReclaimReminders.nodes_out`.

        Brokers of slots that have begun are told how much of these cannot be used.
        """
        self.reminders.nodes_out(out, now)
        for rid, nodes in out.begun:
            self.losses.seen(rid, out.resource, nodes, out.reason, now)
        self._settle(now)

    def end_reclaim(self, key: str, now: Moment) -> reclaim_calls.ReclaimView:
        """End a reclaim as `ReclaimReminders.end`, and find takers for its time."""
        view = self.reminders.end(key, now)
        self._settle(now)
        return view

    def decide_approval(
        self, body: approval_calls.DecideApproval, by: str, now: Moment
    ) -> tuple[Stake, Petition]:
        """Give the owner's decision as `OwnerApproval.decide`, and find takers for what is declined."""
        decided = self.approval.decide(
            body.id, body.revision, approve=body.approve, word=body.word, by=by, now=now
        )
        self._settle(now)
        return decided

    # What is known here

    @property
    def anybody_waits(self) -> bool:
        """Whether a request is in line here, or on a waiting list."""
        return bool(self.lists.listed or self.wound_wait.line)

    def waiting_here(self) -> list[str]:
        """Return the requests that are in line here, or on a waiting list."""
        return sorted({*(place.rid for place in self.wound_wait.line), *self.lists.listed})

    def check(self) -> None:
        """Raises `AssertionError` when an invariant of stakes, calendars or lines does not hold."""
        self.book.check()
        self.wound_wait.check()
        self.lists.check()

    def show(self, source: str, query: m.Query, now: Moment) -> None:
        """Answer a Query."""
        view = self.views.look(
            query, now.wall_s, self.registers.of(source), self.reminders.given_up(query.replaces)
        )
        self.outbox.send(source, view)

    def welcome_and_meet(self, source: str, welcome: m.Welcome, now: Moment) -> None:
        self.welcome(source, welcome)
        self.meet(source, welcome, now)


HANDLERS: Final[Mapping[type[m.Message], Handler]] = {
    m.Welcome: lambda site, source, welcome, now: site.welcome_and_meet(source, welcome, now),
    m.Query: lambda site, source, query, now: site.show(source, query, now),
    m.Visit: lambda site, source, visit, now: site.claim_handler.visit(source, visit, now),
    m.Solicit: lambda site, source, solicit, now: site.places.solicit(source, solicit, now),
    m.Dispatch: lambda site, source, visit, now: site.visit_handler.dispatch(source, visit, now),
    m.Prepare: lambda site, source, prepare, now: site.claim_handler.prepare(source, prepare, now),
    m.Decide: lambda site, source, decide, now: site.outcomes.decide(source, decide, now),
    m.Cancel: lambda site, source, cancel, now: site.outcomes.cancel(source, cancel, now),
    m.Forget: lambda site, source, forget, now: site.retention.forget(forget.rid),
    m.OwnerAsk: lambda site, source, ask, now: site.approval.ask(source, ask, now),
    m.Renew: lambda site, source, renew, now: site.claim_handler.renew(source, renew, now),
    m.Release: lambda site, source, release, now: site.claim_handler.release(
        release.rid, release.att, release.hold_ids
    ),
    m.Give: lambda site, source, give, now: site.wound_wait.give(give, now),
    m.Await: lambda site, source, wish, now: site.lists.wait(source, wish, now),
    m.Outcome: lambda site, source, outcome, now: site.in_doubt.outcome(outcome, now),
    m.StartSays: lambda site, source, says, now: site.starts.said(says),
    m.ReadyAsk: lambda site, source, ready, now: site.starts.ready(ready, now),
    m.EndNoted: lambda site, source, noted, now: site.ends.noted(noted),
    m.LossNoted: lambda site, source, noted, now: site.losses.noted(noted),
    m.PeerAsk: lambda site, source, ask, now: site.in_doubt.peer_ask(source, ask),
    m.PeerSays: lambda site, source, says, now: site.in_doubt.peer_says(source, says, now),
    m.Compare: lambda site, source, compare, now: site.comparison.page(source, compare),
    m.Relock: lambda site, source, relock, now: site.comparison.relock(source, relock, now),
    m.Settled: lambda site, source, settled, now: site.recovery.settle(source, now),
}
"""Which part takes a message."""
