"""Effects of a step of the coordinator, for its shell.

Register operations are carried out in order; a message that must not leave before an operation is
durable is sent by the coordinator itself when it is told the operation's result. Sends and replies
may therefore go out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kalends.broker.coordination.record.decision_record import Begin, Operation, Recover
from kalends.contract.calls import Event, RequestView
from kalends.contract.messages import Message
from kalends.core.intervals import Moment
from kalends.core.scripts import RunCode


class Send(NamedTuple):
    """`message` to a site by name, or to the asker that a `record.Ask` named."""

    to: str
    message: Message


class CallResult(NamedTuple):
    """An answer to the waiting caller `ticket`; a view with a problem reports a failure."""

    ticket: int
    view: RequestView


class Happened(NamedTuple):
    """An event for those who watch; `user` may see it."""

    user: str
    event: Event


class Errand(NamedTuple):
    """A `question` to the outside: the shell knows by its type who is to be asked. It may stay unanswered."""

    question: object
    answered: Callable[[Any, Moment], None]


class EffectCounts(NamedTuple):
    """Numbers of effects, by kind."""

    operations: int
    sends: int
    answers: int
    events: int


@dataclass(slots=True)
class CoordinatorEffects:
    operations: list[Operation] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    answers: list[CallResult] = field(default_factory=list)
    events: list[Happened] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    runs: list[RunCode] = field(default_factory=list)
    """How agents fared at sites, to be counted."""
    errands: list[Errand] = field(default_factory=list)
    """Questions of wings to the outside."""
    unknown: list[int] = field(default_factory=list)
    """Tickets of callers who cannot be told what becomes of their request."""

    def mark(self) -> EffectCounts:
        """Return the counts at which the effects of the next step begin."""
        return EffectCounts(
            len(self.operations), len(self.sends), len(self.answers), len(self.events)
        )

    def withdraw(
        self, rid: str, reservation: str, tickets: Collection[int], since: EffectCounts
    ) -> None:
        """Take back what was to be done for the request `rid` since a mark; the rest stays."""
        self.operations[since.operations :] = [
            op for op in self.operations[since.operations :] if rid_of(op) != rid
        ]
        self.sends[since.sends :] = [
            send for send in self.sends[since.sends :] if getattr(send.message, "rid", "") != rid
        ]
        self.answers[since.answers :] = [
            answer for answer in self.answers[since.answers :] if answer.ticket not in tickets
        ]
        self.events[since.events :] = [
            each for each in self.events[since.events :] if each.event.id != reservation
        ]


def rid_of(operation: Operation) -> str:
    if isinstance(operation, Begin | Recover):
        return operation.record.rid
    return operation.rid
