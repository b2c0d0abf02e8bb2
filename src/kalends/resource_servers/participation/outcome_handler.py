"""Phase two at a site: the outcome of an attempt, and the cancelling of locked slots."""

from __future__ import annotations

from dataclasses import dataclass

from kalends.contract import messages as m
from kalends.contract.costs import NOT_TOLD
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.claims.claim_sets import Stake
from kalends.resource_servers.participation.claims.claims import Claims
from kalends.resource_servers.participation.claims.claims_at_rest import Stakes
from kalends.resource_servers.participation.consequences import Consequences
from kalends.resource_servers.participation.memory.recovery import Recovery
from kalends.resource_servers.participation.memory.retention import Retention
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.parts import Plug, Tier, on
from kalends.resource_servers.participation.this_site import ThisSite


@dataclass(eq=False)
class OutcomeHandler:
    """Handler of outcomes from any source: a broker, the register's answer, or a peer."""

    here: ThisSite
    stakes: Stakes
    claims: Claims
    outbox: ParticipantOutbox
    consequences: Consequences
    recovery: Recovery
    retention: Retention

    @property
    def plug(self) -> Plug:
        return Plug(Tier.ENDS, handles=[on(m.Decide, self.decide), on(m.Cancel, self.cancel)])

    def decide(self, source: str, decide: m.Decide, now: Moment) -> None:
        stake = self.stakes.get(decide.rid)
        if decide.outcome == "commit":
            self.keep_proofs(stake, decide)
            applied = self.commit(stake, decide.rid, decide.att, decide.chosen, now)
        else:
            self.consequences.attempt_over(decide.rid, decide.att)
            applied = self.abort(stake, decide.att)
        if applied:
            self.outbox.send(source, m.Done(rid=decide.rid, att=decide.att, of=decide.outcome))
        elif decide.outcome == "commit" and (stake is None or stake.att <= decide.att):
            self.recovery.tell_forgotten(source, decide.rid)

    def keep_proofs(self, stake: Stake | None, said: m.Decide | m.Outcome) -> None:
        """Keep what proves this commit to the other sites, for when they ask.

        Where a peer has brought the news, the register's own proof of it comes later, if at all.
        """
        if stake is None or stake.att != said.att:
            return
        missing = said.warrant and not stake.warrant and stake.has("locked")
        if missing or not stake.decided:
            self.claims.prove(stake, said.proofs, said.warrant)

    def commit(
        self, stake: Stake | None, rid: str, att: int, chosen: m.Chosen, now: Moment
    ) -> bool:
        """Lock what was chosen here; return False (and alarm) when this site has no such promise."""
        applied = self._lock(stake, rid, att, chosen, now)
        if applied:
            self.consequences.committed(stake, rid, att)
        return applied

    def _lock(self, stake: Stake | None, rid: str, att: int, chosen: m.Chosen, now: Moment) -> bool:
        mine = set(chosen.get(self.here.name, ()))
        if stake is None or (stake.att != att and not mine):
            if mine and not self.recovery.recovering:
                self.outbox.alarm(f"{rid}: commit of attempt {att}, which is not known here")
            return not mine
        if stake.decided:
            return True
        promised = {claim.hold_id for claim in stake.claims_in("prepared")}
        if stake.att != att or not mine <= promised:
            self.outbox.alarm(f"{rid}: commit of attempt {att}, but that is not promised here")
            return False
        self.claims.lock(stake, chosen, mine, now.wall_s)
        return True

    def abort(self, stake: Stake | None, att: int) -> bool:
        if stake is None or att < stake.att:
            return True
        if stake.decided:
            self.outbox.alarm(f"{stake.rid}: abort of attempt {att}, which was committed here")
            return False
        if stake.claims or stake.refused < att:
            self.claims.refuse(stake, att, "abort")
        return True

    def cancel(self, source: str, cancel: m.Cancel, now: Moment) -> None:
        stake = self.stakes.get(cancel.rid)
        if stake is not None and stake.has("prepared"):
            self.outbox.alarm(f"{cancel.rid}: cancel of slots that are only promised here")
        else:
            if stake is not None and stake.has("locked"):
                billed = stake.bill is not None
                at = self.retention.decided_at(source, cancel.at, now) if billed else 0
                self.claims.cancel(
                    stake, cancel.warrant, at, now.wall_s, reclaimed=cancel.reclaimed
                )
            payments = self.claims.payments
            refund = payments.refund(cancel.rid) if payments.charges else NOT_TOLD
            self.outbox.send(
                source, m.Done(rid=cancel.rid, att=cancel.att, of="cancel", refund=refund)
            )
        self.consequences.cancelled(cancel.rid)
