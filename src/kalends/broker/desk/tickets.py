"""Tickets: what the callers of one replica wait for, each known to the coordinator by its number.

A ticket lasts as long as its caller waits. What comes for it later is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator

from kalends.contract.calls import RequestView


class Ticket:
    """Ticket of one waiting caller."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._answer: asyncio.Future[RequestView | None] = (
            asyncio.get_running_loop().create_future()
        )

    async def answer(self, until_s: float | None = None) -> RequestView | None:
        """The answer; None if there is none by `until_s` (loop time). Raises what the ticket ended with."""
        timer = None
        if until_s is not None:
            timer = asyncio.get_running_loop().call_at(until_s, self.end)
        try:
            return await self._answer
        finally:
            if timer is not None:
                timer.cancel()

    def end(self, answer: RequestView | None = None) -> None:
        """Hand `answer` to the caller; what comes after the first end is let go."""
        if not self._answer.done():
            self._answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Raise `error` at the caller."""
        if not self._answer.done():
            self._answer.set_exception(error)


class Tickets:
    """All tickets of one replica, by number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[int, Ticket] = {}

    @contextlib.contextmanager
    def new(self) -> Iterator[Ticket]:
        """A ticket that lasts as long as the block does."""
        ticket = Ticket(next(self._numbers))
        self._open[ticket.number] = ticket
        try:
            yield ticket
        finally:
            self._open.pop(ticket.number, None)

    def end(self, number: int, answer: RequestView | None) -> None:
        """Answer the ticket of this `number`, if anybody waits for it still."""
        if number in self._open:
            self._open[number].end(answer)

    def fail(self, number: int, error: Exception) -> None:
        """End the ticket with an error; see `end`."""
        if number in self._open:
            self._open[number].fail(error)

    def fail_all(self, error: Callable[[], Exception], *, but: Collection[int] = ()) -> None:
        """End all tickets with an `error` of their own, except those in `but`."""
        for number in self._open.keys() - but:
            self._open.pop(number).fail(error())
