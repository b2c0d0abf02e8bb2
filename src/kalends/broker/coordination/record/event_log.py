"""Events of a request: kept with it, and published once they are durable."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from kalends.broker.coordination.outbox import CoordinatorOutbox
from kalends.broker.coordination.record import decision_record as r
from kalends.broker.coordination.transaction import Transaction
from kalends.contract.calls import Event
from kalends.contract.slots_text import slots_text
from kalends.core import limits
from kalends.core.clock import LogicalClock
from kalends.core.errors import Refusal
from kalends.core.intervals import Moment

TRAIL_MAX: Final = 64

_NOTED: Final = {
    "held": frozenset({"held"}),
    "waiting": frozenset({"waiting", "listed", "recalled", "passed-over"}),
    "approval": frozenset({"asked", "approved"}),
}
"""The kinds of events that a Note of each sort is written for."""


class EventLog:
    """Events of all requests, numbered by the logical clock."""

    def __init__(self, clock: LogicalClock, outbox: CoordinatorOutbox) -> None:
        self._clock = clock
        self._outbox = outbox

    def add(
        self,
        case: Transaction,
        kind: str,
        detail: str,
        now: Moment,
        refusals: tuple[Refusal, ...] = (),
    ) -> None:
        """Keep an event until the operation that it comes with is durable."""
        record = case.record
        event = Event(
            number=self._clock.tick(now.wall_ms),
            at_ms=now.wall_ms,
            id=record.reservation,
            kind=kind,
            detail=detail,
            refusals=refusals[: limits.EVENT_REFUSALS_MAX],
        )
        record.trail = (*record.trail[-TRAIL_MAX + 1 :], event)
        case.untold.append(event)

    def publish(self, case: Transaction, op: r.CaseOperation, won: bool) -> None:
        """Publish what came with `op`, which is durable, if it won; else drop it."""
        if isinstance(op, r.Begin | r.Finish | r.Read):
            return
        if isinstance(op, r.Note):
            kinds = _NOTED.get(op.of, frozenset())
            noted = [n for n, each in enumerate(case.untold, 1) if each.kind in kinds]
            of_op = case.untold[: noted[-1]] if noted else []
        else:
            of_op = [each for each in case.untold if each.kind != "held"]
        if won:
            told = [as_told(case.record, event) for event in of_op]
            self._outbox.publish(case.record.user, told)
        case.untold = [event for event in case.untold if event not in of_op]


def as_told(record: r.Record, event: Event) -> Event:
    """Return an event of `record` as its user is told it: a change that fails is refused, and to what it was.

    What was to be changed stands as it did; so it does where its user has given the change up.
    """
    if event.kind not in ("failed", "released") or record.rid == record.reservation:
        return event
    wanted = record.wants or record.spec.wants
    if event.kind == "released":
        return structs.replace(event, detail=f"the change to {slots_text(wanted)}")
    detail = f"to {slots_text(wanted)}: {event.detail}" if wanted else event.detail
    return structs.replace(event, kind="refused", detail=detail)
