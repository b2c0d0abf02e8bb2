"""Nodes that fail in slots that have begun: reported to the brokers of these slots until they have noted it.

A slot that has not begun is moved to other nodes, or given up. One that has begun stays, with less than was
reserved, so its user has to know. What was reported is kept with the claims: after a restart the site knows
what a broker shows, and takes it back when the nodes are well again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec import structs

from kalends.contract import messages as m
from kalends.core.intervals import Moment
from kalends.core.limits import TEXT_MAX
from kalends.resource_servers.participation.claims.claim_sets import Claim, SlotLack
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.outbox import REGISTER, ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.repeats import AT_ONCE, Repeats


@dataclass(eq=False)
class LossReports:
    """The reports are in the stakes; here are those that are not noted yet, by request and resource."""

    stakes: Stakes
    claims: Claims
    outbox: ParticipantOutbox
    new_number: Callable[[], int]
    jitter: Callable[[], float]
    _untold: Repeats[tuple[str, str]] = field(init=False, default_factory=Repeats)

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.RECORDS,
            handles=[on(m.LossNoted, lambda source, noted, now: self.noted(noted))],
            timed=self,
            broker_came=self.tell_all,
        )

    def seen(self, rid: str, resource: str, nodes: int, why: str, now: Moment) -> None:
        """Take it that `nodes` units of the slots of `rid` that have begun cannot be used, perhaps again."""
        stake = self.stakes.peek(rid)
        if stake is None or not _has_slot(stake.claims_in("locked"), resource, now):
            return
        known = stake.nodes_out.get(resource)
        if nodes == (known.nodes if known is not None else 0):
            if known is not None and not known.noted and (rid, resource) not in self._untold:
                self._remind(rid, resource, now)  # An earlier life has reported it.
            return
        lack = SlotLack(self.new_number(), nodes, now.wall_s, why[:TEXT_MAX] if nodes else "")
        stake = self.stakes[rid]
        self.claims.keep_lacks(stake, {**stake.nodes_out, resource: lack})
        self._untold[rid, resource] = AT_ONCE
        self._remind(rid, resource, now)

    def noted(self, noted: m.LossNoted) -> None:
        """The broker shows this to the user, or has no such reservation."""
        stake = self.stakes.peek(noted.rid)
        known = stake.nodes_out.get(noted.resource) if stake is not None else None
        if known is None or known.noted or known.number != noted.number:
            return
        stake = self.stakes[noted.rid]
        others = {name: each for name, each in stake.nodes_out.items() if name != noted.resource}
        left = {noted.resource: structs.replace(known, noted=True)} if known.nodes else {}
        self.claims.keep_lacks(stake, {**others, **left})
        self._untold.pop((noted.rid, noted.resource), None)

    def tell_all(self, now: Moment) -> None:
        """Report again what is not noted: a broker has come that may not know it."""
        for rid, resource in list(self._untold):
            self._tell(rid, resource, now)

    def advance(self, now: Moment) -> None:
        for rid, resource in self._untold.due(now):
            self._remind(rid, resource, now)

    def next_deadline_ms(self) -> int | None:
        return self._untold.next_deadline_ms()

    def _remind(self, rid: str, resource: str, now: Moment) -> None:
        turn = self._untold.get((rid, resource), AT_ONCE)
        self._untold[rid, resource] = turn.reminded(now, self.jitter())
        self._tell(rid, resource, now)

    def _tell(self, rid: str, resource: str, now: Moment) -> None:
        """Report it to all brokers of the register; a slot that has ended is forgotten."""
        stake = self.stakes.peek(rid)
        lack = stake.nodes_out.get(resource) if stake is not None else None
        if stake is None or lack is None or not _has_slot(stake.claims_in("locked"), resource, now):
            self._untold.pop((rid, resource), None)
            return
        news = m.SlotLoss(
            rid=rid,
            att=stake.att,
            resource=resource,
            number=lack.number,
            nodes=lack.nodes,
            at=lack.at,
            detail=lack.why,
        )
        self.outbox.send(f"{REGISTER}{stake.register}", news)


def _has_slot(locked: list[Claim], resource: str, now: Moment) -> bool:
    return any(each.resource == resource and each.end > now.wall_s for each in locked)
