"""What the register answers: only here does a request become decided, and only after it is durable."""

from __future__ import annotations

from typing import Literal

from kalends.broker.coordination import decision_record as r
from kalends.broker.coordination.agent_dispatch import Touring
from kalends.broker.coordination.decision_record import Record, Registered, Unreadable
from kalends.broker.coordination.effects import rid_of
from kalends.broker.coordination.transaction import Case, problem_of
from kalends.broker.coordination.transaction_table import OPEN_PHASES
from kalends.contract import messages as m
from kalends.core.errors import Conflict, Expired, KeyReused
from kalends.core.intervals import Moment


class Decisions(Touring):
    """One method for each register operation; one whose condition failed is no longer ours to go on."""

    def registered(self, result: Registered, now: Moment) -> None:
        """Take the durable answer to one of our register operations."""
        op = result.operation
        self._table.at_work_on = rid_of(op)
        if result.unreadable is not None:
            self._unreadable(result.unreadable, op)
            return
        if isinstance(op, r.Ask):
            self._answer_inquiry(op, result.record, now)
            return
        if isinstance(op, r.Recover):
            known = self._table.cases.get(op.record.rid)
            if known is not None:
                self._table.write(known, r.Read(known.rid))
            return
        assert not isinstance(op, r.Examine)
        case = self._table.asker(op)
        if case is None:
            return
        self._log.publish(case, op, result.won)
        match op:
            case r.Begin():
                if not result.won:
                    self._lost_begin(case, result.record)
            case r.Raise():
                self._raised(case, result, now)
            case r.Commit():
                self._committed(case, result, now)
            case r.Close():
                self._closed(case, result)
            case r.Cancel():
                self._cancelled(case, result, now)
            case r.Adopt():
                self._adopted(case, result, now)
            case r.Finish():
                if result.won and op.state == "commit":
                    self._forget(case)
                cancel_follows = op.state == "commit" and case.cancel_wanted
                if op.state == case.record.state and not cancel_follows:
                    self._table.end(case)
            case r.Note():
                if not result.won:
                    self._table.drop(case, result.record)
                # While it is not held yet, who waits is told what comes of it.
                elif case.phase == "held" and op.of == "held":
                    case.noted = True
                    self._table.answer(case)
            case r.Read():
                self._reread(case, result.record, now)

    def _adopted(self, case: Case, result: Registered, now: Moment) -> None:
        """Tell the sites, unless another has done so already; a cancel that is on its way goes on."""
        row = result.record
        if result.won:
            case.phase = "telling" if case.record.state == "commit" else "cancelling"
            self._tell_parts(case)
            self._tell(case, now)
        elif row is not None and row.state == "commit" and case.cancel_wanted:
            case.record = row
            self._tell_parts(case)
        else:
            self._table.drop(case, row)

    def _unreadable(self, row: Unreadable, op: r.Operation) -> None:
        """Nothing follows from a row that cannot be read: who asks for its outcome is not answered.

        What we know of an attempt that is still ours was stored as it is known: it goes on, and its
        next write mends the row.
        """
        case = None if isinstance(op, r.Ask | r.Examine | r.Recover) else self._table.asker(op)
        if case is None:
            return
        ours = (row.rid, row.att, row.owner) == (case.rid, case.record.att, self.identity.owner)
        if not (isinstance(op, r.Read) and ours and row.state == case.record.state):
            self._table.leave_unknown(case)

    def _lost_begin(self, case: Case, standing: Record | None) -> None:
        """Another replica has this key already: undo ours, which was never committed."""
        self._abort_parts(case, case.record.att)
        if standing is not None and standing.digest != case.record.digest:
            case.record.problem = problem_of(key_reused(case.record.key), standing.reservation)
            case.record.state = "closed"
            standing = None
        self._table.drop(case, standing)

    def _raised(self, case: Case, result: Registered, now: Moment) -> None:
        if not result.won:
            self._table.drop(case, result.record)
            return
        self._abort_parts(case, case.record.att)
        case.record.att += 1
        case.record.owner = self.identity.owner
        case.parts = {}
        self._in_flight.end(case.rid)
        case.tour = None
        case.stale = False
        if case.record.held_until_ms and case.record.held_until_ms <= now.wall_ms:
            self._close(case, hold_ran_out(), "expired", now)
            return
        self._begin_attempt(case, now)

    def _committed(self, case: Case, result: Registered, now: Moment) -> None:
        if result.won:
            case.record.state = "commit"
            case.cancel_wanted = (
                False  # A release that came too late: what is reserved is cancelled.
            )
            case.enter("telling")
            self._in_flight.end(case.rid)
            case.listed -= case.parts.keys()
            self._leave_lists(case)
            self._table.answer(case)
            self._tell(case, now)
            return
        row = result.record
        if row is None or row.state != "open" or row.att != case.record.att:
            self._table.drop(case, row)
            return
        case.record.chosen = {}
        case.record.trail = case.record.trail[:-1]  # It was not reserved after all.
        error = Conflict(
            "the reservation was changed or cancelled meanwhile, or is not confirmed yet",
            remedy="look at it with `kalends show`, then try again",
        )
        self._close(case, error, "failed", now)

    def _closed(self, case: Case, result: Registered) -> None:
        if not result.won:
            self._table.drop(case, result.record)
            return
        case.record.state = "closed"
        case.record.done = True
        if not case.parts and case.record.held_until_ms:
            # Taken over and given up in one: the sites still hold it for the replica before.
            self._tell_parts(case)
        self._abort_parts(case, case.record.att)
        self._leave_lists(case)
        self._table.end(case)

    def _cancelled(self, case: Case, result: Registered, now: Moment) -> None:
        if not result.won and (result.record is None or result.record.state != "cancelled"):
            self._table.drop(case, result.record)
            return
        case.record.state = "cancelled"
        case.record.done = False
        case.enter("cancelling")
        self._tell(case, now)

    def _reread(self, case: Case, row: Record | None, now: Moment) -> None:
        """A site called us stale, or time passed: are we still the owner of a live attempt?

        What another replica has told to its end is not told again: sites may have forgotten it.
        """
        if case.phase in ("telling", "cancelling") and row is not None and row.done:
            if case.phase == "telling" and case.cancel_wanted and row.state == "commit":
                # Our Cancel is on its way, and goes on from what the other has done.
                for part in case.parts.values():
                    part.done = True
            elif not case.record.done:
                self._table.drop(case, row)
            return
        if case.phase not in OPEN_PHASES:
            return
        if row is None or row.state != "open" or row.att != case.record.att:
            self._table.drop(case, row)
        elif case.stale:
            case.stale = False
            self._refused(case, (), now)

    def _inquired(self, inquire: m.Inquire, reply_to: str) -> None:
        """Whoever proves to be the site it says hears what was decided; others hear, and leave, nothing."""
        proved = self._credentials.proves(inquire.secret, inquire.site, inquire.rid)
        op = r.Ask(
            inquire.rid, inquire.att, inquire.secret, reply_to, inquire.site, proved,
            certain=self._certain(),
        )  # fmt: skip
        self._outbox.write(op)

    def _answer_inquiry(self, ask: r.Ask, row: Record | None, now: Moment) -> None:
        """Commit and abort never change once given; abort is given only where the row proves it."""
        if not ask.proved and (row is None or not row.secret or row.secret != ask.secret):
            return
        committed = row is not None and row.state in r.COMMITTED and row.att == ask.att
        if row is not None and committed and ask.site not in row.chosen:
            return  # It has promised nothing that was committed: what others have is not for it.
        chosen: m.Chosen = {}
        outcome: Literal["commit", "abort", "pending"] = "abort"
        if row is not None and committed:
            outcome, chosen = "commit", row.chosen
        elif not ask.certain:
            outcome = "pending"
        elif row is not None and row.state == "open" and row.att <= ask.att:
            outcome = "pending"
            mine = row.owner == self.identity.owner
            if (mine and row.rid not in self._table.cases) or not (
                mine or self._owner_alive(row.owner)
            ):
                self.adopt(row, now)
        done = row is not None and committed and row.done
        answer = m.Outcome(
            rid=ask.rid,
            att=ask.att,
            secret=ask.secret,
            outcome=outcome,
            proofs=self._credentials.commit_proofs(row, ask.site)
            if row is not None and committed
            else {},
            warrant=self._credentials.commit_warrant(row, ask.site)
            if row is not None and committed
            else "",
            chosen=chosen,
            done=done,
        )
        self._outbox.send(ask.reply_to, answer)


def key_reused(key: str) -> KeyReused:
    return KeyReused(
        "this key was used before with another request",
        where="key",
        remedy=f"make a new key; `by_key {key}` shows the old request",
    )


def hold_ran_out() -> Expired:
    return Expired("the hold has run out", remedy="hold or book it again")
