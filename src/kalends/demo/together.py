"""Many calls in flight, all of them or the first error; and looking until something is so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from kalends.core.errors import Unavailable

T = TypeVar("T")

SETTLE_S_MAX: Final = 15.0
"""Servers on one machine agree within a moment; longer is a fault."""

LOOK_EVERY_S: Final = 0.05


async def all_of(calls: Iterable[Coroutine[Any, Any, T]], at_once_max: int = 1_000) -> list[T]:
    """Return the results of `calls` in order, with at most `at_once_max` under way at a time.

    When one raises, the others are cancelled and awaited, and its error is raised as it is.
    """
    turn = asyncio.Semaphore(at_once_max)

    async def take_turn(call: Coroutine[Any, Any, T]) -> T:
        async with turn:
            return await call

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(take_turn(call)) for call in calls]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def until(
    look: Callable[[], Awaitable[T]],
    settled: Callable[[T], bool],
    otherwise: str,
    within_s: float = SETTLE_S_MAX,
) -> T:
    """Call `look` until its result is `settled`, and return it.

    Raises what `look` raises, and `Unavailable` with the text `otherwise` after `within_s`.
    """
    try:
        async with asyncio.timeout(within_s):
            while not settled(seen := await look()):  # noqa: ASYNC110  no call waits for a site
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise Unavailable(otherwise, remedy="read the logs of the servers") from None
    return seen
