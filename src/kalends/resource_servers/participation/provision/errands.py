"""Errands to batch systems: numbered, with a deadline, each with what follows when it has ended.

One whose deadline has passed has no answer; should one come later, it changes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kalends.backends.records import Errand, SystemAnswer
from kalends.core.intervals import Moment
from kalends.resource_servers.participation.effects import Provision
from kalends.resource_servers.participation.outbox import ParticipantOutbox
from kalends.resource_servers.participation.this_site import FenceNumbers

NO_ANSWER: Final = SystemAnswer("unknown", "it has not answered in time")

Continuation = Callable[[SystemAnswer, Moment], None]


@dataclass(eq=False)
class Errands:
    """The errands under way, by number."""

    outbox: ParticipantOutbox
    numbers: FenceNumbers
    ended: int = 0
    """How many have ended, in this life."""
    _under_way: dict[int, Continuation] = field(init=False, default_factory=dict)
    _deadlines: list[tuple[int, int]] = field(init=False, default_factory=list)

    def send(self, system: str, errand: Errand, until_ms: int, then: Continuation) -> int:
        """Send `errand` to `system`; `then` hears its answer, at `until_ms` (monotonic) at the latest."""
        number = self.numbers.new()
        self._under_way[number] = then
        heapq.heappush(self._deadlines, (until_ms, number))
        self.outbox.provision(Provision(number, system, errand))
        return number

    def answered(self, number: int, answer: SystemAnswer, now: Moment) -> None:
        """Take the end of an errand; one that nobody waits for any more changes nothing."""
        then = self._under_way.pop(number, None)
        if then is not None:
            self.ended += 1
            then(answer, now)

    def advance(self, now: Moment) -> None:
        """End those whose time is over."""
        while self._deadlines and self._deadlines[0][0] <= now.monotonic_ms:
            self.answered(heapq.heappop(self._deadlines)[1], NO_ANSWER, now)

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._under_way:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None
