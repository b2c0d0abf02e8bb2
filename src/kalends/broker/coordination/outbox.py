"""The one door through which effects leave the coordinator, in the order in which they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kalends.broker.coordination.effects import (
    CallResult,
    CoordinatorEffects,
    Errand,
    Happened,
    Send,
)
from kalends.broker.coordination.record.decision_record import Operation
from kalends.contract.calls import Event, RequestView
from kalends.contract.messages import Message
from kalends.core.intervals import Moment
from kalends.core.scripts import RunCode


class CoordinatorOutbox:
    """The effects since `take` was called last."""

    def __init__(self) -> None:
        self.effects = CoordinatorEffects()

    def take(self) -> CoordinatorEffects:
        """Return all effects since the last call, in order."""
        taken, self.effects = self.effects, CoordinatorEffects()
        return taken

    def send(self, to: str, message: Message) -> None:
        self.effects.sends.append(Send(to, message))

    def write(self, operation: Operation) -> None:
        """Have the register carry out `operation`; see also `TransactionTable.write`."""
        self.effects.operations.append(operation)

    def answer(self, ticket: int, view: RequestView) -> None:
        self.effects.answers.append(CallResult(ticket, view))

    def publish(self, user: str, events: Iterable[Event]) -> None:
        self.effects.events.extend(Happened(user, event) for event in events)

    def alarm(self, text: str) -> None:
        self.effects.alarms.append(text)

    def count_run(self, code: RunCode) -> None:
        self.effects.runs.append(code)

    def ask(self, question: object, answered: Callable[[Any, Moment], None]) -> None:
        """Ask the outside; see `Errand`."""
        self.effects.errands.append(Errand(question, answered))

    def leave_unknown(self, tickets: Iterable[int]) -> None:
        """Tell these callers that the outcome of their request is unknown."""
        self.effects.unknown.extend(tickets)
