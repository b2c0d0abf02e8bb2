"""Results of the register: only here is a request decided, and only once the decision is durable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from kalends.broker.coordination.attempts import Attempts
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, after
from kalends.broker.coordination.phases import OPEN_PHASES, Phase
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record, Registered, Unreadable
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.record.refusal_errors import key_reused
from kalends.broker.coordination.record.views import problem_of
from kalends.broker.coordination.search.requests_in_flight import RequestsInFlight
from kalends.broker.coordination.search.waiting_lists import ListPlaces
from kalends.broker.coordination.transaction import Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.decide_phase import DecidePhase
from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.broker.coordination.voting.prepare_phase import PreparePhase
from kalends.core.errors import Conflict
from kalends.core.intervals import Moment


@dataclass(eq=False)
class RegisterResults:
    """One method for each operation; a case whose condition failed is no longer ours to go on with.

    `parts` hear of commits and closes, in their order.
    """

    owner: str
    table: TransactionTable
    log: EventLog
    in_flight: RequestsInFlight
    decide: DecidePhase
    prepare: PreparePhase
    lists: ListPlaces
    negotiation: Negotiation
    attempts: Attempts
    phase_owners: Mapping[Phase, PhaseOwner]
    parts: Sequence[CoordinatorPart]

    @property
    def part(self) -> CoordinatorPart:
        of_cases = (after(kind, self.registered) for kind in get_args(r.CaseOperation))
        return CoordinatorPart(follows=(*of_cases, after(r.Recover, self._recovered)))

    def registered(self, op: r.CaseOperation, result: Registered, now: Moment) -> None:
        """Take the durable answer to what a case has asked for."""
        case = self.table.asker(op)
        if case is None:
            return
        if result.unreadable is not None:
            self._unreadable(case, result.unreadable, op)
            return
        self.log.publish(case, op, result.won)
        match op:
            case r.Begin():
                if not result.won:
                    self._lost_begin(case, result.record)
            case r.Raise():
                self._raised(case, result, now)
            case r.Commit():
                self._committed(case, result, now)
            case r.Close():
                self._closed(case, result, now)
            case r.Cancel():
                self._cancelled(case, result, now)
            case r.Adopt():
                self._adopted(case, result, now)
            case r.Finish():
                self._finished(case, op, result.won)
            case r.Note():
                self._noted(case, op, result)
            case r.Read():
                self._reread(case, result.record, now)

    def _recovered(self, op: r.Recover, result: Registered, now: Moment) -> None:
        if (known := self.table.cases.get(op.record.rid)) is not None:
            self.table.write(known, r.Read(known.rid))

    def _unreadable(self, case: Transaction, row: Unreadable, op: r.CaseOperation) -> None:
        """Nothing follows from a row that cannot be read: who asks for its outcome is not answered.

        What we know of an attempt that is still ours was stored as it is known: it goes on, and its
        next write mends the row.
        """
        ours = (row.rid, row.att, row.owner) == (case.rid, case.record.att, self.owner)
        if not (isinstance(op, r.Read) and ours and row.state == case.record.state):
            self.table.leave_unknown(case)

    def _adopted(self, case: Transaction, result: Registered, now: Moment) -> None:
        """Tell the sites, unless another has done so already; a cancel that is on its way goes on."""
        row = result.record
        if result.won:
            if case.record.state != "commit":
                case.enter("cancelled")
            self.decide.take_parts(case)
            self.decide.tell(case, now)
        elif row is not None and row.state == "commit" and case.cancel_wanted:
            case.record = row
            self.decide.take_parts(case)
        else:
            self.table.drop(case, row)

    def _lost_begin(self, case: Transaction, standing: Record | None) -> None:
        """Another replica has this key already: undo ours, which was never committed."""
        self.decide.abort(case, case.record.att, case.parts)
        if standing is not None and not standing.is_asked_by(case.record.digest):
            case.record.problem = problem_of(key_reused(case.record.key), standing.reservation)
            case.record.state = "closed"
            standing = None
        self.table.drop(case, standing)

    def _raised(self, case: Transaction, result: Registered, now: Moment) -> None:
        """The attempt is void for ever: its sites are told so, and the next one begins."""
        if result.won:
            self.decide.abort(case, case.record.att, case.parts)
            self.attempts.begin_next(case, now)
        else:
            self.table.drop(case, result.record)

    def _committed(self, case: Transaction, result: Registered, now: Moment) -> None:
        if result.won:
            case.record.state = "commit"
            case.cancel_wanted = (
                False  # A release that came too late: what is reserved is cancelled.
            )
            case.enter("committed")
            self.in_flight.end(case.rid)
            self.lists.leave(case, but=case.parts.keys())
            for part in self.parts:
                if part.committed is not None:
                    part.committed(case, now)
            self.table.answer(case)
            self.decide.tell(case, now)
            if (left := self.table.cases.get(case.record.replaces)) is not None:
                self.table.write(left, r.Read(left.rid))
            return
        row = result.record
        if row is None or row.state != "open" or row.att != case.record.att:
            self.table.drop(case, row)
            return
        case.record.chosen, case.record.costs = {}, {}
        case.record.trail = case.record.trail[:-1]  # It was not reserved after all.
        meanwhile = "the reservation was just changed or cancelled, or is not confirmed yet"
        place = case.record.spec.placement
        if place is not None and place.elsewhere:
            meanwhile = "the job has just started, or was cancelled or placed elsewhere"
        if case.record.spec.heir_of:
            meanwhile = f"{meanwhile}, or its offer was withdrawn"
        error = Conflict(meanwhile, remedy="see `kalends show` for its state, then try again")
        self.prepare.close(case, error, "failed", now)

    def _closed(self, case: Transaction, result: Registered, now: Moment) -> None:
        if not result.won:
            self.table.drop(case, result.record)
            return
        case.record.state = "closed"
        case.record.done = True
        if not case.parts and case.record.held_until_ms:
            # Taken over and given up in one: the sites still hold it for the replica before.
            self.decide.take_parts(case)
        self.decide.abort(case, case.record.att, case.parts)
        self.lists.leave(case)
        for part in self.parts:
            if part.closed is not None:
                part.closed(case, now)
        self.table.end(case)

    def _cancelled(self, case: Transaction, result: Registered, now: Moment) -> None:
        if not result.won:
            if result.record is None or result.record.state != "cancelled":
                self.table.drop(case, result.record)
                return
            # Another replica has decided it before: when it did so counts, and why.
            case.record.cancelled_at = result.record.cancelled_at
            case.record.reclaimed = result.record.reclaimed
        case.record.state = "cancelled"
        case.record.done = False
        case.enter("cancelled")
        self.decide.tell(case, now)

    def _reread(self, case: Transaction, row: Record | None, now: Moment) -> None:
        """A site called us stale, or time passed: are we still the owner of a live attempt?"""
        owner = self.phase_owners[case.phase]
        if owner.reread is not None:
            owner.reread(case, row, now)
        if case.phase not in OPEN_PHASES:
            return
        if row is None or row.state != "open" or row.att != case.record.att:
            self.table.drop(case, row)
        elif case.stale:
            stale, case.stale = case.stale, set()
            if owner.stale is not None:
                owner.stale(case, stale, now)
            else:
                case.tries.unkept |= stale
                self.negotiation.refused(case, (), now)

    def _finished(self, case: Transaction, op: r.Finish, won: bool) -> None:
        if won and op.state == "commit":
            self.decide.forget(case)
        cancel_follows = op.state == "commit" and case.cancel_wanted
        if op.state == case.record.state and not cancel_follows:
            self.table.end(case)

    def _noted(self, case: Transaction, op: r.Note, result: Registered) -> None:
        """Answer a caller that waits for a hold, now that it is written."""
        if not result.won:
            self.table.drop(case, result.record)
        elif (case.phase == "asking" and op.of == "approval") or (
            case.phase == "held" and op.of == "held"
        ):
            case.noted = True
            self.table.answer(case)
