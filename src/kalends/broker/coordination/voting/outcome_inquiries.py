"""Questions of sites in doubt: the register is read for each, and the answer never changes once given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, after, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.contract import messages as m
from kalends.core.intervals import Moment


@dataclass(eq=False)
class OutcomeInquiries:
    """Answers for the replica `owner`, which takes over what nobody works on.

    `certain` tells whether what the register has no decision of was never decided.
    """

    owner: str
    table: TransactionTable
    outbox: CoordinatorOutbox
    credentials: Credentials
    _: KW_ONLY
    take_over: Callable[[Record, Moment], None]
    owner_alive: Callable[[str], bool]
    certain: Callable[[], bool]

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            handles=(on(m.Inquire, self.inquired),),
            follows=(after(r.Ask, lambda ask, found, now: self.answer(ask, found.record, now)),),
        )

    def inquired(self, reply_to: str, inquire: m.Inquire, now: Moment) -> None:
        """Tell a site that proves its name what was decided; others learn, and leave, nothing."""
        proved = self.credentials.proves(inquire.secret, inquire.site, inquire.rid)
        op = r.Ask(
            inquire.rid, inquire.att, inquire.secret, reply_to, inquire.site, proved,
            certain=self.certain(),
        )  # fmt: skip
        self.outbox.write(op)

    def answer(self, ask: r.Ask, row: Record | None, now: Moment) -> None:
        """Commit and abort never change once given; abort is given only where the row proves it."""
        if not ask.proved:
            return
        committed = row is not None and row.state in r.COMMITTED and row.att == ask.att
        if row is not None and committed and ask.site not in row.chosen:
            return  # It has promised nothing that was committed: what others have is not for it.
        chosen: m.Chosen = {}
        outcome: Literal["commit", "abort", "pending"] = "abort"
        if row is not None and committed:
            outcome, chosen = "commit", row.chosen
        elif not ask.certain and (row is None or row.state == "open"):
            outcome = "pending"
        elif row is not None and row.state == "open" and row.att <= ask.att:
            outcome = "pending"
            mine = row.owner == self.owner
            if (mine and row.rid not in self.table.cases) or not (
                mine or self.owner_alive(row.owner)
            ):
                self.take_over(row, now)
        done = row is not None and committed and row.done
        answer = m.Outcome(
            rid=ask.rid,
            att=ask.att,
            secret=ask.secret,
            outcome=outcome,
            proofs=self.credentials.commit_proofs(row, ask.site)
            if row is not None and committed
            else {},
            warrant=self.credentials.commit_warrant(row, ask.site)
            if row is not None and committed
            else "",
            chosen=chosen,
            done=done,
        )
        self.outbox.send(ask.reply_to, answer)
