"""A transport whose token is asked for when it is needed: it may have been renewed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kalends.client.transports.transport import Transport
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation

if TYPE_CHECKING:
    import aiohttp

TokenSource = Callable[[], Awaitable[str]]
"""Returns a token that is good now."""


class LateTransport:
    """Asks `token` at the first call, and is from then on what `open_with` makes of its answer."""

    def __init__(self, open_with: Callable[[str], Transport], token: TokenSource) -> None:
        self._open_with = open_with
        self._token = token
        self._opening = asyncio.Lock()
        self._opened: Transport | None = None

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        return await (await self._transport()).call(operation, body, timeout_s)

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        return await (await self._transport()).open_socket(path)

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    def abandon(self) -> None:
        if self._opened is not None:
            self._opened.abandon()

    async def _transport(self) -> Transport:
        async with self._opening:
            if self._opened is None:
                self._opened = self._open_with(await self._token())
            return self._opened
