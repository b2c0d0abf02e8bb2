"""Phase two at a site: the outcome of an attempt, and the cancelling of what was locked."""

from __future__ import annotations

from typing import Final

from kalends.contract import messages as m
from kalends.resource_servers.participation.claim_sets import Stake
from kalends.resource_servers.participation.retention import Forgetting

FORGOTTEN_TOLD_MAX: Final = 1_000
"""Requests of which brokers are told in a session that they are forgotten: one comparison finds the rest."""


class Deciding(Forgetting):
    """Commit and abort, whoever brings the news: a broker, the register's answer, or a peer."""

    def _decide(self, source: str, decide: m.Decide) -> None:
        stake = self.book.stakes.get(decide.rid)
        if decide.outcome == "commit":
            self._keep_proofs(stake, decide)
            applied = self._commit(stake, decide.rid, decide.att, decide.chosen)
        else:
            self.then.on_attempt_over(decide.rid, decide.att)
            applied = self._abort(stake, decide.att)
        if applied:
            self.outbox.send(source, m.Done(rid=decide.rid, att=decide.att, of=decide.outcome))
        elif decide.outcome == "commit" and (stake is None or stake.att <= decide.att):
            self._tell_forgotten(source, decide.rid)

    def _tell_forgotten(self, source: str, rid: str) -> None:
        """It was promised, or the register would not have decided so: it is to compare with us, once."""
        told = (source, rid)
        if told not in self._told_forgotten and len(self._told_forgotten) < FORGOTTEN_TOLD_MAX:
            self._told_forgotten.add(told)
            marks = self._registers.marks(self._registers.of(source))
            self.outbox.send(source, m.Known(behind=True, forgotten=True, marks=marks))

    def _keep_proofs(self, stake: Stake | None, said: m.Decide | m.Outcome) -> None:
        """What proves this commit to others is for those of them who ask.

        Where a peer has brought the news, the register's own proof of it comes later, if at all.
        """
        if stake is None or stake.att != said.att:
            return
        missing = said.warrant and not stake.warrant and stake.has("locked")
        if missing or not stake.decided:
            self.claims.prove(stake, said.proofs, said.warrant)

    def _commit(self, stake: Stake | None, rid: str, att: int, chosen: m.Chosen) -> bool:
        """Lock what was chosen here; False (and an alarm) when this site has no such promise."""
        applied = self._lock(stake, rid, att, chosen)
        if applied:
            self.then.on_committed(stake, rid, att)
        return applied

    def _lock(self, stake: Stake | None, rid: str, att: int, chosen: m.Chosen) -> bool:
        mine = set(chosen.get(self.here.name, ()))
        if stake is None or (stake.att != att and not mine):
            if mine and not self.recovering:
                self.outbox.alarm(f"{rid}: commit of attempt {att}, of which nothing is known here")
            return not mine
        if stake.decided:
            return True
        promised = {claim.hold_id for claim in stake.claims_in("prepared")}
        if stake.att != att or not mine <= promised:
            self.outbox.alarm(f"{rid}: commit of attempt {att}, but that is not promised here")
            return False
        self.claims.lock(stake, chosen, mine)
        return True

    def _abort(self, stake: Stake | None, att: int) -> bool:
        if stake is None or att < stake.att:
            return True
        if stake.decided:
            self.outbox.alarm(f"{stake.rid}: abort of attempt {att}, which was committed here")
            return False
        if stake.claims or stake.refused < att:
            self.claims.refuse(stake, att, "abort")
        return True

    def _cancel(self, source: str, cancel: m.Cancel) -> None:
        stake = self.book.stakes.get(cancel.rid)
        if stake is not None and stake.has("prepared"):
            self.outbox.alarm(f"{cancel.rid}: cancel of what is only promised here")
        else:
            if stake is not None and stake.has("locked"):
                self.claims.cancel(stake, cancel.warrant)
            self.outbox.send(source, m.Done(rid=cancel.rid, att=cancel.att, of="cancel"))
        self.then.on_cancelled(cancel.rid)
