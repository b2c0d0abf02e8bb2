"""A transport that reads its token at each use, because the token may have been renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kalends.client.logins.token_lifetime import lifetime_of
from kalends.client.transports.transport import Transport
from kalends.contract.bodies import Body
from kalends.contract.calls import Operation

if TYPE_CHECKING:
    import aiohttp

TokenSource = Callable[[], Awaitable[str]]
"""A function that returns a valid token."""


class LateTransport:
    """A transport made by `open_with` from the result of `token`, which is called at the first call.

    When the token is about to expire, by `wall_clock` in seconds UTC, calls `token` again before the next
    call. The transport with the last token stays open for calls in flight until the next change.
    """

    def __init__(
        self,
        open_with: Callable[[str], Transport],
        token: TokenSource,
        wall_clock: Callable[[], float],
    ) -> None:
        self._open_with = open_with
        self._token = token
        self._wall_clock = wall_clock
        self._opening = asyncio.Lock()
        self._opened: Transport | None = None
        self._before: Transport | None = None
        self._shown = ""

    async def call(self, operation: Operation, body: Body, timeout_s: float) -> Any:
        return await (await self._transport()).call(operation, body, timeout_s)

    async def open_socket(self, path: str) -> aiohttp.ClientWebSocketResponse[bool]:
        return await (await self._transport()).open_socket(path)

    async def close(self) -> None:
        for each in (self._before, self._opened):
            if each is not None:
                await each.close()

    def abandon(self) -> None:
        for each in (self._before, self._opened):
            if each is not None:
                each.abandon()

    async def _transport(self) -> Transport:
        async with self._opening:
            if self._opened is None or self._is_ending():
                token = await self._token()
                if self._opened is None or token != self._shown:
                    await self._open(token)
            assert self._opened is not None
            return self._opened

    def _is_ending(self) -> bool:
        life = lifetime_of(self._shown)
        return life is not None and life.is_ending(int(self._wall_clock()))

    async def _open(self, token: str) -> None:
        opened = self._open_with(token)
        last, self._before, self._opened = self._before, self._opened, opened
        self._shown = token
        if last is not None:
            await last.close()
