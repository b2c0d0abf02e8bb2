"""Telling the sites what was decided: phase two of two-phase commit, and the cancelling afterwards.

A commit is told until every chosen site has durably locked; only then may the sites forget the decision.
A cancel is told to each site once that one has locked: no site can keep it from the others.
"""

from __future__ import annotations

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination import warrants
from kalends.broker.coordination.effects import Send
from kalends.broker.coordination.transaction import Case, SitePart, by_site
from kalends.broker.coordination.transaction_table import RESEND_AFTER_MS, Desk
from kalends.contract import messages as m
from kalends.core.intervals import Moment


class Telling(Desk):
    """Decide, Cancel and Forget, and the Done that answers the first two."""

    def _tell_parts(self, case: Case) -> None:
        """The sites of a decided record, when the attempt itself was another's or before a restart."""
        for site, wants in by_site(case.record.wants).items():
            hold_ids = case.record.chosen.get(site, ())
            done = case.record.done or case.record.told
            case.parts[site] = SitePart(site, wants, hold_ids, voted=True, done=done)

    def _tell(self, case: Case, now: Moment) -> None:
        case.resend_every_ms = RESEND_AFTER_MS
        case.resend_at_ms = self._later(now, RESEND_AFTER_MS)
        self._schedule(case)
        for part in case.parts.values():
            self._tell_one(case, part)

    def _tell_one(self, case: Case, part: SitePart) -> None:
        record = case.record
        if not part.done:
            decide = m.Decide(
                rid=record.rid,
                att=record.att,
                secret=self._secret(record, part.site),
                outcome="commit",
                proofs=self._proofs(record, part.site),
                warrant=self._warrant(record, part.site),
                chosen=record.chosen,
            )
            self._effects.sends.append(Send(part.site, decide))
        elif case.phase == "cancelling" and not part.freed:
            secret = self._secret(record, part.site)
            warrant = warrants.of_cancel(self.identity.secret, part.site, record)
            cancel = m.Cancel(rid=record.rid, att=record.att, secret=secret, warrant=warrant)
            self._effects.sends.append(Send(part.site, cancel))

    def _all_done(self, case: Case) -> bool:
        return all(part.done for part in case.parts.values())

    def _done(self, site: str, done: m.Done) -> None:
        case = self._live(done.rid, done.att, ("telling", "cancelling"))
        if case is None or (part := case.parts.get(site)) is None or done.of == "abort":
            return
        if done.of == "commit" and not part.done:
            part.done = True
            if case.phase == "cancelling":
                self._tell_one(case, part)
            elif self._all_done(case):
                self._all_told(case)
        elif done.of == "cancel" and case.phase == "cancelling" and not part.freed:
            part.freed = True
            if all(part.freed for part in case.parts.values()):
                case.record.done = True
                self._answer(case)
                self._ask_register(case, r.Finish(case.rid, "cancelled"))

    def _all_told(self, case: Case) -> None:
        """Locked everywhere: the sites may forget the decision."""
        case.record.done = True
        case.resend_at_ms = 0
        self._ask_register(case, r.Finish(case.rid, "commit"))

    def _forget(self, case: Case) -> None:
        """Only once that is durable: a replica that does not know it would tell them again."""
        for part in case.parts.values():
            secret = self._secret(case.record, part.site)
            forget = m.Forget(rid=case.rid, att=case.record.att, secret=secret)
            self._effects.sends.append(Send(part.site, forget))

    def _abort_parts(self, case: Case, att: int) -> None:
        """Best effort: a site that misses this asks the register by itself."""
        for part in case.parts.values():
            secret = self._secret(case.record, part.site)
            decide = m.Decide(rid=case.rid, att=att, secret=secret, outcome="abort")
            self._effects.sends.append(Send(part.site, decide))
