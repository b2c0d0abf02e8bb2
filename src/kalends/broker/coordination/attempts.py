"""Starts of attempts: for a new request, after a failed attempt, and after a takeover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.refusal_errors import hold_ran_out
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.core.intervals import Moment


@dataclass(eq=False)
class Attempts:
    """Attempts of the replica `owner`, each by `begin`; it must not touch requests that are `left_alone`."""

    owner: str
    table: TransactionTable
    in_flight: RequestsInFlight
    prepare: PreparePhase
    begin: Callable[[Transaction, Moment], None]
    left_alone: Callable[[str], bool]

    def begin_next(self, case: Transaction, now: Moment) -> None:
        """The register has raised the attempt, and owns it to this replica."""
        case.record.att += 1
        case.record.owner = self.owner
        case.parts = {}
        self.in_flight.end(case.rid)
        case.stale = set()
        if case.record.held_until_ms and case.record.held_until_ms <= now.wall_ms:
            self.prepare.close(case, hold_ran_out(), "expired", now)
        else:
            self.begin(case, now)

    def take_over(self, record: Record, now: Moment) -> None:
        """Go on with a request whose owner is gone: by a new attempt, or by telling its sites."""
        self.table.notice(record)
        if record.rid in self.table.cases or record.done or self.left_alone(record.rid):
            return
        self.table.at_work_on = record.rid
        case = self.table.open(record, now)
        case.cancel_wanted = record.state == "cancelled"
        if record.state == "open":
            self.prepare.give_up_attempt(case, "taken over from a broker that has stopped", (), now)
        else:
            case.enter("committed")
            self.table.write(case, r.Adopt(record.rid, record.state, self.owner))
