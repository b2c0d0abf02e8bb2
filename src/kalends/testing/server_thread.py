"""A thread with an event loop whose timers follow a given clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ServerThread:
    """A thread that runs work until `stop`; timers are due by `monotonic_s`."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._loop = _ClockedLoop(monotonic_s)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="kalends-testing", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which begins after every timer that is due now."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _ClockedLoop(asyncio.SelectorEventLoop):
    """Wake the loop by a call from another thread, so that it checks its timers by `time`."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        super().__init__()

    def time(self) -> float:
        return self._monotonic_s()
