"""Comparison of the promises of a site with the decisions of a register, page by page.

What the site has forgotten, because an older image of its store was restored, is locked again.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, Literal

from kalends.calendars.rules.blackouts import RECLAIMED
from kalends.contract import messages as m
from kalends.contract import proofs
from kalends.contract.costs import NOT_TOLD, Cost
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.identifiers import machine_of
from kalends.core.intervals import Moment
from kalends.core.money import PIECES_MAX
from kalends.resource_servers.participation.claims.claim_sets import Claim, Stake
from kalends.resource_servers.participation.claims.claim_table import ClaimTable
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.petitions import as_committed
from kalends.resource_servers.participation.memory.in_doubt import InDoubtResolver
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.outcome_handler import OutcomeHandler
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.registers import Registers
from kalends.resource_servers.participation.sockets import Consent
from kalends.resource_servers.participation.this_site import FenceNumbers

BLOCKERS_SHOWN: Final = 16

PIECES_SHOWN: Final = 8 * PIECES_MAX
"""A page ends once its costs have so many prices: each is some 70 bytes of a frame."""


@dataclass(eq=False)
class Comparison:
    """The site's part of a comparison; the broker's is `reconciliation`."""

    book: ClaimTable
    claims: Claims
    outcomes: OutcomeHandler
    in_doubt: InDoubtResolver
    retention: Retention
    consent: Consent
    registers: Registers
    outbox: ParticipantOutbox
    numbers: FenceNumbers
    _pages: dict[str, list[str]] = field(init=False, default_factory=dict)
    """For each source that compares, the ids of the requests that it asks for page by page."""

    @property
    def plug(self) -> Plug:
        return Plug(
            Tier.ASKS,
            handles=[
                on(m.Compare, lambda source, compare, now: self.page(source, compare), owned=False),
                on(m.Relock, self.relock, owned=False),
                on(m.Recharge, self.recharge, owned=False),
            ],
        )

    def page(self, source: str, compare: m.Compare) -> None:
        """Send a page of what is promised here to the register of `source`, in order of id."""
        register = self.registers.of(source)
        if not compare.after or source not in self._pages:
            self._pages[source] = sorted(self.book.stakes.perhaps_of(register))
        rids = self._pages[source]
        first = bisect_right(rids, compare.after)
        kept: list[m.Kept] = []
        until, pieces = "", 0
        for rid in rids[first : first + limits.COMPARED_MAX]:
            stake, until = self.book.stakes.peek(rid), rid
            if stake is None or stake.register != register or not (state := _state_of(stake)):
                continue
            kept.append(self.kept(stake, state))
            pieces += _pieces_of(kept[-1].cost)
            if pieces >= PIECES_SHOWN:
                break
        if not rids or until in ("", rids[-1]):
            del self._pages[source]
            until = ""
        self.outbox.send(
            source,
            m.Compared(
                after=compare.after,
                until=until,
                horizon=self.retention.horizon_s,
                kept=tuple(kept),
            ),
        )

    def kept(
        self, stake: Stake, state: Literal["promised", "locked", "cancelled", "replaced"]
    ) -> m.Kept:
        """Return what the register hears of `stake`: with the cost, if it was to be charged."""
        paid = stake.bill is not None and state != "promised"
        payments = self.claims.payments
        return m.Kept(
            rid=stake.rid,
            att=stake.att,
            state=state,
            principal=stake.principal,
            secret=stake.secret,
            stamp=stake.stamp,
            wants=tuple(claim.want for claim in stake.claims),
            chosen=stake.chosen or {},
            replaces=stake.replaces,
            warrant=stake.warrant,
            cost=payments.cost(stake) if paid else None,
            refund=payments.refund(stake.rid) if paid else NOT_TOLD,
        )

    # Locking again

    def recharge(self, source: str, recharge: m.Recharge, now: Moment) -> None:
        """Have in the ledger what is over, and was forgotten here."""
        if self.outcomes.recovery.recovering and self._is_proved(source, recharge):
            self.claims.payments.charged_before(recharge, now.wall_s)

    def _is_proved(self, source: str, said: m.Relock | m.Recharge) -> bool:
        """Whether `source` knows the secret of the request; where it does not, there is an alarm."""
        stake = self.book.stakes.peek(said.rid)
        key = self.registers.secret(self.registers.of(source))
        true = stake.secret if stake is not None else key and proofs.of_request(key, said.rid)
        if not true or proofs.same(said.secret, true):
            return True
        self.outbox.alarm(
            f"{said.rid}: {source} wants it locked again, but does not know its secret"
        )
        return False

    def relock(self, source: str, relock: m.Relock, now: Moment) -> None:
        if not self._is_proved(source, relock):
            return
        stake = self.book.stakes.get(relock.rid)
        if stake is not None and not stake.register:
            self.claims.adopt(stake, self.registers.of(source))
            self.claims.store(stake, "proven")
        blockers: tuple[str, ...] = ()
        if stake is not None and stake.has("prepared") and stake.att == relock.att:
            self.outcomes.commit(stake, relock.rid, relock.att, relock.chosen, now)
        if stake is None or not stake.decided:
            if stake is not None and stake.has("held"):
                self.claims.end_hold(stake, "expiry")
            elif stake is not None and stake.has("intended"):
                self.claims.end_intent(stake, "expiry")
            blockers = self._lock_again(source, relock, self.book.stakes.get(relock.rid), now)
        self.outbox.send(source, m.Relocked(rid=relock.rid, blockers=blockers))

    def _lock_again(
        self, source: str, relock: m.Relock, before: Stake | None, now: Moment
    ) -> tuple[str, ...]:
        """Lock what was chosen here, as it was decided; return what stands in the way."""
        unknown = [w.resource for w in relock.wants if w.resource not in self.book.calendars]
        if unknown:
            return tuple(f"{resource} is not configured" for resource in unknown)
        if any(machine_of(want.resource) for want in relock.wants):
            return ("its place in the queue is lost: submit the job again",)
        if any(want.start >= want.end for want in relock.wants):
            return ("it asks for a period that ends before it starts",)
        unapproved = self.consent.why_not_again(relock)
        if unapproved and not self.outcomes.recovery.recovering:
            return (unapproved,)
        refusals = self._rules_against(relock, now)
        if refusals:
            return tuple(f"its owner's rules: {refusal.detail}"[:256] for refusal in refusals)
        unpaid = self.claims.payments.why_not_again(relock)
        if unpaid and not self.outcomes.recovery.recovering:
            return (unpaid,)
        claims = [
            Claim(self.numbers.new(), want.resource, want.start, want.end, want.units, "locked")
            for want in relock.wants
        ]
        if self.book.buffers.kept and not self._counts_only(relock, now):
            self.book.give_buffers(claims)
        ends_at = max(claim.end + claim.gap_s for claim in claims)
        stake = Stake(
            rid=relock.rid,
            att=relock.att,
            principal=relock.principal,
            secret=relock.secret,
            need=relock.need,
            parts=relock.parts,
            coords=relock.coords,
            claims=claims,
            refused=before.refused if before is not None else 0,
            chosen=relock.chosen,
            stamp=relock.stamp,
            ends_at=ends_at,
            register=self.registers.of(source),
            proofs=relock.proofs,
            warrant=relock.warrant,
            replaces=relock.replaces,
            petition=as_committed(before.petition) if before is not None else None,
            came_at=before.came_at if before is not None else 0,
        )
        full = self.claims.lock_again(stake, before, relock.cost, now.wall_s)
        if full and before is None and self._counts_only(relock, now):
            self.claims.count_used(stake, relock.cost, now.wall_s)
        elif full:
            return self._blockers_of(stake) or (f"{full} has no room",)
        self.outcomes.consequences.committed(stake, stake.rid, stake.att)
        return ()

    def _counts_only(self, relock: m.Relock, now: Moment) -> bool:
        """Whether this site has forgotten something that is over, of which only the used time counts.

        What was given back was free from the begin of the grain that ran: others may have had it since.
        """
        return (
            self.outcomes.recovery.recovering
            and max(want.end for want in relock.wants) <= now.wall_s
        )

    def _rules_against(self, relock: m.Relock, now: Moment) -> list[Refusal]:
        """Return what the owner's rules have against it, as of something that was booked in good time.

        What the owner has taken back since, while this was forgotten, is asked for once it is locked again.
        Used time may end off the grain.
        """
        recovering = self.outcomes.recovery.recovering
        if self._counts_only(relock, now):
            return []
        first = min(want.start for want in relock.wants)
        found = self.book.refusals(relock.principal, relock.wants, ("lock",), first, rid=relock.rid)
        return [each for each in found if not (recovering and each.rule == RECLAIMED)]

    def _blockers_of(self, stake: Stake) -> tuple[str, ...]:
        """Return the other requests that have what the claims of `stake` need."""
        rids = {
            booking.reservation
            for claim in stake.claims
            for booking in self.book.calendars[claim.resource].calendar.listing(
                claim.start, claim.end + claim.gap_s
            )
            if booking.state in ("prepared", "locked") and booking.reservation != stake.rid
        }
        return tuple(sorted(rids)[:BLOCKERS_SHOWN])


def _state_of(stake: Stake) -> Literal["", "promised", "locked", "cancelled", "replaced"]:
    """Return what a register may have to know of `stake`; "" where nothing was decided or promised."""
    if stake.has("prepared"):
        return "promised"
    if stake.has("locked"):
        return "locked"
    if stake.has("replaced"):
        return "replaced"
    return "cancelled" if stake.has("cancelled") else ""


def _pieces_of(cost: Cost | None) -> int:
    return sum(len(slot.pieces) for slot in cost.slots) if cost is not None else 0
