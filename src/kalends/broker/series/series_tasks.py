"""Tasks that book or change occurrences of a series: they go on without their callers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

T = TypeVar("T")

WAVE: Final = 32
"""Occurrences that are asked for at once: half of what a site promises one user at a time."""


class SeriesTasks:
    """Tasks by the id of their series."""

    def __init__(self) -> None:
        self._running: dict[str, set[asyncio.Task[None]]] = {}

    async def run(self, series: str, work: Coroutine[Any, Any, None], until_s: float) -> None:
        """Wait for `work` until `until_s` (loop time); it goes on then, and without its caller, too."""
        task = asyncio.create_task(work)
        self._running.setdefault(series, set()).add(task)
        task.add_done_callback(partial(self._over, series))
        left_s = max(until_s - asyncio.get_running_loop().time(), 0)
        done, _ = await asyncio.wait((task,), timeout=left_s)
        for each in done:
            each.result()

    async def stop(self, series: str) -> None:
        """End the tasks of a series: occurrences that are not asked for yet will not be."""
        running = list(self._running.get(series, ()))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _over(self, series: str, task: asyncio.Task[None]) -> None:
        self._running[series].discard(task)
        if not self._running[series]:
            del self._running[series]
        if not task.cancelled():
            task.exception()  # Each occurrence shows what has become of it.


def waves(each: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return all of `each`, in order, in groups that are asked for at once."""
    for first in range(0, len(each), WAVE):
        yield each[first : first + WAVE]
