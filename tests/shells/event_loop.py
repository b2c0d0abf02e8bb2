"""asyncio's own event loop without a selector: when nothing is ready, time jumps to the next timer.

Order within a process is asyncio's. What comes from elsewhere comes by timers whose times chance has
drawn. Handles of nodes that are dead never run; those of nodes that pause are kept back.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import socket
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.shells.fibers import Fiber
from tests.shells.stage import NODE

if TYPE_CHECKING:
    from tests.shells.world import World

CANCELLED_TIMERS_MAX = 100

_numbers = itertools.count()


class Future(asyncio.Future[Any]):
    """Numbered, so that the order in a set of them is the same in every process."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = next(_numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class Task(asyncio.Task[Any]):
    """Numbered, as futures are."""

    def __init__(self, coro: Coroutine[Any, Any, Any], **more: Any) -> None:
        self._number = next(_numbers)
        super().__init__(coro, **more)

    def __hash__(self) -> int:
        return self._number


class Loop(asyncio.BaseEventLoop):
    """`now_s` is true time, in seconds since the world began."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.now_s = 0.0
        self.steps = 0
        self._world = world
        self._work: defaultdict[object, deque[Callable[[], None]]] = defaultdict(deque)

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        self._forget_cancelled_timers()
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # asyncio's own
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise RuntimeError("nothing will ever happen again: everybody waits for somebody")
            self.now_s = max(self.now_s, timers[0].when())
        while timers and timers[0].when() <= self.now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            self._run_handle(ready.popleft())

    def _forget_cancelled_timers(self) -> None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        if self._timer_cancelled_count > max(CANCELLED_TIMERS_MAX, len(timers) // 2):  # type: ignore[has-type]
            timers[:] = [timer for timer in timers if not timer.cancelled()]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0].cancelled():
            heapq.heappop(timers)._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1

    def _run_handle(self, handle: asyncio.Handle) -> None:
        if handle.cancelled():
            return
        context: contextvars.Context = handle._context  # type: ignore[attr-defined]
        node = context.get(NODE)
        if node is not None and node.dead:
            node.grave.append(handle)
        elif node is not None and node.paused:
            node.held.append(handle)
        else:
            self.steps += 1
            handle._run()

    def create_future(self) -> asyncio.Future[Any]:
        return Future(loop=self)

    def resume(self, handles: list[asyncio.Handle]) -> None:
        """Run what a pause has kept back, in its order."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def create_task(self, coro: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
        task = Task(coro, loop=self, **more)
        node = NODE.get()
        if node is not None:
            node.tasks.add(task)
            task.add_done_callback(node.tasks.discard)
        return task

    # Threads

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """`func` on a fiber; an executor that is named has one worker."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except BaseException as error:
                self.call_soon(_settle, future, None, error)
            else:
                self.call_soon(_settle, future, result, None)

        if executor is None:
            Fiber(work)
            return future
        waiting = self._work[executor]
        waiting.append(work)
        if len(waiting) == 1:
            Fiber(lambda: _work_off(waiting))
        return future

    async def shutdown_default_executor(self, *_: object) -> None:
        pass

    # Sockets

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await self._world.network.connect(sock, address[:2])

    async def create_connection(self, protocol_factory: Any, *_: Any, **more: Any) -> Any:
        assert not more.get("ssl"), "the simulated network knows no TLS"
        return self._world.network.connected(protocol_factory, more["sock"])

    async def sock_accept(self, sock: Any) -> Any:
        return await sock.accept()

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Any, sock: Any, **more: Any
    ) -> Any:
        assert not more.get("ssl"), "the simulated network knows no TLS"
        return self._world.network.accepted(protocol_factory, sock)

    def _write_to_self(self) -> None:
        pass

    def _process_events(self, event_list: Any) -> None:
        pass


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _work_off(waiting: deque[Callable[[], None]]) -> None:
    while waiting:
        waiting[0]()
        waiting.popleft()
