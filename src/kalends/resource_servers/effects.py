"""What a step of the participant asks its shell to do, and the order that must be kept.

**Persist before send**: the facts of a step, and of every step before it, are durable before any
message of that step leaves. A shell may collect the effects of many steps and store them together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.core.messages import Message
from kalends.resource_servers.stakes import Fact


class Send(NamedTuple):
    """`message` to a broker's session (by the name it came with) or to a URL."""

    to: str
    message: Message


@dataclass(slots=True)
class Effects:
    """`alarms` are for the operator: something happened that the protocol forbids."""

    facts: list[Fact] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.facts or self.sends or self.alarms)
