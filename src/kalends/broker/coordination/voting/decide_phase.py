"""Telling the sites what was decided: phase two of two-phase commit, and the cancelling afterwards.

A commit is told until every chosen site has durably locked; only then may the sites forget the decision.
A cancel is told to each site once that one has locked: no site can keep it from the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.transaction import Branch, Transaction, by_site
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.contract import messages as m
from kalends.contract.costs import NOT_TOLD
from kalends.core.intervals import Moment

RESEND_AFTER_MS: Final = 1_000


@dataclass(eq=False)
class DecidePhase:
    """Decide, Cancel and Forget, and the Done that answers the first two."""

    table: TransactionTable
    outbox: CoordinatorOutbox
    credentials: Credentials
    deadlines: Deadlines

    @property
    def part(self) -> CoordinatorPart:
        telling = PhaseOwner(
            ("telling", "cancelling"), resend=self.resend, forgot=self.forgotten,
            reread=self.reread,
        )  # fmt: skip
        return CoordinatorPart(handles=(on(m.Done, self.done),), phases=(telling,))

    def open(self, record: Record, now: Moment) -> Transaction:
        """Open a request that was committed, to tell its sites."""
        case = self.table.open(record, now)
        case.enter("committed")
        self.take_parts(case)
        return case

    def take_parts(self, case: Transaction) -> None:
        """Take the sites of a decided record, whose attempt was another's, or before a restart."""
        for site, wants in by_site(case.record.wants).items():
            hold_ids = case.record.chosen.get(site, ())
            done = case.record.done or case.record.told
            cost = case.record.costs.get(site)
            case.parts[site] = Branch(site, wants, hold_ids, voted=True, done=done, cost=cost)

    def tell(self, case: Transaction, now: Moment) -> None:
        case.resend_every_ms = RESEND_AFTER_MS
        case.resend_at_ms = self.deadlines.later(now, RESEND_AFTER_MS)
        self.deadlines.schedule(case)
        for part in case.parts.values():
            self.resend(case, part)

    def resend(self, case: Transaction, part: Branch) -> None:
        """Say to one site what was decided, unless it has said Done to that."""
        record = case.record
        if not part.done:
            decide = m.Decide(
                rid=record.rid,
                att=record.att,
                secret=self.credentials.secret(record, part.site),
                outcome="commit",
                proofs=self.credentials.commit_proofs(record, part.site),
                warrant=self.credentials.commit_warrant(record, part.site),
                chosen=record.chosen,
            )
            self.outbox.send(part.site, decide)
        elif case.phase == "cancelling" and not part.freed:
            secret = self.credentials.secret(record, part.site)
            warrant = self.credentials.cancel_warrant(record, part.site)
            cancel = m.Cancel(
                rid=record.rid, att=record.att, secret=secret, warrant=warrant,
                at=record.cancelled_at, reclaimed=record.reclaimed,
            )  # fmt: skip
            self.outbox.send(part.site, cancel)

    def reread(self, case: Transaction, row: Record | None, now: Moment) -> None:
        """Go on from the row: sites that another replica has informed to the end may have forgotten it."""
        if row is None:
            return
        if case.phase == "telling" and case.cancel_wanted and row.done and row.state == "commit":
            # Our Cancel is on its way, and goes on from what the other has done.
            for part in case.parts.values():
                part.done = True
        elif row.done and not case.record.done:
            self.table.drop(case, row)
        elif not row.done and case.phase == "telling" and row.state == "replaced":
            # Its job has another place: its sites are told that, by whoever the row says.
            self.table.drop(case, row)

    def forgotten(self, case: Transaction, part: Branch, now: Moment) -> None:
        """A place in a queue cannot be locked again there, only be given up: that is enough."""
        if case.record.spec.placement is None:
            return
        if case.phase == "cancelling":
            part.done = True
            self.resend(case, part)
        else:
            self.table.write(case, r.Read(case.rid))

    def all_done(self, case: Transaction) -> bool:
        return all(part.done for part in case.parts.values())

    def done(self, site: str, done: m.Done, now: Moment) -> None:
        case = self.table.live(done.rid, done.att, ("telling", "cancelling"))
        if case is None or (part := case.parts.get(site)) is None or done.of == "abort":
            return
        if done.of == "commit" and not part.done:
            part.done = True
            if case.phase == "cancelling":
                self.resend(case, part)
            elif self.all_done(case):
                self._all_told(case)
        elif done.of == "cancel" and case.phase == "cancelling" and not part.freed:
            part.freed, part.refund = True, done.refund
            if all(part.freed for part in case.parts.values()):
                case.record.done = True
                case.record.refunds = {
                    part.site: part.refund
                    for part in case.parts.values()
                    if part.cost and part.refund != NOT_TOLD
                }
                self.table.answer(case)
                self.table.write(case, r.Finish(case.rid, case.record.state, case.record.refunds))

    def _all_told(self, case: Transaction) -> None:
        """Locked everywhere: the sites may forget the decision."""
        case.record.done = True
        case.resend_at_ms = 0
        self.table.write(case, r.Finish(case.rid, "commit"))

    def forget(self, case: Transaction) -> None:
        """Only once that is durable: a replica that does not know it would tell them again."""
        for part in case.parts.values():
            secret = self.credentials.secret(case.record, part.site)
            forget = m.Forget(rid=case.rid, att=case.record.att, secret=secret)
            self.outbox.send(part.site, forget)

    def abort(self, case: Transaction, att: int, sites: Iterable[str]) -> None:
        """Best effort: a site that misses this asks the register by itself."""
        for site in sites:
            secret = self.credentials.secret(case.record, site)
            decide = m.Decide(rid=case.rid, att=att, secret=secret, outcome="abort")
            self.outbox.send(site, decide)
