"""Threads as fibers of one real thread: they give way where a thread would wait, and nowhere else.

A fiber is a greenlet below the hub, which is the event loop. Who would block tells the loop when to come
back, and switches to the hub. What is here has the names and ways of `threading` and `queue`.
"""

from __future__ import annotations

import contextvars
import queue
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import greenlet

from tests.shells.stage import NODE, playing, world


class Fiber:
    """`work` on a thread of the running node, from the next turn of the loop on."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._green = greenlet.greenlet(work, parent=world().hub)
        self._green.gr_context = contextvars.copy_context()
        node = NODE.get()
        if node is not None:
            node.grave.append(self._green)
        world().loop.call_soon(self._green.switch)


def on_fiber() -> bool:
    """Whether the running code is on a thread, and may wait."""
    return playing() and greenlet.getcurrent() is not world().hub


def sleep(seconds: float) -> None:
    """Let others run for so long; on fibers only."""
    world().loop.call_later(seconds, greenlet.getcurrent().switch)
    world().hub.switch()


class Event:
    """As `threading.Event`."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        if self._set or (timeout is not None and timeout <= 0):
            return self._set
        loop, fiber, context = world().loop, greenlet.getcurrent(), contextvars.copy_context()
        woken = False

        def wake() -> None:
            nonlocal woken
            if not woken:
                woken = True
                loop.call_soon(fiber.switch, context=context)

        self._waiting.append(wake)
        if timeout is not None:
            loop.call_later(timeout, wake)
        world().hub.switch()
        return self._set


class Thread:
    """As `threading.Thread`."""

    def __init__(
        self,
        target: Callable[..., object],
        name: str = "",
        args: Sequence[Any] = (),
        daemon: bool | None = None,
    ) -> None:
        self.name = name
        self._target = target
        self._args = args
        self._ended = Event()

    def start(self) -> None:
        Fiber(self._run)

    def _run(self) -> None:
        try:
            self._target(*self._args)
        finally:
            self._ended.set()

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)


class SimpleQueue:
    """As `queue.SimpleQueue`, for one reader."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._filled = Event()

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._filled.set()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()

    def get(self) -> Any:
        while not self._items:
            self._filled.clear()
            self._filled.wait()
        return self._items.popleft()


class ThreadingModule:
    """What the product takes from `threading`."""

    Thread = Thread
    Event = Event


class QueueModule:
    """What the product takes from `queue`."""

    SimpleQueue = SimpleQueue
    Empty = queue.Empty
