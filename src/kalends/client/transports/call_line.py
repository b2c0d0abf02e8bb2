"""The way to the server: opened by the first call, and again by the first one in another event loop."""

from __future__ import annotations

import asyncio
import atexit
import weakref
from contextlib import suppress
from typing import NamedTuple

from kalends.client.calls import CallSender
from kalends.client.client_settings import ClientSettings
from kalends.client.transports.transport import Transport


class CallLine:
    """The connections of one client. One that is forgotten unclosed closes them by itself."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._open: _OpenLine | None = None

    def sender(self) -> CallSender:
        """Return what makes calls in the running event loop, opened if need be; raises `InvalidInput`."""
        loop = asyncio.get_running_loop()
        if self._open is None or self._open.loop is not loop:
            # Connections belong to the loop that opened them: those of another one are of no use here.
            self._leave()
            transport = self._settings.open_transport()
            sender = self._settings.sender(transport)
            forgotten = weakref.finalize(self, _leave, transport, loop)
            forgotten.atexit = False
            self._open = _OpenLine(loop, transport, sender, forgotten)
            _LINES.add(self)
        return self._open.sender

    async def close(self) -> None:
        """Close the connections; calls in flight fail. The next call opens new ones."""
        if self._open is not None and self._open.loop is not asyncio.get_running_loop():
            self._leave()
        opened, self._open = self._open, None
        if opened is not None:
            opened.forgotten.detach()
            await opened.transport.close()

    def end(self) -> None:
        """Close what is open at the end of the program; a loop that stands still goes on for that."""
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
    """Close what nobody will use any more, where its loop still runs; what a loop has left is let go of."""
    if loop.is_closed():
        transport.abandon()
        return
    loop.call_soon_threadsafe(_close_in, loop, transport)


def _close_in(loop: asyncio.AbstractEventLoop, transport: Transport) -> None:
    task = loop.create_task(transport.close())
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)
    # A loop that ends meanwhile cancels it.
    task.add_done_callback(lambda _: transport.abandon())


_LINES: weakref.WeakSet[CallLine] = weakref.WeakSet()

_CLOSING: set[asyncio.Task[None]] = set()
"""The event loop itself keeps no task."""


@atexit.register
def _end_all() -> None:
    for line in list(_LINES):
        line.end()
