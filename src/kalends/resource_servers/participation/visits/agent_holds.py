"""Holds for the choices of agents, and of the site's default: each slot is checked anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kalends.agents.world.offers import Offer
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.core.scripts import HeldChoice
from kalends.resource_servers.participation.admission import Admission
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.occupancy import buffered, pieces_beyond
from kalends.resource_servers.participation.contention.room import FreeRoom
from kalends.resource_servers.participation.contention.wait_queue import Holder
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.this_site import FenceNumbers
from kalends.resource_servers.participation.visits.agent_visits import AgentVisit, SlotChoice


@dataclass(eq=False)
class AgentHolds:
    """Holds what agents choose, under the same rules and limits as any other visit.

    `held` is told of every new holder.
    """

    book: ClaimTable
    claims: Claims
    room: FreeRoom
    admission: Admission
    registers: Registers
    numbers: FenceNumbers
    held_max: int
    held: Callable[[str, Holder], None]

    def hold(
        self, visit: AgentVisit, choice: SlotChoice, now: Moment
    ) -> tuple[tuple[HeldChoice, ...], tuple[Refusal, ...], Offer | None]:
        """Hold as many slots of `choice` as may be held together, in its order.

        Returns these, the refusals of others (one of each kind), and the first that has no room.
        """
        user = visit.dispatch.principal.user
        room = min(self.held_max, limits.CHOICES_MAX, self.admission.room_of(user))
        stake = self._new_stake(visit)
        held: list[HeldChoice] = []
        refusals: dict[tuple[str, str], Refusal] = {}
        taken: Offer | None = None
        for offer in choice.slots:
            if len(stake.claims) >= room:
                break
            want = m.Want(offer.resource, offer.start, offer.end, offer.units)
            refusal = self.admission.why_not_slot(
                visit.dispatch.rid, visit.dispatch.principal, want, visit.dispatch.pays, now
            )
            if refusal is not None:
                refusals.setdefault((refusal.where, refusal.code), refusal)
                continue
            claim = Claim(
                0, offer.resource, offer.start, offer.end, offer.units, common=offer.common
            )
            if self.book.buffers.kept:
                self.book.give_buffers((claim,))
            if not self.is_free(stake, claim):
                taken = taken or offer
                continue
            claim.hold_id = self.numbers.new()
            stake.claims.append(claim)
            held.append(offer.held_as(claim.hold_id))
        if room <= 0:
            refusal = self.admission.too_many_holds()
            refusals[refusal.where, refusal.code] = refusal
        if stake.claims:
            self._take_holds(visit, stake, now)
        return tuple(held), tuple(refusals.values()), taken

    def _new_stake(self, visit: AgentVisit) -> Stake:
        dispatch = visit.dispatch
        before = self.book.stakes.get(dispatch.rid)
        assert before is None or not before.claims, before
        known = before.register if before is not None else ""
        return Stake(
            rid=dispatch.rid,
            att=dispatch.att,
            principal=dispatch.principal,
            secret=dispatch.secret,
            need=dispatch.need,
            parts=dispatch.parts,
            coords=dispatch.coords,
            stamp=dispatch.stamp,
            claims=[],
            refused=before.refused if before is not None else 0,
            ends_at=before.ends_at if before is not None else 0,
            register=known or self.registers.of_visit(visit.asker, dispatch),
            petition=before.petition if before is not None else None,
        )

    def is_free(self, stake: Stake, claim: Claim) -> bool:
        """Whether `claim` could be held as well, and nobody before this request needs that room."""
        if not self.book.has_room_for(stake, claim):
            return False
        order = self.room.order_of(stake.principal, stake.stamp, stake.rid, (claim,))
        together = [each for each in stake.claims if each.common == claim.common]
        pieces = pieces_beyond(buffered([*together, claim]), ())
        return all(self.room.is_for(order, piece) for piece in pieces) and not (
            self.room.places.lacking(pieces)
        )

    def _take_holds(self, visit: AgentVisit, stake: Stake, now: Moment) -> None:
        if self.admission.payments.charges:
            bill = self.admission.payments.price(stake, visit.dispatch.pays, None)
            self.claims.bill(stake, bill)
        until_ms = self.admission.hold_until_ms(visit.dispatch.hold_ms, now)
        self.claims.hold_chosen(stake, until_ms)
        self.held(stake.rid, Holder(visit.asker))
