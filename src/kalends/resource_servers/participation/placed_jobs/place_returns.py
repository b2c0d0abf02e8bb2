"""Places of jobs that would be better off elsewhere: their brokers are asked to find others.

That is so for all that wait or run at a site that is drained, and for those that have lost their nodes and
wait again. The jobs keep their places until they have another, and run here where there is none. Their
brokers know which of them may go elsewhere: those that start at most once, and have not started, and those
that may start again. They are asked again and again, for the queues of others move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.contract import messages as m
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.outbox import REGISTER, ParticipantOutbox
from kalends.resource_servers.participation.placed_jobs.places import locked_places
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeat, Repeats

ASK_AGAIN_MS: Final = 60_000
ASK_AGAIN_MS_MAX: Final = 3_600_000
"""Each question that finds no place leaves a row at its broker: it is repeated less and less often."""

DRAINED: Final = "its site is drained"
NODES_LOST: Final = "it has lost its nodes, and waits there again"


@dataclass(eq=False)
class PlaceReturns:
    """Asks for all places while the operator drains the site, else for those of jobs that wait again."""

    book: ClaimTable
    admission: Admission
    outbox: ParticipantOutbox
    jitter: Callable[[], float]
    _of_all: Repeat = field(init=False, default=AT_ONCE)
    _waiting: Repeats[str] = field(init=False, default_factory=Repeats)
    """Requests whose jobs have lost their nodes, and have no others here yet."""

    def note(self, rid: str, *, waits_again: bool) -> None:
        """Note whether the job of a request has lost its nodes and waits, or has others, or is over."""
        if waits_again:
            self._waiting.setdefault(rid, AT_ONCE)
        else:
            self._waiting.pop(rid, None)

    def advance(self, now: Moment) -> None:
        if not self.admission.draining:
            self._of_all = AT_ONCE
            for rid in self._waiting.due(now):
                self._waiting[rid] = self._next(self._waiting[rid], now)
                self._ask_for(rid)
        elif self._of_all.is_due(now):
            self._of_all = self._next(self._of_all, now)
            for stake, claim in locked_places(self.book):
                self._ask_back(stake, claim, DRAINED)

    def next_deadline_ms(self) -> int | None:
        if self.admission.draining:
            return self._of_all.due_ms
        return self._waiting.next_deadline_ms()

    def _next(self, turn: Repeat, now: Moment) -> Repeat:
        return turn.next(now, self.jitter(), ASK_AGAIN_MS, ASK_AGAIN_MS_MAX)

    def _ask_for(self, rid: str) -> None:
        stake = self.book.stakes.get(rid)
        for claim in stake.claims_in("locked") if stake is not None else ():
            if stake is not None and machine_of(claim.resource):
                self._ask_back(stake, claim, NODES_LOST)

    def _ask_back(self, stake: Stake, claim: Claim, why: str) -> None:
        reclaim = m.Reclaim(
            rid=stake.rid, att=stake.att, resources=(claim.resource,), start=claim.start,
            end=claim.end, reason=why,
        )  # fmt: skip
        self.outbox.send(f"{REGISTER}{stake.register}", reclaim)
