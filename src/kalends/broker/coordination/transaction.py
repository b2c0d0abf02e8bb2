"""A request that a broker is working on: its record, its phase, and what each site has said.

========== ======================================== ============================================
phase      what is going on                         left by
========== ======================================== ============================================
looking    sites were asked what is free            all views, or the time to look is over
touring    sites hold what an agent chooses there   all reports, or the time to vote is over
voting     slots were asked for, promised at once   all yes, a no, or the time to vote is over
holding    slots were asked for, to be held; where  all held, a no, or the time is over
           others hold them it waits in line
held       all held, the user considers             lock, release, the end of the hold
waiting    on waiting lists, holding nothing        something has come free, the deadline
preparing  holds are to be promised                 all yes, a no, or the time to vote is over
committing the register is asked to commit          its answer
raising    the register is asked for a new attempt  its answer
closing    the register is asked to close           its answer
telling    committed; sites are told until done     all Done
cancelling cancelled; sites are told until done     all Done
========== ======================================== ============================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from kalends.broker.coordination.decision_record import Record
from kalends.broker.coordination.hearing import Asked
from kalends.broker.coordination.itinerary import Tour
from kalends.broker.coordination.plain_data import plain_data
from kalends.broker.planning.planner import Free, Key
from kalends.broker.planning.polling.polls import Poll
from kalends.contract.calls import AgentNote, ClaimView, Event, RequestView
from kalends.contract.messages import Freed, Want
from kalends.core.errors import IllegalEvent, KalendsError, Problem, Refusal
from kalends.core.identifiers import split_resource

Phase = Literal[
    "new", "looking", "touring", "voting", "holding", "held", "waiting", "preparing", "committing", "raising",
    "closing", "telling", "cancelling", "over",
]  # fmt: skip

NEXT_PHASES: Final[dict[Phase, frozenset[Phase]]] = {
    "new": frozenset(
        {
            "looking",
            "touring",
            "voting",
            "holding",
            "waiting",
            "raising",
            "closing",
            "telling",
            "cancelling",
        }
    ),
    "looking": frozenset({"voting", "holding", "waiting", "closing", "over"}),
    "touring": frozenset({"held", "preparing", "raising", "closing", "over"}),
    "voting": frozenset({"committing", "raising", "closing", "over"}),
    "holding": frozenset({"held", "preparing", "raising", "closing", "over"}),
    "held": frozenset({"preparing", "raising", "closing", "over"}),
    "waiting": frozenset({"looking", "closing", "over"}),
    "preparing": frozenset({"committing", "raising", "closing", "over"}),
    "committing": frozenset({"telling", "closing", "over"}),
    "raising": frozenset({"looking", "touring", "holding", "waiting", "closing", "over"}),
    "closing": frozenset({"over"}),
    "telling": frozenset({"cancelling", "over"}),
    "cancelling": frozenset({"over"}),
    "over": frozenset(),
}


@dataclass(slots=True)
class SitePart:
    """What one site was asked in the current attempt, and what it has answered."""

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


@dataclass(slots=True)
class Case:
    """`deadline_ms`, `phase_deadline_ms` and `resend_at_ms` are monotonic; 0 means none."""

    rid: str
    record: Record
    deadline_ms: int
    number: int
    """No other case of this replica, not even of the same request, has it."""
    phase: Phase = "new"
    parts: dict[str, SitePart] = field(default_factory=dict)
    tickets: list[int] = field(default_factory=list)
    phase_deadline_ms: int = 0
    late_since_ms: int = 0
    """When it was first seen that, by the clock, the time of waiting is over (monotonic)."""
    resend_at_ms: int = 0
    resend_every_ms: int = 0
    renew_at_ms: int = 0
    rounds: int = 0
    """Times that planned slots turned out to be taken."""
    poll: Poll | None = None
    """Whom the look asks, and when it is over."""
    queries: dict[int, Asked] = field(default_factory=dict)
    """Those of this look that are not answered yet."""
    free: Free = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    planned: Key | None = None
    """What is being tried: an alternative and its common start."""
    excluded: set[Key] = field(default_factory=set)
    seen: Free = field(default_factory=dict)
    """What was free at the last look that counted all claims of others."""
    counting: Literal["all", "locked"] = "all"
    """Which claims of others count as taken in this look."""
    contested: bool = False
    """Some of what this look has shown is held by others, or waited for."""
    wanted: dict[str, tuple[Want, ...]] = field(default_factory=dict)
    """What was looked at last, by site."""
    look_first: bool = False
    """The slots were taken: they are looked at before they are asked for again."""
    stirred: bool = False
    """Something may have come free that no look has seen."""
    hoped: list[Freed] = field(default_factory=list)
    """What has come free since the last look, as far as lists have offered it."""
    offering: set[str] = field(default_factory=set)
    """Sites that have offered something, and wait to hear what comes of it."""
    listed: set[str] = field(default_factory=set)
    """Sites on whose waiting lists it stands."""
    unreached: set[str] = field(default_factory=set)
    """Sites that were gone when they were to be asked for their slots."""
    heard: dict[str, int] = field(default_factory=dict)
    """The number of the last news of each list."""
    asked_after: dict[str, int] = field(default_factory=dict)
    """The same, when this look asked the site."""
    looked_into: dict[str, int] = field(default_factory=dict)
    """The same, of the last look that the site has answered."""
    shunned: dict[str, Refusal] = field(default_factory=dict)
    """Resources and sites that refuse this user for good, and how: not asked again."""
    untold: list[Event] = field(default_factory=list)
    """What has happened, but is not durable yet: nobody has been told."""
    source: str = ""
    """Of the agent's script."""
    tour: Tour | None = None
    """The agent's round, while it is on its way."""
    noted: bool = False
    """What is held has been written down: who asks may be told."""
    cancel_wanted: bool = False
    lock_wanted: bool = False
    stale: bool = False
    """A site called the attempt stale; the register is being read."""

    @property
    def excluded_starts(self) -> frozenset[int]:
        """Of the only alternative that an agent chooses for."""
        return frozenset(start for _, start in self.excluded)

    @property
    def fixed(self) -> bool:
        """Only these slots will do: there is nothing to plan again."""
        return bool(self.record.spec.wants)

    @property
    def awaited(self) -> tuple[Refusal, ...]:
        """What it waits for in lines."""
        return tuple(dict.fromkeys(each for part in self.parts.values() for each in part.awaits))

    def shuns(self, resource: str) -> bool:
        """Whether `resource`, or all of its site, refuses this user for good."""
        return resource in self.shunned or split_resource(resource)[0] in self.shunned

    def enter(self, phase: Phase) -> None:
        """Raises `IllegalEvent` when the table above does not lead there."""
        if phase not in NEXT_PHASES[self.phase]:
            raise IllegalEvent(f"{self.rid}: {self.phase} cannot become {phase}")
        self.phase = phase
        self.phase_deadline_ms = 0
        self.resend_at_ms = 0
        self.resend_every_ms = 0


def by_site(wants: tuple[Want, ...]) -> dict[str, tuple[Want, ...]]:
    """`wants` grouped by the site of their resource, both in order."""
    grouped: dict[str, list[Want]] = {}
    for want in wants:
        grouped.setdefault(split_resource(want.resource)[0], []).append(want)
    return {site: tuple(of_site) for site, of_site in grouped.items()}


def view_of(
    record: Record, *, confirmed: frozenset[str] | None = None, changing: str = ""
) -> RequestView:
    """`record` as its user sees it. `confirmed`: sites that have said Done (None: by the record)."""
    wants = record.wants or record.spec.wants
    reserved = record.state in ("commit", "cancelled", "replaced")
    claims = tuple(
        ClaimView(
            resource=want.resource,
            start=want.start,
            end=want.end,
            units=want.units,
            confirmed=reserved
            and (
                record.done if confirmed is None else split_resource(want.resource)[0] in confirmed
            ),
        )
        for want in wants
    )
    return RequestView(
        id=record.reservation,
        state=record.public_state,
        user=record.user,
        text=record.spec.text,
        created_at=record.created_ms // 1000,
        start=min((want.start for want in wants), default=0),
        end=max((want.end for want in wants), default=0),
        claims=claims,
        attempts=record.att,
        expires_at=record.held_until_ms // 1000 if record.public_state == "held" else 0,
        note=record.spec.request.note,
        agent=record.spec.agent,
        script=record.spec.script,
        notes=tuple(
            AgentNote(at_ms=left.at_ms, site=left.site, value=plain_data(left.text, "notes"))
            for left in record.left
        ),
        changing=changing,
        waiting=record.waiting if record.state == "open" else None,
        recalled_until=record.recalled_until if record.public_state == "held" else 0,
        problem=record.problem,
    )


def problem_of(error: KalendsError, rid: str) -> Problem:
    error.request_id = rid
    return error.to_problem()
