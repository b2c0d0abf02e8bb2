"""The site's half of the commit protocol, as a pure state machine.

Messages and the passing of time go in, together with `now`; facts to store, messages to send and
alarms come out (`ParticipantEffects`; persist before send). A vote of yes is a promise: it ends only by the
register's outcome (Decide, Outcome), by proof of it (a higher attempt, a locked peer), or by so many
durable refusals of peers that a commit can never have happened. The rules of each state are in
`transitions`; what is booked where is `book`'s.

The machine is its parts, and the order in which they work. The `plug` of each says what is called of it:
which messages it takes, what it does as time passes. `_own_plugs` lists the kernel's; those of wings stand
behind them in each tier. `_listen` says which parts have to know what another has done, and `_settle` who
gets what a step has freed. Each part owns its record. Presumed abort (Mohan and Lindsay 1983) with numbered
attempts; holds that end after Ramamoorthi et al. 1997, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kalends.calendars import ResourceCalendar
from kalends.contract import messages as m
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import (
    DEFAULT_LIMITS,
    Admission,
    ParticipantLimits,
)
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
from kalends.resource_servers.participation.claims.kept_room import KeptRoom
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.contention.planned_room import PlannedRoom
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.contention.wait_queue import WaitQueue
from kalends.resource_servers.participation.contention.waiting_list_offers import WaitingLists
from kalends.resource_servers.participation.contention.wound_wait import WoundWait
from kalends.resource_servers.participation.effects import EntryStored, ParticipantEffects
from kalends.resource_servers.participation.kernel import (
    Base,
    Ground,
    Kernel,
    MakeConsent,
    MakeGuard,
    MakePayments,
    MakePriorClaims,
    MakeRulings,
    MakeVisitors,
    MakeWing,
)
from kalends.resource_servers.participation.loss_reports import LossReports
from kalends.resource_servers.participation.memory.comparison import Comparison
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.memory.past import Past
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.memory.sure_time import TimePassed
from kalends.resource_servers.participation.memory.unreadable import SetAside
from kalends.resource_servers.participation.no_jobs import NoJobs
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.outcome_handler import OutcomeHandler
from kalends.resource_servers.participation.ownership import Ownership
from kalends.resource_servers.participation.parts import Plug, Tier, in_order, on, takers
from kalends.resource_servers.participation.registers import (
    NO_BADGE,
    Badge,
    KnownRegister,
    Registers,
)
from kalends.resource_servers.participation.runs import RunTable
from kalends.resource_servers.participation.sockets import (
    NoQueues,
    Queues,
    Unguarded,
    Unpaid,
    Unruled,
    Wing,
)
from kalends.resource_servers.participation.this_site import AnyAddress, FenceNumbers, ThisSite
from kalends.resource_servers.participation.views import Views

RESTORED_HOLD_MS: Final = 120_000
"""What waits for its owner is held for so long after a start, until its broker renews it."""

W = TypeVar("W")


class PartTypes(NamedTuple):
    """The classes of the kernel's parts; a test replaces one with a broken one."""

    numbers: type[FenceNumbers] = FenceNumbers
    outbox: type[ParticipantOutbox] = ParticipantOutbox
    claims: type[Claims] = Claims
    retention: type[Retention] = Retention
    outcomes: type[OutcomeHandler] = OutcomeHandler
    in_doubt: type[InDoubtResolver] = InDoubtResolver
    comparison: type[Comparison] = Comparison
    ownership: type[Ownership] = Ownership
    room: type[FreeRoom] = FreeRoom
    admission: type[Admission] = Admission
    wound_wait: type[WoundWait] = WoundWait
    lists: type[WaitingLists] = WaitingLists
    claim_handler: type[ClaimHandler] = ClaimHandler


class Participant:
    """One site. Not thread-safe; `receive` and `advance` take effect at once in memory.

    `epoch` must be higher than at any earlier start of this site; `jitter` gives numbers in [0, 1).
    `stakes`, `forgotten`, `registers`, `horizon_s`, `passed`, `past` and `recovering` are what was stored.
    `queues` are those of its machines; what else is in a socket is made here (see `kernel`).
    """

    def __init__(
        self,
        site: str,
        calendars: Mapping[str, ResourceCalendar],
        *,
        epoch: int,
        jitter: Callable[[], float],
        limits: ParticipantLimits = DEFAULT_LIMITS,
        stakes: Iterable[Stake] = (),
        forgotten: Iterable[str] = (),
        registers: Iterable[KnownRegister] = (),
        horizon_s: int = 0,
        passed: TimePassed = TimePassed(),  # noqa: B008  immutable
        past: Past = Past(),  # noqa: B008  immutable
        recovering: bool = False,
        addresses: Container[str] = AnyAddress(),
        queues: Queues = NoQueues(),  # noqa: B008  immutable
        guard: MakeGuard = Unguarded,
        rulings: MakeRulings = Unruled,
        payments: MakePayments = Unpaid,
        consent: MakeConsent,
        prior: MakePriorClaims,
        visitors: MakeVisitors,
        wings: Iterable[MakeWing] = (NoJobs,),
        types: PartTypes = PartTypes(),  # noqa: B008  immutable
        now: Moment,
    ) -> None:
        self.past = past
        self.position = past.position
        """As many facts about stakes have been given out, and will be durable."""
        self.set_aside = SetAside()
        self.left_alone: set[str] = set()
        """Requests that a step has broken at: messages about them are ignored, for it might break again."""

        here = self.here = ThisSite(site, epoch, addresses)
        then = Consequences()
        numbers = types.numbers(epoch)
        outbox = self.outbox = types.outbox()
        known = self.registers = Registers(registers)

        book = self.book = ClaimTable(calendars, numbers.new)
        kept = KeptRoom(book, numbers.new)
        held_ms = min(limits.hold_ms_max, RESTORED_HOLD_MS)
        book.restore(stakes, now.wall_s, now.monotonic_ms + held_ms)
        base = Base(
            here, past, book, kept, outbox, numbers, jitter, self._settle,
            # What these call is made from claims, which ask for grants.
            is_sure=lambda: self.recovery.refusal() is None,
            give_up=lambda slot, now: self.prior.give_up(slot, now),
            keep=lambda number: self.prior.keep(number),
            given_up=lambda rid: self.prior.given_up(rid),
            runs=RunTable(outbox, numbers, self._settle),
            lacks=lambda *lack: self.losses.seen(*lack),
            now=now,
        )  # fmt: skip
        self.guard = guard(base)
        self.payments = payments(base)
        claims = self.claims = types.claims(book, outbox, then, self.guard, self.payments)
        self.retention = types.retention(
            here, book, claims, outbox, known, jitter, queues,
            forgotten=forgotten, horizon_s=horizon_s, passed=passed, now=now,
        )  # fmt: skip
        recovery = self.recovery = Recovery(
            here, past, book.stakes, claims, outbox, known, recovering, then, now
        )
        self.outcomes = types.outcomes(
            here, book.stakes, claims, outbox, then, recovery, self.retention
        )
        self.in_doubt = types.in_doubt(
            here,
            book.stakes,
            claims,
            self.outcomes,
            self.retention,
            recovery,
            known,
            outbox,
            jitter,
        )
        self.losses = LossReports(book.stakes, claims, outbox, numbers.new, jitter)

        line, offers = WaitQueue(), Earmarks()
        room = self.room = types.room(book.calendars, (line.earmarks, offers), PlannedRoom())
        self.rulings = rulings(base)
        ground = Ground(
            base, claims, recovery, self.retention, self.set_aside, self.rulings, self.guard, self.losses,
            room, lambda: self.admission.limits,
        )  # fmt: skip
        self.consent, self.prior = consent(ground), prior(ground)
        self.comparison = types.comparison(
            book, claims, self.outcomes, self.in_doubt, self.retention, self.consent, known, outbox,
            numbers,
        )  # fmt: skip
        self.admission = types.admission(
            here, book, claims, room, line.earmarks, self.retention, recovery, self.set_aside, known,
            self.rulings, self.payments, self.guard, self.prior, self.consent, queues, numbers, limits,
        )  # fmt: skip
        self.wound_wait = types.wound_wait(here, book, claims, room, line, self.admission, outbox)
        attempts = LiveAttempts(book.stakes, outbox, self._under_way)
        self.lists = types.lists(
            here, book.calendars, room, attempts, offers, outbox, self.payments
        )
        self.views = Views(
            here, book, room, self.lists.listed, self.guard, self.admission.closed_for_long
        )
        kernel = Kernel(ground, then, known, self.admission, attempts, self.wound_wait)
        self.visitors = visitors(kernel)
        self._claim_handler = types.claim_handler(
            here, book.stakes, claims, then, attempts, self.admission, self.visitors,
            self.wound_wait, self.lists, self.guard, outbox,
        )  # fmt: skip
        more = [make(kernel) for make in wings]
        self._wings: tuple[Wing, ...] = (
            self.guard, self.payments, self.consent, self.prior, self.visitors, *more,
        )  # fmt: skip
        plugs = in_order([*self._own_plugs(), *(plug for wing in more for plug in wing.plugs)])
        secrets = tuple(plug.secret_of for plug in plugs if plug.secret_of)
        self.ownership = types.ownership(here, book.stakes, claims, known, outbox, secrets)
        self._listen(then)
        self._plug_in(plugs, then)
        self.in_doubt.restore(now)
        self.wound_wait.restore()

    def _own_plugs(self) -> tuple[Plug, ...]:
        """Return those of the kernel's parts, and of wings in its sockets, in the order of their turns."""
        return (
            Plug(
                Tier.ENDS,
                handles=[
                    on(m.Welcome, self.welcome_and_meet, owned=False),
                    on(m.Query, self.show, owned=False, refuse=self._show_nothing),
                ],
                timed=self.claims,
            ),
            Plug(Tier.ENDS, timed=self.admission),
            *self.visitors.plugs,
            *self.rulings.plugs,
            *self.consent.plugs,
            self.outcomes.plug,
            self._claim_handler.plug,
            self.wound_wait.plug,
            self.lists.plug,
            *self.prior.plugs,
            self.recovery.plug,
            self.comparison.plug,
            self.in_doubt.plug,
            self.losses.plug,
            self.retention.plug,
            *self.guard.plugs,
        )

    def _plug_in(self, plugs: Sequence[Plug], then: Consequences) -> None:
        """Read once what is called of each part."""
        for plug in plugs:
            if plug.listen:
                plug.listen(then)
        self._takers = takers(plugs)
        self._timed = [plug.timed for plug in plugs if plug.timed]
        self._settling = [plug.settle for plug in plugs if plug.settle]
        self._met = [plug.met for plug in plugs if plug.met]
        self._broker_came = [plug.broker_came for plug in plugs if plug.broker_came]
        self._atts = [plug.att_of for plug in plugs if plug.att_of]

    def _under_way(self, rid: str) -> int:
        """Return the attempt of a request that claims nothing yet, or 0."""
        seen = 0
        for att_of in self._atts:
            seen = max(seen, att_of(rid))
        return seen

    def wing(self, kind: type[W]) -> W:
        """Return the wing of this kind; raises `LookupError` where it is not plugged in."""
        for each in self._wings:
            if isinstance(each, kind):
                return each
        raise LookupError(kind.__name__)

    def _listen(self, then: Consequences) -> None:
        """Register the kernel's listeners; where the order matters, the reason stands with it."""
        then.committed.listeners = (
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
        then.cleared.listeners = (self.wound_wait.forget_holder,)
        then.cancelled.listeners = (self.wound_wait.end_changes,)
        then.intended.listeners = (
            # What grants are asked for is not recalled.
            lambda stake: self.wound_wait.forget_holder(stake.rid),
        )
        then.promised.listeners = (
            # First: a promise is never recalled.
            lambda stake, now: self.wound_wait.forget_holder(stake.rid),
            self.in_doubt.promised,
        )
        then.attempt_over.listeners = (self.wound_wait.end_place,)

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
        taken = self._takers.get(type(message))
        if taken is None:
            self.outbox.alarm(f"{type(message).__name__} from {source} is not for a site")
            return
        proven = self.ownership.proven(source, message, taken)
        if proven is not None:
            taken.take(source, proven, now)

    def advance(self, now: Moment) -> None:
        """Let time pass: end holds, inquire about promises, drop what is no longer needed."""
        self.lists.pass_time(now)
        for part in self._timed:
            part.advance(now)
        self._settle(now)

    def next_deadline_ms(self) -> int:
        """When `advance` has something to do next (monotonic)."""
        return min([ms for part in self._timed if (ms := part.next_deadline_ms()) is not None])

    def take_effects(self) -> ParticipantEffects:
        """Return all effects since the last call, in order."""
        taken = self.outbox.take()
        counted = [
            each
            for each in taken.facts
            if isinstance(each, StakeStored | StakeDropped | EntryStored)
        ]
        self.position += len(counted)
        if any(isinstance(each, StakeStored) for each in counted):
            taken.facts.extend(self.registers.take_marked())
        return taken

    def _settle(self, now: Moment) -> None:
        """Find takers for what came free, was locked, or is no longer kept in this step.

        First the lists are told, for what they keep counts in line; a grant, or a place that is given up,
        may free or lock more.
        """
        for settle in self._settling:
            settle(now)
        self.prior.catch(())
        while True:
            freed, locked = self.book.take_freed(), self.book.take_locked()
            self.prior.catch(freed)
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

        They carry what is booked: see `ClaimTable.check_carries`.
        """
        self.prior.let_resize(lambda: self.book.take_rules(changed, now.wall_s))
        self.admission.limits = limits
        self.rulings.look()
        self.payments.look()
        self._settle(now)

    def hello(self) -> m.Hello:
        """Return the first message of every session."""
        infos = tuple(
            calendar.info for calendar in self.book.calendars.values() if not calendar.is_retired
        )
        return m.Hello(
            site=self.here.name, epoch=self.here.epoch, resources=infos, near=self.visitors.near,
            vote_ms=self.guard.vote_ms(),
        )  # fmt: skip

    def welcome(
        self, source: str, welcome: m.Welcome, badge: Badge = NO_BADGE, name: str = ""
    ) -> None:
        """Admit `source` as the voice of a register; raises `NotAllowed` as `Registers.admit` does."""
        self.ownership.welcome(source, welcome, badge, name)

    def meet(self, source: str, welcome: m.Welcome, now: Moment) -> None:
        """Answer a broker that was admitted, now that there is a session to answer on."""
        self.recovery.meet(source, welcome, self.position, now)
        for met in self._met:
            met(welcome.register)

    def broker_came(self, now: Moment) -> None:
        """Take the session of a broker, and repeat messages and questions that it may have missed."""
        for came in self._broker_came:
            came(now)

    def keep_aside(self, set_aside: SetAside) -> None:
        """Keep unreadable records safe, and alarm the operator."""
        self.set_aside.include(set_aside)
        for told in set_aside.told():
            self.outbox.alarm(told)

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
        view = self.views.look(
            query, now.wall_s, self.registers.of(source), self.prior.given_up(query.replaces)
        )
        self.outbox.send(source, view)

    def _show_nothing(self, source: str, query: m.Query, refusals: tuple[Refusal, ...]) -> None:
        self.outbox.send(source, self.views.none_visible(query))

    def welcome_and_meet(self, source: str, welcome: m.Welcome, now: Moment) -> None:
        self.welcome(source, welcome)
        self.meet(source, welcome, now)
