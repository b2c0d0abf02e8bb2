"""Nodes that fail in slots that have begun: reported by the site, written down, and shown to the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.parts import CoordinatorPart, after, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Registered
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.trust.credentials import Credentials
from kalends.contract import messages as m
from kalends.core.intervals import Moment


@dataclass(eq=False)
class SlotLosses:
    """Hears of such nodes; what counts is in the register."""

    outbox: CoordinatorOutbox
    credentials: Credentials
    cases: Mapping[str, Transaction]

    @property
    def part(self) -> CoordinatorPart:
        return CoordinatorPart(
            handles=(on(m.SlotLoss, self.heard),), follows=(after(r.NoteNodes, self.noted),)
        )

    def heard(self, site: str, news: m.SlotLoss, now: Moment) -> None:
        """Have it written down, if the register knows the reservation. No failure lies ahead."""
        lack = r.NodesLack(news.number, news.nodes, min(news.at, now.wall_s), news.detail)
        self.outbox.write(r.NoteNodes(news.rid, news.att, site, news.resource, lack, site))

    def noted(self, op: r.NoteNodes, result: Registered, now: Moment) -> None:
        """Answer the site, unless the register does not know yet that the reservation was made."""
        row = result.record
        if row is None or row.state not in r.COMMITTED or op.site not in row.chosen:
            return
        case = self.cases.get(op.rid)
        if case is not None:
            case.record.owners = replace(case.record.owners, nodes_out=row.owners.nodes_out)
        noted = m.LossNoted(
            rid=op.rid,
            att=op.att,
            secret=self.credentials.secret(row, op.site),
            resource=op.resource,
            number=op.lack.number,
        )
        self.outbox.send(op.reply_to, noted)
