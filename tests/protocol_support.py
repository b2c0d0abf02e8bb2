"""One site under test: the real participant, its durable facts, and a clock that tests move.

After every step the facts are applied and all invariants checked, so that a restart at any moment
starts from exactly what a store would have.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from msgspec.structs import replace

from kalends.calendars import (
    AccessList,
    AccessRule,
    Buffer,
    Limit,
    Limits,
    OwnerRules,
    Prices,
    ResourceCalendar,
)
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.core.identifiers import machine_of, queue_of, request_id
from kalends.core.intervals import Moment
from kalends.core.jobs import JobRequest
from kalends.core.limits import UNITS_MAX
from kalends.core.money import CancelRule
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.resource_servers.participation.admission import (
    DEFAULT_LIMITS,
    ParticipantLimits,
)
from kalends.resource_servers.participation.approval.owner_approval import OwnerApproval
from kalends.resource_servers.participation.claims.claim_sets import (
    Stake,
    StakeDropped,
    StakeForgotten,
    StakeStored,
    TimeClosed,
    decode_stake,
)
from kalends.resource_servers.participation.effects import (
    EntriesFolded,
    EntryStored,
    ParticipantEffects,
    Send,
    SiteFact,
)
from kalends.resource_servers.participation.kernel import MakePayments, MakeWing
from kalends.resource_servers.participation.memory.past import Past, RecoveryChanged
from kalends.resource_servers.participation.memory.sure_time import WINDOW_MS, TimePassed
from kalends.resource_servers.participation.no_jobs import NoJobs
from kalends.resource_servers.participation.participant import Participant
from kalends.resource_servers.participation.placed_jobs.placed_jobs import PlacedJobs
from kalends.resource_servers.participation.provision.resource_backend import ResourceBackend
from kalends.resource_servers.participation.reclaims.reclaim_reminders import ReclaimReminders
from kalends.resource_servers.participation.reclaims.reclaims import (
    ReclaimDropped,
    ReclaimStored,
    decode_reclaim,
)
from kalends.resource_servers.participation.registers import RegisterStored, decode_register
from kalends.resource_servers.participation.sockets import NoQueues, Queues, Unpaid
from kalends.resource_servers.participation.this_site import AnyAddress
from kalends.resource_servers.participation.visits.agent_visits import AgentLimits
from kalends.resource_servers.participation.visits.visiting_agents import VisitingAgents
from kalends.servers.restored_participant import guarded_by, site_machine
from tests.owned_messages import ABOUT_A_REQUEST

T = TypeVar("T")

T0 = 1_800_000_000
"""When every test begins (UTC seconds)."""

DAY = 86_400
LONG_MS = 2 * WINDOW_MS
"""After so long, with clocks that are right, what ended at its beginning is forgotten."""

ANN = Principal("ann")
BOB = Principal("bob")
HERE = "here"
SITE_SECRET = "the secret of the site's store"
REGISTER = "c0ffee" + "0" * 26
KEY = proofs.site_key("", HERE)
"""What proves messages here: all brokers under test work for one register, whose own secret is ""."""

PARTS = (
    m.Part(HERE, "http://here"),
    m.Part("there", "http://there", "what here asks there by"),
)
COORDS = ("http://broker-a", "http://broker-b")

OPEN_RULES = (AccessRule("all", "everyone", ("see", "hold", "lock")),)


def rid(number: int) -> str:
    """Always the same request id for the same number."""
    return request_id(1_000 * T0, number)


def secret_of(rid: str, site: str = HERE) -> str:
    """What proves a message about a request at `site`."""
    return proofs.of_request(proofs.site_key("", site), rid)


def resource(
    name: str,
    capacity: int = 1,
    rules: Iterable[AccessRule] = OPEN_RULES,
    grain_s: int = 1,
    limits: Iterable[Limit] = (),
    prices: Prices | None = None,
    cancel: CancelRule | None = None,
    buffer: Buffer | None = None,
) -> ResourceCalendar:
    info = ResourceInfo(name=name, capacity=capacity, grain_s=grain_s)
    owners = OwnerRules(Limits(limits), prices=prices, cancel=cancel, buffer=buffer)
    return ResourceCalendar(info, AccessList(rules), (), owners)


def want(local: str, start: int, end: int, units: int = 1) -> m.Want:
    """A slot at this site; times are seconds after noon of the next day, as it were."""
    return m.Want(f"{HERE}/{local}", T0 + DAY + start, T0 + DAY + end, units)


LIVES = itertools.count(1)
"""Names of lives: no two are the same, whatever is put back."""


class Site:
    """A participant with two instruments and a pool of three units, and what it has made durable."""

    agents = AgentLimits()
    addresses: Container[str] = AnyAddress()
    backends: Mapping[str, ResourceBackend] = MappingProxyType({})
    wings: tuple[MakeWing, ...] = (PlacedJobs,)
    prices: Prices | None = None
    cancel_rule: CancelRule | None = None

    def __init__(
        self,
        *,
        name: str = HERE,
        rules: dict[str, tuple[AccessRule, ...]] | None = None,
        limits: ParticipantLimits = DEFAULT_LIMITS,
        owners_limits: Iterable[Limit] = (),
        queues: Queues = NoQueues(),  # noqa: B008  immutable
        buffer: Buffer | None = None,
    ) -> None:
        self.name = name
        self.rules = rules or {}
        self.limits = limits
        self.queues = queues
        self.owners_limits = tuple(owners_limits)
        self.buffer = buffer
        self.capacities = {"one": 1, "two": 1, "pool": 3}
        self.stored: dict[str, bytes] = {}
        self.registers: dict[str, bytes] = {}
        self.reclaims: dict[str, bytes] = {}
        self.credits: dict[str, bytes] = {}
        self.forgotten: set[str] = set()
        self.horizon_s = 0
        self.passed = TimePassed()
        self.lives: list[tuple[str, int]] = []
        """The name of each life, and where it began."""
        self.position = 0
        self.recovering = False
        self.unsent: list[Send] = []
        """What calls of operators have caused to be sent."""
        self.epoch = 0
        self.ms = 1_000
        self.wrong_ms = 0
        """By how much the site's wall clock is ahead."""
        self.broker_wrong_ms: int | None = 0
        """By how much that of its brokers is; None: they are silent."""
        self.restart()

    @property
    def now(self) -> Moment:
        return Moment(self.ms, T0 * 1_000 + self.ms + self.wrong_ms)

    @property
    def jobs(self) -> PlacedJobs:
        return self.participant.wing(PlacedJobs)

    @property
    def reminders(self) -> ReclaimReminders:
        return self.participant.wing(ReclaimReminders)

    @property
    def visiting(self) -> VisitingAgents:
        return self.participant.wing(VisitingAgents)

    @property
    def approval(self) -> OwnerApproval:
        return self.participant.wing(OwnerApproval)

    def restart(self, *, come_back: bool = True) -> None:
        """Only what was durable is left; brokers `come_back` at once, or not yet."""
        self.epoch += 1
        ends = [begin for _, begin in self.lives[1:]] + [self.position]
        ended = {life: end for (life, _), end in zip(self.lives, ends, strict=False)}
        self.lives.append((f"{next(LIVES):032x}", self.position))
        calendars = {
            f"{self.name}/{local}": resource(
                f"{self.name}/{local}",
                capacity,
                self.rules.get(local, OPEN_RULES),
                limits=self.owners_limits,
                prices=self.prices,
                cancel=self.cancel_rule,
                buffer=self.buffer,
            )
            for local, capacity in self.capacities.items()
        }
        queue = queue_of(f"{self.name}/pool")
        self.participant = site_machine(
            self.name,
            calendars | {queue: resource(queue, UNITS_MAX, ())},
            epoch=self.epoch,
            jitter=lambda: 0.0,
            limits=self.limits,
            visitors=partial(VisitingAgents, limits=self.agents),
            stakes=[decode_stake(body) for body in self.stored.values()],
            forgotten=self.forgotten,
            registers=[decode_register(body) for body in self.registers.values()],
            horizon_s=self.horizon_s,
            passed=self.passed,
            past=Past(self.lives[-1][0], self.position, ended, SITE_SECRET),
            recovering=self.recovering,
            addresses=self.addresses,
            guard=guarded_by(self.backends),
            payments=self.payments(),
            queues=self.queues,
            wings=self.wings,
            now=self.now,
        )
        reclaims = [decode_reclaim(body) for body in self.reclaims.values()]
        self.participant.wing(ReclaimReminders).restore(reclaims, self.now)
        welcome = m.Welcome(register=REGISTER, secret=proofs.site_key("", self.name))
        for source in ("broker", "a", "b") if come_back else ():
            self.participant.receive(source, welcome, self.now)
        self.settle()

    def payments(self) -> MakePayments:
        """Return what makes the wing of payments; most tests have none."""
        return Unpaid

    def image(self) -> dict[str, Any]:
        """All that is durable, as a copy of the disk has it."""
        names = (
            "stored", "reclaims", "horizon_s", "lives", "position", "recovering", "epoch",
            "forgotten", "passed", "registers", "credits",
        )  # fmt: skip

        return {name: copy.copy(getattr(self, name)) for name in names}

    def put_back(self, image: dict[str, Any]) -> None:
        """The disk is as it was at the moment of the image, and the site starts on it."""
        vars(self).update({name: copy.copy(value) for name, value in image.items()})
        self.restart()

    def call(self, step: Callable[[Participant, Moment], T]) -> T:
        """An operator's call: what it has changed is durable when it answers."""
        result = step(self.participant, self.now)
        self.unsent += self.settle().sends
        return result

    def receive(self, message: m.Message, source: str = "") -> ParticipantEffects:
        """`source` is "broker" unless given; what a peer says comes from where it lives."""
        if not source:
            source = f"http://{message.site}" if isinstance(message, m.PeerSays) else "broker"
        if isinstance(message, ABOUT_A_REQUEST) and not message.secret:
            message = replace(message, secret=secret_of(message.rid, self.name))
        self.participant.receive(source, message, self.now)
        return self.settle()

    def answers(self, message: m.Message, source: str = "") -> list[m.Message]:
        return [send.message for send in self.receive(message, source).sends]

    def answer(self, message: m.Message, source: str = "") -> m.Message:
        (answer,) = self.answers(message, source)
        return answer

    def advance(self, ms: int) -> ParticipantEffects:
        self.ms += ms
        if self.broker_wrong_ms is not None:
            told_ms = T0 * 1_000 + self.ms + self.broker_wrong_ms
            self.participant.retention.heard_clock("broker", told_ms, self.now)
        self.participant.advance(self.now)
        return self.settle()

    def stake(self, number: int) -> Stake | None:
        return self.participant.book.stakes.get(rid(number))

    def states(self, number: int) -> list[str]:
        """The states of all claims of a request, in order."""
        stake = self.stake(number)
        return [claim.state for claim in stake.claims] if stake is not None else []

    def ids(self, number: int) -> tuple[int, ...]:
        stake = self.stake(number)
        return tuple(claim.hold_id for claim in stake.claims) if stake is not None else ()

    def free(self, local: str, start: int, end: int) -> int:
        calendar = self.participant.book.calendars[f"{HERE}/{local}"]
        return calendar.free(T0 + DAY + start, T0 + DAY + end)

    def settle(self) -> ParticipantEffects:
        effects = self.participant.take_effects()
        self.position = self.participant.position
        for fact in effects.facts:
            self._apply(fact)
        self.participant.check()
        self._check_that_all_can_be_recalled()
        return effects

    def _check_that_all_can_be_recalled(self) -> None:
        """The site knows of every hold whom to ask for it; of places in queues, nobody asks for any."""
        held = {
            rid
            for rid, stake in self.participant.book.stakes.items()
            if any(
                claim.state == "held" and not machine_of(claim.resource) for claim in stake.claims
            )
        }
        assert held == self.participant.wound_wait.holders.keys()

    def _apply(self, fact: SiteFact) -> None:
        match fact:
            case StakeStored():
                self.stored[fact.rid] = fact.body
            case StakeDropped():
                self.stored.pop(fact.rid, None)
                self.forgotten.discard(fact.rid)
            case StakeForgotten():
                self.forgotten.add(fact.rid)
            case EntryStored():
                assert fact.key not in self.credits, "an entry stands until it is folded"
                self.credits[fact.key] = fact.body
            case EntriesFolded():
                for key in fact.keys:
                    del self.credits[key]
                for each in fact.carried:
                    self._apply(each)
            case RecoveryChanged():
                self.recovering = fact.on
            case TimeClosed():
                self.horizon_s = fact.horizon_s
            case TimePassed():
                self.passed = fact
            case RegisterStored():
                self.registers[fact.register] = fact.body
            case ReclaimStored():
                self.reclaims[fact.key] = fact.body
            case ReclaimDropped():
                self.reclaims.pop(fact.key, None)


class TakesParts:
    """Queues that take every part of a job in step; there are jobs in them, or there are none."""

    def __init__(self, *, jobs: bool = False) -> None:
        self.jobs = jobs
        self.asked: list[JobRequest] = []

    def has_job(self, rid: str) -> bool:
        return self.jobs

    def why_not_part(self, principal: Principal, part: JobRequest) -> None:
        self.asked.append(part)


class GuardedSite(Site):
    """Site with machines, and a batch system behind one."""

    backends: ClassVar = {f"{HERE}/pool": ResourceBackend("batch", ("n1", "n2", "n3"), {})}


class SiteWithoutJobs(Site):
    """A site that runs no jobs, perhaps no more."""

    wings = (NoJobs,)


# Messages, with everything that a test does not care about filled in


def visit(
    number: int,
    *wants: m.Want,
    att: int = 1,
    mode: str = "hold",
    principal: Principal = ANN,
    replaces: int | None = None,
    hold_ms: int = 30_000,
    parts: tuple[m.Part, ...] = PARTS,
    need: int | None = None,
    coords: tuple[str, ...] = COORDS,
    queue: bool = False,
    considered: bool = False,
) -> m.Visit:
    """The request's number is its stamp: smaller is older."""
    assert mode in ("hold", "vote")
    return m.Visit(
        rid=rid(number),
        att=att,
        stamp=number,
        mode="vote" if mode == "vote" else "hold",
        principal=principal,
        wants=wants,
        parts=parts,
        need=len(parts) if need is None else need,
        coords=coords,
        secret=secret_of(rid(number)),
        hold_ms=hold_ms,
        replaces="" if replaces is None else rid(replaces),
        queue=queue,
        considered=considered,
    )


def line_up(
    number: int,
    *wants: m.Want,
    att: int = 1,
    principal: Principal = ANN,
    replaces: int | None = None,
    considered: bool = False,
    hold_ms: int = 30_000,
) -> m.Visit:
    """A visit that waits in line where others hold what it wants."""
    return visit(
        number, *wants, att=att, principal=principal, replaces=replaces, queue=True,
        considered=considered, hold_ms=hold_ms,
    )  # fmt: skip


def list_up(
    number: int,
    *wants: m.Want,
    att: int = 1,
    principal: Principal = ANN,
    length_s: int = 60,
    seen: int = 0,
) -> m.Await:
    """A place on the waiting list for these windows."""
    return m.Await(
        rid=rid(number), att=att, stamp=number, principal=principal, wants=wants,
        length_s=length_s, seen=seen,
    )  # fmt: skip


def give(number: int, *hold_ids: int, att: int = 1) -> m.Give:
    return m.Give(rid=rid(number), att=att, hold_ids=hold_ids)


def release(number: int, *hold_ids: int, att: int = 1) -> m.Release:
    return m.Release(rid=rid(number), att=att, hold_ids=hold_ids)


def renew(
    number: int, *hold_ids: int, att: int = 1, hold_ms: int = 30_000, considered: bool = False
) -> m.Renew:
    return m.Renew(
        rid=rid(number), att=att, hold_ids=hold_ids, hold_ms=hold_ms, considered=considered
    )


def vote(number: int, *wants: m.Want, att: int = 1, replaces: int | None = None) -> m.Visit:
    return visit(number, *wants, att=att, mode="vote", replaces=replaces)


def prepare(number: int, *hold_ids: int, att: int = 1) -> m.Prepare:
    return m.Prepare(rid=rid(number), att=att, hold_ids=hold_ids, parts=PARTS, need=len(PARTS))


def commit(number: int, *hold_ids: int, att: int = 1) -> m.Decide:
    return m.Decide(rid=rid(number), att=att, outcome="commit", chosen=chosen(*hold_ids))


def abort(number: int, att: int = 1) -> m.Decide:
    return m.Decide(rid=rid(number), att=att, outcome="abort")


def chosen(*hold_ids: int) -> m.Chosen:
    return {"there": (7,)} | ({HERE: hold_ids} if hold_ids else {})


def peer_ask(number: int, att: int = 1, secret: str = "") -> m.PeerAsk:
    return m.PeerAsk(
        rid=rid(number),
        att=att,
        site="there",
        register=REGISTER,
        secret=secret or proofs.of_peer(KEY, rid(number), "there"),
        until=T0 + DAY + 100,
    )


def peer_says(
    number: int, says: str, *hold_ids: int, att: int = 1, site: str = "there"
) -> m.PeerSays:
    assert says in ("locked", "prepared", "never")
    return m.PeerSays(
        rid=rid(number),
        att=att,
        site=site,
        says="locked" if says == "locked" else "prepared" if says == "prepared" else "never",
        proofs={"here": proofs.of_commit(KEY, rid(number), att, hold_ids)}
        if says == "locked"
        else {},
        chosen=chosen(*hold_ids) if says == "locked" else {},
    )


def lock(site: Site, number: int, *wants: m.Want, replaces: int | None = None) -> None:
    """A whole reservation, from vote to commit."""
    visited = site.answer(vote(number, *wants, replaces=replaces))
    assert isinstance(visited, m.Visited)
    assert visited.vote == "yes", visited
    site.receive(commit(number, *(slot.hold_id for slot in visited.held)))
    assert set(site.states(number)) == {"locked"}


M = TypeVar("M", bound=m.Message)


def told(effects: ParticipantEffects, kind: type[M]) -> list[M]:
    """The messages of one kind that were sent, in order."""
    return [send.message for send in effects.sends if isinstance(send.message, kind)]


def about(
    effects: ParticipantEffects, kind: type[m.Grant | m.Recall | m.Locked | m.Awaited]
) -> list[int]:
    """The numbers of the requests that were told this, in order."""
    numbers = {rid(number): number for number in range(1_000)}
    return [numbers[message.rid] for message in told(effects, kind)]
