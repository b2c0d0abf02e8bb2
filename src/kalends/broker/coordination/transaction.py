"""A request that a broker is working on: what all parts share, and the records of single parts.

`Look`, `ListNews` and `AgentRound` are each written by the part that the docstring names, and by
nothing else; others read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kalends.broker.coordination.agents.itinerary import Tour
from kalends.broker.coordination.phases import NEXT_PHASE, Phase, PhaseEvent
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.trust.answer_checks import SiteQuestion
from kalends.broker.planning.needs import BarredNeeds
from kalends.broker.planning.planner import Free, Key
from kalends.broker.planning.polling.polls import Poll
from kalends.broker.planning.price_lists import NOTHING_PRICED, PriceLists
from kalends.contract.calls import Event
from kalends.contract.costs import NOT_TOLD, Cost
from kalends.contract.messages import Freed, OwnerSays, RoomNeed, Want
from kalends.core.errors import IllegalEvent, Refusal
from kalends.core.identifiers import split_resource


@dataclass(slots=True)
class Branch:
    """The question to one site in the current attempt, and its answer."""

    site: str
    wants: tuple[Want, ...]
    hold_ids: tuple[int, ...] = ()
    voted: bool = False
    done: bool = False
    freed: bool = False
    """It has said Done to a Cancel."""
    surplus: tuple[int, ...] = ()
    """What an agent has held here besides: given up, until that has been heard."""
    ahead: int = -1
    """How many are before it in line here; -1: it does not wait here."""
    awaits: tuple[Refusal, ...] = ()
    """What it waits for here."""
    approval: bool = False
    """Its owner has to approve what is held here, before it is promised."""
    owner: OwnerSays | None = None
    """What was last heard of that."""
    cost: Cost | None = None
    """What its promise costs."""
    refund: int = NOT_TOLD
    """What a cancel has paid back."""


@dataclass(slots=True)
class Look:
    """Questions to sites about free time, and their answers; written by `SlotSearch`."""

    wanted: dict[str, tuple[Want, ...]] = field(default_factory=dict)
    """What was looked at last, by site."""
    counting: Literal["all", "locked"] = "all"
    """Which claims of others count as taken."""
    poll: Poll | None = None
    """The sites to ask, and when the look is over."""
    queries: dict[int, SiteQuestion] = field(default_factory=dict)
    """The queries that are not answered yet, by number."""
    free: Free = field(default_factory=dict)
    needs: tuple[RoomNeed, ...] = ()
    """What the request needs, for sites to say which of it their owners' rules refuse."""
    barred: BarredNeeds = field(default_factory=dict)
    """What they have said of it."""
    contested: bool = False
    """Some of what was shown is held by others, or waited for."""
    seen: Free = field(default_factory=dict)
    """What was free at the last look that counted all claims of others."""
    unreached: set[str] = field(default_factory=set)
    """Sites that were gone when they were to be asked for their slots."""
    prices: PriceLists = NOTHING_PRICED
    """What sites have shown of their prices."""
    approval: set[str] = field(default_factory=set)
    """Resources whose owners have to approve what this user books."""

    @property
    def silent(self) -> list[str]:
        """The sites that have not answered."""
        return sorted({asked.site for asked in self.queries.values()})


@dataclass(slots=True)
class ListNews:
    """The waiting lists it stands on, and what they have told; written by `WaitingLists`."""

    listed: set[str] = field(default_factory=set)
    """Sites on whose waiting lists it stands."""
    offering: set[str] = field(default_factory=set)
    """Sites that have offered something, and wait to hear what comes of it."""
    hoped: list[Freed] = field(default_factory=list)
    """What has come free since the last look, as far as lists have offered it."""
    stirred: bool = False
    """Something may have come free that no look has seen."""
    heard: dict[str, int] = field(default_factory=dict)
    """The number of the last news of each list."""
    asked_after: dict[str, int] = field(default_factory=dict)
    """The same, when the present look asked the site."""
    looked_into: dict[str, int] = field(default_factory=dict)
    """The same, of the last look that the site has answered."""
    dear: set[tuple[str, str]] = field(default_factory=set)
    """Resources whose lists have passed it over because of their price, and why: it was told."""


@dataclass(slots=True)
class AgentRound:
    """The agent on its way; written by `AgentDispatch`."""

    source: str = ""
    """The source of the agent's script."""
    tour: Tour | None = None
    """Its round, while it is on its way."""


@dataclass(slots=True)
class Tries:
    """Starts that were tried (noted by planning), and why they failed (noted by answers)."""

    rounds: int = 0
    """Times that planned slots turned out to be taken."""
    planned: Key | None = None
    """What is being tried: an alternative and its common start."""
    excluded: set[Key] = field(default_factory=set)
    """What was planned and turned out to be taken."""
    shunned: dict[str, Refusal] = field(default_factory=dict)
    """Resources and sites that refuse this user for good, and how: not asked again."""
    silent: set[str] = field(default_factory=set)
    """Sites that did not answer when slots were asked for there: a plan without them is better."""
    unkept: set[str] = field(default_factory=set)
    """Sites whose place was the best, and who then did not promise it: others are asked instead."""
    refusals: list[Refusal] = field(default_factory=list)
    """Why the last try failed, or what is missing for the next."""
    look_first: bool = False
    """The slots were taken: they are looked at before they are asked for again."""

    @property
    def excluded_starts(self) -> frozenset[int]:
        """The excluded starts of the only alternative that an agent chooses for."""
        return frozenset(start for _, start in self.excluded)

    def shuns(self, resource: str) -> bool:
        """Whether `resource`, or all of its site, refuses this user for good."""
        if not self.shunned:
            return False
        return resource in self.shunned or split_resource(resource)[0] in self.shunned


@dataclass(slots=True)
class Transaction:
    """`deadline_ms`, `phase_deadline_ms` and `resend_at_ms` are monotonic; 0 means none."""

    rid: str
    record: Record
    deadline_ms: int
    number: int
    """No other case of this replica, not even of the same request, has it."""
    _phase: Phase = field(default="new", init=False)
    phase_deadline_ms: int = 0
    late_since_ms: int = 0
    """When it was first seen that, by the clock, the time of waiting is over (monotonic)."""
    resend_at_ms: int = 0
    resend_every_ms: int = 0
    renew_at_ms: int = 0
    parts: dict[str, Branch] = field(default_factory=dict)
    look: Look = field(default_factory=Look)
    lists: ListNews = field(default_factory=ListNews)
    agent: AgentRound = field(default_factory=AgentRound)
    tries: Tries = field(default_factory=Tries)
    tickets: list[int] = field(default_factory=list)
    untold: list[Event] = field(default_factory=list)
    """What has happened, but is not durable yet: nobody has been told."""
    noted: bool = False
    """What is held has been written down: who asks may be told."""
    cancel_wanted: bool = False
    lock_wanted: bool = False
    stale: set[str] = field(default_factory=set)
    """Sites that called the attempt stale; the register is being read."""

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def fixed(self) -> bool:
        """Whether the request names its slots, so that no planning is possible."""
        return bool(self.record.spec.wants)

    @property
    def waits_for_sites(self) -> bool:
        """It waits for sites to answer, and stands on no list."""
        return self._phase == "waiting" and not self.parts

    @property
    def awaited(self) -> tuple[Refusal, ...]:
        """The slots that the request waits for in lines."""
        return tuple(dict.fromkeys(each for part in self.parts.values() for each in part.awaits))

    def enter(self, event: PhaseEvent) -> None:
        """Go where `event` leads. Raises `IllegalEvent` when the table of `phases` does not say where."""
        after = NEXT_PHASE[self._phase].get(event)
        if after is None:
            raise IllegalEvent(f"{self.rid}: {event} means nothing while {self._phase}")
        self._phase = after
        self.phase_deadline_ms = 0
        self.resend_at_ms = 0
        self.resend_every_ms = 0


def by_site(wants: tuple[Want, ...]) -> dict[str, tuple[Want, ...]]:
    """`wants` grouped by the site of their resource, both in order."""
    grouped: dict[str, list[Want]] = {}
    for want in wants:
        grouped.setdefault(split_resource(want.resource)[0], []).append(want)
    return {site: tuple(of_site) for site, of_site in grouped.items()}
