"""Turns of users at something of which there is little: workers for scripts, or for hard searches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from kalends.core.fair_queue import FairQueue


class Turns:
    """Turns, at most `at_once_max` at a time; the others wait in `queue`, each `wait_s_max` at most.

    `crowded` makes the error of a caller without a turn: the queue is full, or the wait was too long.
    """

    def __init__(
        self,
        queue: FairQueue[asyncio.Future[None]],
        *,
        at_once_max: int,
        wait_s_max: float,
        crowded: Callable[[], Exception],
    ) -> None:
        self._queue = queue
        self._at_once_max = at_once_max
        self._wait_s_max = wait_s_max
        self._crowded = crowded
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self.taken = 0
        """Turns that are had now."""

    @contextlib.asynccontextmanager
    async def one(self, user: str) -> AsyncIterator[None]:
        """Have a turn as long as the context lasts; raises what `crowded` makes, and what `end` is given."""
        if self.taken >= self._at_once_max:
            await self._wait(user)
        else:
            self.taken += 1
            self._at_rest.clear()
        try:
            yield
        finally:
            self._pass_on()

    def end(self, error: Exception) -> None:
        """Raise `error` at all who wait."""
        while (turn := self._queue.pop()) is not None:
            if not turn.done():
                turn.set_exception(error)

    async def rest(self) -> None:
        """Return once all turns have ended."""
        await self._at_rest.wait()

    async def _wait(self, user: str) -> None:
        """Queue until a turn is passed on."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        put_out = self._queue.push(user, turn)
        if put_out is turn:
            raise self._crowded()
        if put_out is not None and not put_out.done():
            put_out.set_exception(self._crowded())
        mine = False
        try:
            async with asyncio.timeout(self._wait_s_max):
                await turn
                mine = True
        except TimeoutError:
            raise self._crowded() from None
        finally:
            in_queue = self._queue.remove(user, turn)
            if not (mine or in_queue or turn.cancelled() or turn.exception()):
                # The turn came just as its owner gave up waiting.
                self._pass_on()

    def _pass_on(self) -> None:
        """Pass this turn to the next who waits, or give it up."""
        while (turn := self._queue.pop()) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self.taken -= 1
        if self.taken == 0:
            self._at_rest.set()
