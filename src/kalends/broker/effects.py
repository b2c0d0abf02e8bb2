"""What a step of the coordinator asks its shell to do.

Register operations are carried out in order; a message that must not leave before an operation is
durable is sent by the coordinator itself when it is told the operation's result. Sends and replies
may therefore go out at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.broker.record import Operation
from kalends.core.api import Event, RequestView
from kalends.core.messages import Message
from kalends.core.scripts import RunCode


class Send(NamedTuple):
    """`message` to a site by name, or to the asker that a `record.Ask` named."""

    to: str
    message: Message


class Answer(NamedTuple):
    """To the waiting caller `ticket`; a view with a problem tells a failure."""

    ticket: int
    view: RequestView


class Happened(NamedTuple):
    """An event for those who watch; `user` may see it."""

    user: str
    event: Event


@dataclass(slots=True)
class Effects:
    operations: list[Operation] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    events: list[Happened] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    runs: list[RunCode] = field(default_factory=list)
    """How agents fared at sites, to be counted."""
