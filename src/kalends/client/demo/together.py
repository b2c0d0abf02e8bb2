"""Many calls in flight: all of them, or the first error."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(calls: Iterable[Coroutine[Any, Any, T]], at_once_max: int = 1_000) -> list[T]:
    """What `calls` return, in their order; at most `at_once_max` are under way at a time.

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
