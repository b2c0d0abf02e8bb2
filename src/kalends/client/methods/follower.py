"""Waiting for an open request, by following its events and reporting changes.

A wait may take days, so a broker that does not answer ends it only after `AWAY_S_MAX`. The request itself
continues in any case.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from kalends.contract import calls
from kalends.core.errors import LimitExceeded, Unavailable

Progress = Callable[[calls.RequestView], object]
"""Called with a request while it waits; may be a coroutine function."""

LOOK_AGAIN_S: Final = 5.0
"""Maximum seconds between queries, because places in wait queues change and events may be missed."""

AWAY_S_MAX: Final = 300.0


class Looks(Protocol):
    """The calls that waiting needs."""

    async def show(self, id: str) -> calls.RequestView: ...

    async def events(
        self, after: int = -1, *, id: str = "", wait_s: float = ...
    ) -> calls.Events: ...


class Follower:
    """Follower of requests by the calls of `looks`; `clock` gives seconds that never go back."""

    def __init__(
        self,
        looks: Looks,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._looks = looks
        self._clock = clock
        self._sleep = sleep

    async def settled(
        self,
        id: str,
        *,
        wait_s: float | None,
        on_progress: Progress | None,
        until_listed: bool = False,
        until_asked: bool = False,
    ) -> calls.RequestView:
        """Return request `id` once it is settled, or as it is after `wait_s` (None: no limit).

        With `until_listed` also once it is on waiting lists, with `until_asked` once owners are asked to
        approve it. `on_progress` is called with each view of the open request that differs from the previous
        one. Raises the errors of the calls, but `Unavailable` and `LimitExceeded` only after `AWAY_S_MAX`
        without an answer.
        """
        deadline_s = None if wait_s is None else self._clock() + wait_s
        told, after = None, -1
        heard_s = self._clock()
        while True:
            try:
                after = await self._next_event(id, after, told, deadline_s)
                view = await self._looks.show(id)
            except (Unavailable, LimitExceeded):
                if self._over(heard_s + AWAY_S_MAX) or self._over(deadline_s):
                    raise
                await self._sleep(LOOK_AGAIN_S)
                continue
            heard_s = self._clock()
            waiting = view.waiting
            listed = until_listed and waiting is not None and waiting.listed
            asked = until_asked and waiting is not None and waiting.approval
            if view.state != "open" or listed or asked or self._over(deadline_s):
                return view
            if view != told:
                await tell(on_progress, view)
                told = view

    async def _next_event(
        self, id: str, after: int, told: calls.RequestView | None, deadline_s: float | None
    ) -> int:
        """Return the position after the next event; first the present position.

        The position is known before the first query, so that no event between the two is missed.
        """
        wait_s = 0.0
        if told is not None:
            left_s = LOOK_AGAIN_S if deadline_s is None else deadline_s - self._clock()
            wait_s = min(max(left_s, 0.0), LOOK_AGAIN_S)
        return (await self._looks.events(after, id=id, wait_s=wait_s)).next

    def _over(self, deadline_s: float | None) -> bool:
        return deadline_s is not None and self._clock() >= deadline_s


async def tell(on_progress: Progress | None, view: calls.RequestView) -> None:
    """Call `on_progress`, if there is one, and await it if it is a coroutine function."""
    if on_progress is not None and inspect.isawaitable(answer := on_progress(view)):
        await answer
