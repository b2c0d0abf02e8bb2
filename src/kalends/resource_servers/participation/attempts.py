"""Which attempt of a request is the newest that the site knows: what comes of an older one is stale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kalends.contract import messages as m
from kalends.resource_servers.participation.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import Outbox


@dataclass(eq=False)
class Attempts:
    """`under_way` are the parts in which an attempt may be before it claims anything; 0 is none."""

    stakes: Stakes
    outbox: Outbox
    under_way: Sequence[Callable[[str], int]]

    def is_stale(self, source: str, rid: str, att: int) -> bool:
        """Whether a visit of this attempt comes too late; then its sender is told so."""
        stake = self.stakes.get(rid)
        seen = max(att_of(rid) for att_of in self.under_way)
        over = att < seen
        if stake is not None:
            seen = max(seen, stake.att, stake.refused)
            over = over or att <= stake.refused or att < stake.att or stake.decided
        if over:
            self.outbox.send(source, m.Stale(rid=rid, att=att, seen=seen))
        return over
