"""An event loop in a separate thread, for code without one, or that cannot wait in its own."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final, TypeVar

from kalends.core.errors import OutcomeUnknown

T = TypeVar("T")

END_S_MAX: Final = 5.0
"""Maximum wait at the end of the program for connections to close, in seconds."""


class LoopThread:
    """A runner of work for other threads, and of `last` before it ends.

    The thread starts with the first work, and again after `end` or in a forked process.
    """

    def __init__(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last = last
        self._changing = threading.Lock()
        self._running: _RunningLoop | None = None

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start `work` in the loop; cancelling the returned future cancels it."""
        with self._changing:
            if self._running is None or self._running.process != os.getpid():
                self._running = _RunningLoop()
                _UNENDED.add(self)
            return asyncio.run_coroutine_threadsafe(work, self._running.loop)

    def end(self, wait_s: float | None = None) -> None:
        """End the thread, if there is one; wait for that up to `wait_s`, None without limit."""
        with self._changing:
            running, self._running = self._running, None
        _UNENDED.discard(self)
        if running is None or running.process != os.getpid():
            return
        closing = asyncio.run_coroutine_threadsafe(self._last(), running.loop)
        closing.add_done_callback(lambda _: running.stop())
        # A forgotten client may be collected in any thread, also in this one.
        if threading.current_thread() is not running.thread:
            running.thread.join(wait_s)


def answer(submitted: Future[T]) -> T:
    """Return the result of submitted work, or raise its error."""
    try:
        return submitted.result()
    except CancelledError as error:
        raise OutcomeUnknown(
            "the client was closed during this call",
            where="client",
            remedy="close the client when all calls have ended; check the outcome of this call",
        ) from error
    except BaseException:
        # Also at Ctrl-C, when the answer is no longer wanted.
        submitted.cancel()
        raise


class _RunningLoop:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self.thread = threading.Thread(target=self._run, name="kalends-client", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._over.set)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._over.wait())


_UNENDED: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Close connections that the program left open, while its threads still run."""
    for each in list(_UNENDED):
        each.end(END_S_MAX)
