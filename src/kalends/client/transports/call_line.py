"""The connections of a client: opened by the first call, and again by the first one in another event loop."""

from __future__ import annotations

import asyncio
import atexit
import weakref
from contextlib import suppress
from typing import NamedTuple

from kalends.client.calls import A, CallSender
from kalends.client.client_settings import ClientSettings
from kalends.client.transports.transport import Transport
from kalends.contract.bodies import Body


class CallLine:
    """The connections of one client; also closed if the client is forgotten unclosed."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._open: _OpenLine | None = None

    def sender(self) -> CallSender:
        """Return the sender of calls in the running event loop, opened if need be; raises `InvalidInput`."""
        loop = asyncio.get_running_loop()
        if self._open is None or self._open.loop is not loop:
            # Connections belong to the loop that opened them; those of another loop cannot be used here.
            self._leave()
            transport = self.settings.open_transport()
            sender = self.settings.sender(transport)
            forgotten = weakref.finalize(self, _leave, transport, loop)
            forgotten.atexit = False
            self._open = _OpenLine(loop, transport, sender, forgotten)
            _LINES.add(self)
        return self._open.sender

    @property
    def server(self) -> str:
        """The address at which the last call was answered, of several."""
        transport = self._open.transport if self._open is not None else None
        return getattr(transport, "address", "")

    async def call(self, body: Body, name: str, answer: type[A]) -> A:
        """Return the answer to one call; raises like `CallSender.call`."""
        return await self.sender().call(body, name, answer)

    async def close(self) -> None:
        """Close the connections; calls in flight fail. The next call opens new ones."""
        if self._open is not None and self._open.loop is not asyncio.get_running_loop():
            self._leave()
        opened, self._open = self._open, None
        if opened is not None:
            opened.forgotten.detach()
            await opened.transport.close()

    def end(self) -> None:
        """Close open connections at the end of the program; a stopped loop is run again for that."""
        opened = self._open
        if opened is None or opened.loop.is_running() or opened.loop.is_closed():
            self._leave()
            return
        with suppress(RuntimeError):
            opened.loop.run_until_complete(self.close())

    def _leave(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.forgotten.detach()
            _leave(opened.transport, opened.loop)


class _OpenLine(NamedTuple):
    loop: asyncio.AbstractEventLoop
    transport: Transport
    sender: CallSender
    forgotten: weakref.finalize[[Transport, asyncio.AbstractEventLoop], CallLine]


def _leave(transport: Transport, loop: asyncio.AbstractEventLoop) -> None:
    """Close unused connections if their loop still runs; those of ended loops are abandoned."""
    if loop.is_closed():
        transport.abandon()
        return
    loop.call_soon_threadsafe(_close_in, loop, transport)


def _close_in(loop: asyncio.AbstractEventLoop, transport: Transport) -> None:
    task = loop.create_task(transport.close())
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)
    # A loop that ends in the meantime cancels the task.
    task.add_done_callback(lambda _: transport.abandon())


_LINES: weakref.WeakSet[CallLine] = weakref.WeakSet()

_CLOSING: set[asyncio.Task[None]] = set()
"""References to tasks, because an event loop keeps none."""


@atexit.register
def _end_all() -> None:
    for line in list(_LINES):
        line.end()
