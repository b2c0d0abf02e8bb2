"""The newest attempt of each request: messages of an older one are stale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kalends.contract import messages as m
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import ParticipantOutbox


@dataclass(eq=False)
class LiveAttempts:
    """`under_way` returns the attempt of a request before it claims anything, or 0."""

    stakes: Stakes
    outbox: ParticipantOutbox
    under_way: Callable[[str], int]

    def is_stale(self, source: str, rid: str, att: int) -> bool:
        """Whether a visit of this attempt comes too late; its sender is informed."""
        stake = self.stakes.get(rid)
        seen = self.under_way(rid)
        over = att < seen
        if stake is not None:
            seen = max(seen, stake.att, stake.refused)
            over = over or att <= stake.refused or att < stake.att or stake.decided
        if over:
            self.outbox.send(source, m.Stale(rid=rid, att=att, seen=seen))
        return over
