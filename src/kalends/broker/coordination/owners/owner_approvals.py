"""Owners that approve what is held, before it is promised: what sites tell of their word.

All of a request is held when its owners are asked, and held as long as they think. When all have approved
it, it is prepared, as what its user locks is. One no, or one owner who says nothing in time, ends the request
everywhere. What is lost meanwhile is held again, the same slots: what was approved stays approved.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from kalends.broker.coordination.deadlines import Deadlines
from kalends.broker.coordination.parts import CoordinatorPart, PhaseOwner, on
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.record.decision_record import Record
from kalends.broker.coordination.record.event_log import EventLog
from kalends.broker.coordination.transaction import Branch, Transaction
from kalends.broker.coordination.transaction_table import TransactionTable
from kalends.broker.coordination.voting.negotiation import Negotiation
from kalends.broker.coordination.voting.prepare_phase import PreparePhase, no_answers
from kalends.contract import messages as m
from kalends.contract.calls import Waiting
from kalends.contract.owner_calls import approval_refusal
from kalends.core import limits
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment
from kalends.core.refusals import error_of


@dataclass(eq=False)
class OwnerApprovals:
    """Hears OwnerSays; `PreparePhase` asks."""

    table: TransactionTable
    deadlines: Deadlines
    log: EventLog
    prepare: PreparePhase
    negotiation: Negotiation

    @property
    def part(self) -> CoordinatorPart:
        asking = PhaseOwner(
            ("asking",), resend=self.prepare.ask_owner, too_late=self.time_is_up, holds=True
        )
        return CoordinatorPart(handles=(on(m.OwnerSays, self.said),), phases=(asking,))

    def said(self, site: str, says: m.OwnerSays, now: Moment) -> None:
        case = self.table.live(says.rid, says.att, ("asking", "holding"))
        if case is None or (part := case.parts.get(site)) is None or not part.approval:
            return
        if says.state in ("declined", "lapsed"):
            self._end(case, [_no_of(part, says)], now)
        elif case.phase == "asking" and says.state == "lost":
            self.negotiation.lost(case, part, now)
        elif case.phase == "asking":
            self._waits(case, part, says, now)

    def _waits(self, case: Transaction, part: Branch, says: m.OwnerSays, now: Moment) -> None:
        before = part.owner
        if before is not None and says.state in (before.state, "pending"):
            return  # It is said again; no owner takes a word back.
        part.owner = says
        if says.state == "approved" and before is not None and before.state == "pending":
            said = f": {says.word}" if says.word else ""
            self.log.add(case, "approved", f"by the owner of {part.site}{said}", now)
        asked = [each for each in case.parts.values() if each.approval]
        if all(each.owner is not None and each.owner.state == "approved" for each in asked):
            words = (each.owner.word for each in asked if each.owner is not None)
            case.record.owners = replace(case.record.owners, words=tuple(filter(None, words)))
            self.prepare.prepare(case, now)
        elif all(each.owner is not None for each in asked):
            self._note(case, [each for each in asked if _is_pending(each)], now)

    def _note(self, case: Transaction, pending: list[Branch], now: Moment) -> None:
        """Every site has answered, and some owners think: their user is told whom it waits for."""
        record = case.record
        told_s = min(part.owner.until for part in pending if part.owner is not None)
        until = min(told_s, _last_s(record))
        case.phase_deadline_ms = now.monotonic_ms + max(until * 1000 - now.wall_ms, 0)
        self.deadlines.schedule(case)
        awaited = tuple(dict.fromkeys(name for part in pending for name in _names_of(part)))
        waiting = Waiting(since=record.owners.asked_at, until=until, awaited=awaited, approval=True)
        if record.waiting == waiting and case.noted:
            return
        if record.waiting is None or not record.waiting.approval:
            self.log.add(case, "asked", f"waits for the approval of {', '.join(awaited)}", now)
        record.waiting, record.listed = waiting, True
        body = r.encode_record(record)
        self.table.write(case, r.Note(case.rid, record.att, body, "approval"))

    def time_is_up(self, case: Transaction, now: Moment) -> None:
        """Sites have not said that they ask their owners; or owners have not answered."""
        asked = [part for part in case.parts.values() if part.approval]
        silent = [part.site for part in asked if part.owner is None]
        if silent:
            self.negotiation.refused(case, no_answers(silent), now)
            return
        late = [part for part in asked if _is_pending(part)]
        self._end(case, [approval_refusal(_names_of(part)[0], False, "") for part in late], now)

    def _end(self, case: Transaction, refusals: list[Refusal], now: Moment) -> None:
        """Give up all holds, at every site; the user gets the owner's comment."""
        self.prepare.close(case, error_of(refusals), "failed", now)


def _no_of(part: Branch, says: m.OwnerSays) -> Refusal:
    where = says.resources[0] if says.resources else part.wants[0].resource
    return approval_refusal(where, says.state == "declined", says.word)


def _is_pending(part: Branch) -> bool:
    return part.owner is not None and part.owner.state == "pending"


def _names_of(part: Branch) -> tuple[str, ...]:
    """The resources whose owner is awaited; no more than what was asked for, whatever the site says."""
    asked = dict.fromkeys(want.resource for want in part.wants)
    told = part.owner.resources if part.owner is not None else ()
    return tuple(name for name in asked if name in told) or tuple(asked)


def _last_s(record: Record) -> int:
    """Return the time by which owners must have answered, whatever their sites say (seconds UTC).

    It is never after a slot begins; nor, of a change that others want, after what it replaces does. Only
    a change has a slot that has begun already: of that it is never after its end.
    """
    asked_at = record.owners.asked_at
    starts = [w.start if w.start > asked_at else w.end for w in record.wants]
    if record.spec.by_others is not None:
        starts += [want.start for want in record.spec.by_others.was]
    limit_s = record.spec.give_up_at or starts[0]
    return min(asked_at + limits.APPROVAL_S_MAX, limit_s, *starts)
