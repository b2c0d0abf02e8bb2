"""The user's wish to leave or end a job while a command runs, by a signal or its key."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LEAVE: Final = (signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class Told(Exception):
    """The user's wish to end this command and leave the job alone, or (`interrupted`) to end it as well."""

    def __init__(self, *, interrupted: bool = False) -> None:
        super().__init__("interrupted" if interrupted else "left")
        self.interrupted = interrupted


class Ear:
    """A receiver of the wish: Ctrl-C interrupts; Ctrl-\\ leaves, and so does a closed terminal."""

    def __init__(self) -> None:
        self._told: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    def tell(self, told: Told) -> None:
        """Record the wish; only the first counts."""
        if not self._told.done():
            self._told.set_result(told)

    async def unless_told(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`; if a wish comes first, cancels `work` and raises `Told`."""
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, self._told}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise self._told.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def ear() -> Iterator[Ear]:
    """Receive signals inside the block."""
    loop, heard = asyncio.get_running_loop(), Ear()
    loop.add_signal_handler(signal.SIGINT, heard.tell, Told(interrupted=True))
    for each in _LEAVE:
        loop.add_signal_handler(each, heard.tell, Told())
    try:
        yield heard
    finally:
        for each in (signal.SIGINT, *_LEAVE):
            loop.remove_signal_handler(each)
