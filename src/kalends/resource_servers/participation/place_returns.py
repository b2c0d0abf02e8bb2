"""Places of jobs that wait at a site that is drained: their brokers are asked to find others.

The jobs keep their places until they have another, and run here where there is none. Their brokers know which
of them may go elsewhere: those that start at most once, and have not started. They are asked again and again,
for the queues of others move.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claim_table import ClaimTable
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.reclaim_reminders import REGISTER

ASK_EVERY_MS: Final = 60_000
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

    def advance(self, now: Moment) -> None:
        if not self.admission.draining:
            self._due_ms = 0
        elif self._due_ms <= now.monotonic_ms:
            self._due_ms = now.monotonic_ms + int(ASK_EVERY_MS * (1 + 0.2 * self.jitter()))
            for name in self.book.calendars:
                if machine_of(name):
                    self._ask_back(name)

    def next_deadline_ms(self) -> int | None:
        return self._due_ms if self.admission.draining else None

    def _ask_back(self, queue: str) -> None:
        calendar = self.book.calendars[queue].calendar
        booked = calendar.listing(0, limits.TIME_S_MAX, limits.LISTING_MAX)
        for rid in dict.fromkeys(each.reservation for each in booked if each.state == "locked"):
            stake = self.book.stakes.get(rid)
            for claim in stake.claims_in("locked") if stake is not None else ():
                if stake is not None and claim.resource == queue:
                    reclaim = m.Reclaim(
                        rid=rid, att=stake.att, resources=(queue,), start=claim.start, end=claim.end,
                        reason=WHY,
                    )  # fmt: skip
                    self.outbox.send(f"{REGISTER}{stake.register}", reclaim)
