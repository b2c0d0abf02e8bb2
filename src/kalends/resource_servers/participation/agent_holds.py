"""Holding what an agent, or the site's default, has chosen: each slot checked anew, claim by claim."""

from __future__ import annotations

from kalends.agents.world.offers import Offer
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.errors import Refusal, RefusalCode
from kalends.core.intervals import Moment
from kalends.core.scripts import HeldChoice
from kalends.resource_servers.participation.agent_recalls import Recalling
from kalends.resource_servers.participation.agent_visits import AgentVisit, Choice
from kalends.resource_servers.participation.claim_sets import Claim, Stake
from kalends.resource_servers.participation.occupancy import pieces_beyond
from kalends.resource_servers.participation.wait_queue import Holder


class Holding(Recalling):
    """The owner's rules and limits are those of any other visit."""

    def _hold(
        self, visit: AgentVisit, choice: Choice, now: Moment
    ) -> tuple[tuple[HeldChoice, ...], tuple[Refusal, ...], Offer | None]:
        """Hold as many slots of `choice` as may be held together, in its order.

        Returns these, the refusals of others (one of each kind), and the first that has no room.
        """
        user = visit.dispatch.principal.user
        room = min(self._agents.held_max, limits.CHOICES_MAX, self._room_of(user))
        stake = self._new_stake(visit)
        held: list[HeldChoice] = []
        refusals: dict[tuple[str, str], Refusal] = {}
        taken: Offer | None = None
        for offer in choice.slots:
            if len(stake.claims) >= room:
                break
            refusal = self._refuse_slot(visit, offer, now)
            if refusal is not None:
                refusals.setdefault((refusal.where, refusal.code), refusal)
                continue
            claim = _claim_of(offer)
            if not self.book.has_room_for(stake, claim) or self._is_kept(stake, claim):
                taken = taken or offer
                continue
            claim.hold_id = self.numbers.new()
            stake.claims.append(claim)
            held.append(offer.held_as(claim.hold_id))
        if room <= 0:
            refusal = self._refuse_more_holds()
            refusals[refusal.where, refusal.code] = refusal
        if stake.claims:
            self._take_holds(visit, stake, now)
        return tuple(held), tuple(refusals.values()), taken

    def _new_stake(self, visit: AgentVisit) -> Stake:
        dispatch = visit.dispatch
        before = self.book.stakes.get(dispatch.rid)
        assert before is None or not before.claims, before
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
            register=self._belongs_to(before, visit.asker, dispatch),
        )

    def _refuse_slot(self, visit: AgentVisit, offer: Offer, now: Moment) -> Refusal | None:
        if offer.end <= self.retention.horizon_s:
            return self.here.refusal(RefusalCode.PAST, "the records of that time are closed")
        if closed := self.set_aside.refusal(offer.start):
            return self.here.refusal(RefusalCode.DRAINED, closed)
        want = m.Want(offer.resource, offer.start, offer.end, offer.units)
        found = self.book.refusals(visit.dispatch.principal, [want], ("hold",), now.wall_s)
        return found[0] if found else None

    def _is_kept(self, stake: Stake, claim: Claim) -> bool:
        """Whether others before this request need that room, or some of what goes with it."""
        order = self._order_of(stake.principal, stake.stamp, stake.rid, (claim,))
        together = [each for each in stake.claims if each.common == claim.common]
        return not all(
            self._has_room(order, piece) for piece in pieces_beyond([*together, claim], ())
        )

    def _take_holds(self, visit: AgentVisit, stake: Stake, now: Moment) -> None:
        hold_ms = min(visit.dispatch.hold_ms, self._limits.hold_ms_max)
        self.claims.hold_chosen(stake, now.monotonic_ms + hold_ms)
        self._holders[stake.rid] = Holder(visit.asker)

    def _room_of(self, user: str) -> int:
        """How many more claims this user may hold here."""
        return self._limits.held_per_principal_max - self.book.count(user, "held")

    def _refuse_more_holds(self) -> Refusal:
        count_max = self._limits.held_per_principal_max
        detail = f"more than {count_max} claims of one user would be held at once"
        return self.here.refusal(RefusalCode.LIMIT, detail)


def _claim_of(offer: Offer) -> Claim:
    return Claim(0, offer.resource, offer.start, offer.end, offer.units, common=offer.common)
