"""Calls over a session: one WebSocket, many calls in flight, batched per turn of the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec

from kalends.client.transports.retry import ConnectionFailed
from kalends.client.transports.sockets import open_socket, socket_session
from kalends.client.transports.transport import ANSWER_BYTES_MAX, Access, error_from_server, failure
from kalends.contract import codec
from kalends.contract.bodies import Body
from kalends.contract.calls import Call, Operation, Reply
from kalends.contract.paths import CALLS_PATH
from kalends.core import limits
from kalends.core.errors import InvalidInput

CALLS_IN_FLIGHT_MAX = limits.FRAME_MESSAGES_MAX // 2
"""Maximum calls in flight, because servers refuse more on one session; further calls wait here."""

_ARRAY16 = b"\xdc"
"""MessagePack's head of an array with a 16-bit length; calls are packed one by one to know their sizes."""


class SessionTransport:
    """A `Transport` over a WebSocket, opened at the first call and again after it broke.

    `connect_s` is the maximum time of opening it; None: that of the call.
    """

    def __init__(self, access: Access, connect_s: float | None = None) -> None:
        self._connect_s = connect_s
        self._access = access
        self._http = socket_session(access)
        self._room = asyncio.Semaphore(CALLS_IN_FLIGHT_MAX)
        self._opening = asyncio.Lock()
        self._connection: _Connection | None = None

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        handed_over = False
        try:
            async with asyncio.timeout(timeout_s), self._room:
                async with asyncio.timeout(self._connect_s):
                    connection = await self._connected()
                handed_over = True
                return await connection.call(operation.name, msgspec.to_builtins(body))
        except TimeoutError as error:
            waited_s = timeout_s if handed_over else min(timeout_s, self._connect_s or timeout_s)
            detail = f"no answer within {waited_s:.0f} s"
            raise ConnectionFailed(detail, sent=handed_over) from error

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        if self._http.closed:
            raise ConnectionFailed("the client was closed", sent=False)
        return await open_socket(self._http, self._access, path)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
        await self._http.close()

    def abandon(self) -> None:
        self._http.detach()

    async def _connected(self) -> _Connection:
        async with self._opening:
            if self._connection is None or self._connection.broken:
                if self._connection is not None:
                    await self._connection.close()
                self._connection = _Connection(await self.open_socket(CALLS_PATH))
            return self._connection


class _Connection:
    """One open WebSocket: a writer that sends gathered calls, a reader that delivers replies."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._socket = socket
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._outbox: deque[tuple[int, bytes]] = deque()
        self._gathered = asyncio.Event()
        self.broken = False
        self._tasks = [asyncio.create_task(self._write()), asyncio.create_task(self._read())]

    async def call(self, name: str, body: dict[str, object]) -> Any:
        if self.broken:
            raise ConnectionFailed("the connection closed", sent=False)
        self._number += 1
        number = self._number
        packed = codec.encode_msgpack(Call(number=number, name=name, body=body))
        codec.check_size(packed, limits.BODY_BYTES_MAX)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        self._outbox.append((number, packed))
        self._gathered.set()
        try:
            return _answer(await reply)
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        self._fail("the connection was closed by this client")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._socket.close()

    async def _write(self) -> None:
        while True:
            await self._gathered.wait()
            self._gathered.clear()
            for frame in _frames(self._outbox):
                try:
                    await self._socket.send_bytes(frame)
                except (aiohttp.ClientError, OSError) as error:
                    self._fail(failure(error, sent=True).detail)
                    return

    async def _read(self) -> None:
        detail = "this client gave up the connection"
        try:
            detail = await self._deliver()
        finally:
            # Also when the loop ends and cancels all tasks, because nothing may stay open.
            self._fail(detail)
            with suppress(aiohttp.ClientError):
                await self._socket.close()

    async def _deliver(self) -> str:
        """Deliver replies; return the reason of their end."""
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY:
                return "the server sent something that is not a reply"
            try:
                replies = codec.decode_msgpack(
                    message.data, list[Reply], bytes_max=ANSWER_BYTES_MAX
                )
            except InvalidInput:
                return "the server sent something that is not a reply"
            for reply in replies:
                waiting = self._waiting.get(reply.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        return "the server closed the connection"

    def _fail(self, detail: str) -> None:
        """Fail all waiting calls; those still in the outbox were certainly never sent."""
        self.broken = True
        unsent = {number for number, _ in self._outbox}
        self._outbox.clear()
        for number, waiting in self._waiting.items():
            if not waiting.done():
                waiting.set_exception(ConnectionFailed(detail, sent=number not in unsent))


def _frames(outbox: deque[tuple[int, bytes]]) -> Iterator[bytes]:
    """Empty `outbox` into frames within the limits on calls and bytes of one frame."""
    while outbox:
        count = codec.messages_in_frame((len(packed) for _, packed in outbox), 3)
        calls = [outbox.popleft()[1] for _ in range(count)]
        yield b"".join([_ARRAY16, count.to_bytes(2, "big"), *calls])


def _answer(reply: Reply) -> Any:
    if reply.problem is not None:
        raise error_from_server(reply.problem)
    return reply.answer
