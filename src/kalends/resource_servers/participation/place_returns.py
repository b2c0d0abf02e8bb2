"""Places of jobs that wait or run at a site that is drained: their brokers are asked to find others.

The jobs keep their places until they have another, and run here where there is none. Their brokers know which
of them may go elsewhere: those that start at most once, and have not started, and those that may start again.
They are asked again and again, for the queues of others move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claim_table import ClaimTable
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.places import locked_places
from kalends.resource_servers.participation.reclaim_reminders import REGISTER

ASK_AGAIN_MS: Final = 60_000
ASK_AGAIN_MS_MAX: Final = 3_600_000
"""Each question that finds no place leaves a row at its broker: it is repeated less and less often."""

WHY: Final = "its site is drained"


@dataclass(eq=False)
class PlaceReturns:
    """Asks while the operator drains the site."""

    book: ClaimTable
    admission: Admission
    outbox: ParticipantOutbox
    jitter: Callable[[], float]
    _due_ms: int = field(init=False, default=0)
    """When they are asked next (monotonic); 0: at once, when the site is drained."""
    _every_ms: int = field(init=False, default=ASK_AGAIN_MS)

    def advance(self, now: Moment) -> None:
        if not self.admission.draining:
            self._due_ms, self._every_ms = 0, ASK_AGAIN_MS
        elif self._due_ms <= now.monotonic_ms:
            self._due_ms = now.monotonic_ms + int(self._every_ms * (1 + 0.2 * self.jitter()))
            self._every_ms = min(2 * self._every_ms, ASK_AGAIN_MS_MAX)
            for stake, claim in locked_places(self.book):
                self._ask_back(stake, claim)

    def next_deadline_ms(self) -> int | None:
        return self._due_ms if self.admission.draining else None

    def _ask_back(self, stake: Stake, claim: Claim) -> None:
        reclaim = m.Reclaim(
            rid=stake.rid, att=stake.att, resources=(claim.resource,), start=claim.start,
            end=claim.end, reason=WHY,
        )  # fmt: skip
        self.outbox.send(f"{REGISTER}{stake.register}", reclaim)
