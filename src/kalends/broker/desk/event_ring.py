"""Recent events for watching callers: a ring of events, and the callers that wait for more.

In memory and of this replica only: after a restart, or for one who was away for longer than the ring
remembers, `why` still tells the whole story of each request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from kalends.broker.coordination.effects import Happened
from kalends.contract.calls import Event, Events

EVENTS_MAX: Final = 10_000
ANSWER_MAX: Final = 1_000
"""Events in one answer; the next call brings the next ones."""


class EventRing:
    """The last `EVENTS_MAX` events, ascending by number. `last` is below every number still to come.

    A number may be higher here than in the request's story, where it is that of the moment.
    """

    def __init__(self, last: int) -> None:
        self.last = last
        self._events: deque[Happened] = deque(maxlen=EVENTS_MAX)
        self._waiting: set[asyncio.Future[None]] = set()
        self._stopped = False

    def publish(self, happened: Sequence[Happened]) -> None:
        """Numbers ascend here: of two requests the event that is durable later is told later."""
        for user, event in happened:
            self.last = max(event.number, self.last + 1)
            self._events.append(Happened(user, structs.replace(event, number=self.last)))
        self._wake()

    def stop(self) -> None:
        """Answer everyone who waits, now and from now on, with what there is."""
        self._stopped = True
        self._wake()

    async def watch(self, user: str, request_id: str, after: int, wait_s: float) -> Events:
        """Events after number `after` (-1: from now on), waiting for the first at most `wait_s`.

        Those of `user` ("" for everyone's), of one request when `request_id` is given. A number that
        this ring has not come to, from another replica or a time when the clock was ahead, is from now on.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        after = after if 0 <= after <= self.last else self.last
        while True:
            found = self._found(user, request_id, after)
            left_s = deadline_s - loop.time()
            if found or left_s <= 0 or self._stopped:
                break
            after = max(after, self.last)
            await self._woken(left_s)
        following = found[-1].number if len(found) == ANSWER_MAX else max(after, self.last)
        return Events(events=tuple(found), next=following)

    def _found(self, user: str, request_id: str, after: int) -> list[Event]:
        found = []
        for happened in reversed(self._events):
            if happened.event.number <= after:
                break
            if user in ("", happened.user) and request_id in ("", happened.event.id):
                found.append(happened.event)
        found.reverse()
        return found[:ANSWER_MAX]

    async def _woken(self, wait_s: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        try:
            await asyncio.wait({woken}, timeout=wait_s)
        finally:
            self._waiting.discard(woken)

    def _wake(self) -> None:
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)
        self._waiting.clear()
