"""Ends of jobs that brokers have placed here: told until they are noted, by all replicas at once.

A broker that is away hears of them when it is back. They are kept in memory; the next life of the site has
them from what its queues have stored of jobs that are over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.contract import messages as m
from kalends.contract.calls import PlacedEnd
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import REGISTER, ParticipantOutbox
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeat

SAY_AGAIN_MS: Final = 1_000
SAY_AGAIN_MS_MAX: Final = 900_000

UNTOLD_MAX: Final = 1_000
"""Maximum reports kept. The oldest are dropped first; brokers assume that those jobs run to their limits."""


@dataclass(eq=False)
class EndReports:
    """Says, and says again, how jobs have ended whose places are locked here, or were."""

    stakes: Stakes
    outbox: ParticipantOutbox
    jitter: Callable[[], float]
    _untold: dict[str, PlacedEnd] = field(init=False, default_factory=dict)
    _turn: Repeat = field(init=False, default=AT_ONCE)
    """When all are told again."""

    def ended(self, rid: str, end: PlacedEnd, now: Moment) -> None:
        """The job of the request has ended."""
        if not self._untold:
            self._rest(AT_ONCE, now)
        self._untold[rid] = end
        if len(self._untold) > UNTOLD_MAX:
            del self._untold[next(iter(self._untold))]
        self._say(rid)

    def noted(self, noted: m.EndNoted) -> None:
        self._untold.pop(noted.rid, None)

    def met(self, register: str) -> None:
        """A broker is connected, and may have missed some of its own."""
        for rid in [*self._untold]:
            stake = self.stakes.peek(rid)
            if stake is not None and stake.register == register:
                self._say(rid)

    def advance(self, now: Moment) -> None:
        if self._untold and self._turn.is_due(now):
            self._rest(self._turn, now)
            for rid in [*self._untold]:
                self._say(rid)

    def next_deadline_ms(self) -> int | None:
        return self._turn.due_ms if self._untold else None

    def _rest(self, turn: Repeat, now: Moment) -> None:
        self._turn = turn.next(now, self.jitter(), SAY_AGAIN_MS, SAY_AGAIN_MS_MAX)

    def _say(self, rid: str) -> None:
        stake, end = self.stakes.peek(rid), self._untold[rid]
        if stake is None or not stake.decided:
            del self._untold[rid]
            return
        ended = m.EndOfJob(
            rid=rid, att=stake.att, end=end.end, status=end.status, at=end.at, ran_s=end.ran_s
        )
        self.outbox.send(f"{REGISTER}{stake.register}", ended)
