"""A site's stakes, and what is stored of them and for how long: what every part of the participant uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, Final, NamedTuple

from kalends.agents.runs import Outcome
from kalends.calendars import ResourceCalendar
from kalends.calendars.profiles import Change, total
from kalends.contract import messages as m
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.principals import Principal
from kalends.core.scripts import Ask
from kalends.resource_servers.participation.agent_visits import (
    DEFAULT_AGENT_LIMITS,
    AgentLimits,
    AgentVisit,
    ScriptCache,
    Waiting,
)
from kalends.resource_servers.participation.claim_sets import (
    Claim,
    Stake,
    StakeDropped,
    StakeStored,
)
from kalends.resource_servers.participation.claim_table import SiteBook
from kalends.resource_servers.participation.claims import Claims
from kalends.resource_servers.participation.comparison import Comparison
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.earmarks import Keeping, Order, Stretch
from kalends.resource_servers.participation.effects import Effects
from kalends.resource_servers.participation.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.occupancy import Piece
from kalends.resource_servers.participation.outbox import Outbox
from kalends.resource_servers.participation.outcome_handler import OutcomeHandler
from kalends.resource_servers.participation.past import Past
from kalends.resource_servers.participation.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.recovery import Recovery
from kalends.resource_servers.participation.registers import KnownRegister, Registers
from kalends.resource_servers.participation.retention import Retention
from kalends.resource_servers.participation.sure_time import TimePassed
from kalends.resource_servers.participation.this_site import FenceNumbers, ThisSite
from kalends.resource_servers.participation.unreadable import SetAside
from kalends.resource_servers.participation.wait_queue import Holder, Line
from kalends.resource_servers.participation.waiting_list import WaitingList


class ParticipantLimits(NamedTuple):
    """Per principal at this site; a client that votes and never decides is bounded by the second."""

    held_per_principal_max: int = 64
    promised_per_principal_max: int = 64
    hold_ms_max: int = 3_600_000


DEFAULT_LIMITS: Final = ParticipantLimits()
NOTHING_PASSED: Final = TimePassed()


class Records:
    """What a site knows, in memory, and the facts that make it durable.

    `epoch` must be higher than at any earlier start of this site; `jitter` gives numbers in [0, 1).
    `stakes`, `forgotten`, `horizon_s` and `passed` are what was stored.
    """

    numbers_type: ClassVar[type[FenceNumbers]] = FenceNumbers
    outbox_type: ClassVar[type[Outbox]] = Outbox
    claims_type: ClassVar[type[Claims]] = Claims
    retention_type: ClassVar[type[Retention]] = Retention
    recovery_type: ClassVar[type[Recovery]] = Recovery
    outcomes_type: ClassVar[type[OutcomeHandler]] = OutcomeHandler
    in_doubt_type: ClassVar[type[InDoubtResolver]] = InDoubtResolver

    def __init__(
        self,
        site: str,
        url: str,
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
        now: Moment,
    ) -> None:
        self.url = url
        self.here = ThisSite(site, epoch)
        self.numbers = self.numbers_type(epoch)
        self.outbox = self.outbox_type()
        self.then = Consequences()
        self.draining = False
        self.past = past
        self.position = past.position
        """As many facts about stakes have been given out, and will be durable."""
        self._limits = limits
        self._agents = agents
        self._registers = Registers(registers)
        self._scripts = ScriptCache()
        self._visits: dict[str, AgentVisit] = {}
        self._errands: dict[int, Callable[[Outcome, Moment], None]] = {}
        self._relays: dict[int, tuple[AgentVisit, str]] = {}
        self._waiting: dict[str, Waiting] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._line = Line()
        self._holders: dict[str, Holder] = {}
        self._recalls: list[tuple[int, str]] = []
        """Heap of ``(until_ms, rid)``: holds that have been asked back; stale entries do no harm."""
        self._listed = WaitingList()
        self._offers = Keeping()
        self._news = epoch << 32
        """The number of the last thing that somebody on the list was told to look into."""
        self._declined: list[tuple[Stretch, Order]] = []
        """Offers that have ended, and whose they were: those behind are next."""
        self.set_aside = SetAside()
        self.left_alone: set[str] = set()
        """Requests that a step has broken at: with the next message it might break again."""
        self.book = SiteBook(calendars, self.numbers.new)
        self.claims = self.claims_type(self.book, self.outbox, self.then)
        self.book.restore(stakes)
        stakes_here = self.book.stakes
        self.retention = self.retention_type(
            self.here, self.book, self.claims, self.outbox, self._registers, jitter,
            forgotten=forgotten, horizon_s=horizon_s, passed=passed, now=now,
        )  # fmt: skip
        self.recovery = self.recovery_type(
            self.here, past, stakes_here, self.claims, self.outbox, self._registers,
            recovering=recovering, now=now,
        )  # fmt: skip
        self.outcomes = self.outcomes_type(
            self.here, stakes_here, self.claims, self.outbox, self.then, self.recovery
        )
        self.in_doubt = self.in_doubt_type(
            self.here, stakes_here, self.claims, self.outcomes, self.retention, self.recovery,
            self._registers, self.outbox, jitter,
        )  # fmt: skip
        self.comparison = Comparison(
            self.book, self.claims, self.outcomes, self.in_doubt, self.retention, self._registers,
            self.outbox, self.numbers,
        )  # fmt: skip
        self.reminders = ReclaimReminders(
            self.book, self.outbox, self.retention, self.set_aside, jitter
        )
        self.in_doubt.restore(now)

    def _closed(self) -> Refusal | None:
        """Why nothing new is taken at all; None when it is."""
        if self.draining:
            return self.here.refusal(RefusalCode.DRAINED, "the owner takes no new claims now")
        return self.recovery.refusal()

    def keep_aside(self, set_aside: SetAside) -> None:
        """Keep safe what cannot be read; said as alarms."""
        self.set_aside.include(set_aside)
        for told in set_aside.told():
            self.outbox.alarm(told)

    def leave_alone(self, rids: set[str]) -> None:
        """From now on nothing is taken about these requests; the caller may add to them."""
        self.left_alone = rids

    def take_effects(self) -> Effects:
        """All effects since the last call, in order."""
        taken = self.outbox.take()
        if any(isinstance(fact, StakeStored) for fact in taken.facts):
            taken.facts.extend(self._registers.take_marked())
        self.position += sum(isinstance(f, StakeStored | StakeDropped) for f in taken.facts)
        return taken

    def check(self) -> None:
        """Raises `AssertionError` when an invariant of stakes, calendars or lines does not hold."""
        self.book.check()
        self._line.check()
        self._listed.check()
        self._offers.check()
        for rid in self._holders:
            assert self.book.stakes[rid].has("held"), rid
        for place in self._line:
            stake = self.book.stakes.get(place.rid)
            assert stake is None or not stake.claims, f"{place.rid} waits for what it has"

    def _order_of(
        self, principal: Principal, stamp: int, rid: str, wanted: Iterable[Claim | m.Want | Ask]
    ) -> Order:
        """Where a request stands among those that wait.

        Owners may give it a head start; of several resources the one that gives least decides.
        """
        calendars = (self.book.calendars.get(each.resource) for each in wanted)
        head_start_ms = min(
            (each.head_start_ms(principal) for each in calendars if each is not None), default=0
        )
        return stamp - head_start_ms, rid

    def _has_room(self, order: Order, piece: Piece) -> bool:
        """Whether `piece` is free, and not kept for those before `order`: in line, or to be asked first."""
        resource, start, end, units = piece
        calendar = self.book.calendars[resource]
        return all(
            calendar.free(begin, finish) - taken >= units
            for begin, finish, taken in total(self._kept_before(order, resource), start, end)
        )

    def _kept_before(self, order: Order, resource: str) -> list[Change]:
        """Start, end and units of all that is kept there for those before `order`."""
        return [
            (start, end, units)
            for keeping in (self._line.keeping, self._offers)
            for _, start, end, units in keeping.before(order, resource)
        ]

    def _register_of(self, source: str, dispatch: m.Dispatch | None = None) -> str:
        """The register of whoever sends from `source`, or has a near site pass `dispatch` on; or ""."""
        return self._registers.of(source) or (dispatch.register if dispatch is not None else "")

    def _belongs_to(
        self, before: Stake | None, source: str, dispatch: m.Dispatch | None = None
    ) -> str:
        """The register of a new stake: once known, it stays, also for what comes before a Welcome."""
        known = before.register if before is not None else ""
        return known or self._register_of(source, dispatch)
