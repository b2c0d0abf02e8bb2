"""Sessions that are handed on: who takes nothing, and who goes on talking, does not keep them for ever."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from tests.support.patience import PATIENCE_S

from kalends.virtual_sites.relayed_sessions import joined

UPGRADE = (
    "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def nobody(frame: bytes) -> None:
    """Hear nothing."""


@asynccontextmanager
async def listening(application: web.Application) -> AsyncIterator[int]:
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_a_reader_that_takes_nothing_is_given_up_and_so_is_who_floods_it() -> None:
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def flood(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        with contextlib.suppress(ConnectionError):
            while not told.done():
                await socket.send_bytes(b"x" * 100_000)
        return socket

    sender = web.Application()
    sender.router.add_get("/", flood)
    async with listening(sender) as port:

        async def relay(request: web.Request) -> web.StreamResponse:
            ours = web.WebSocketResponse()
            await ours.prepare(request)
            async with (
                aiohttp.ClientSession() as http,
                http.ws_connect(f"http://127.0.0.1:{port}/") as theirs,
            ):
                told.set_result(await joined(ours, theirs, nobody, nobody, "odd", 0.3))
            assert request.transport is not None
            request.transport.abort()
            return ours

        between = web.Application()
        between.router.add_get("/", relay)
        async with listening(between) as way, asyncio.timeout(PATIENCE_S):
            # Beyond this limit nothing is taken from the socket.
            _, writer = await asyncio.open_connection("127.0.0.1", way, limit=1_000)
            writer.write(UPGRADE.encode())
            assert not await told
            writer.close()
