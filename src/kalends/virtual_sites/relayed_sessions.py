"""Sessions with members: two sockets, what comes on one leaves on the other, and so does its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, NamedTuple

import aiohttp
from aiohttp import WSCloseCode, WSMsgType, web

from kalends.serving.http.sessions import close_reason

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse[bool]
Hear = Callable[[bytes], None]

CLOSE_S_MAX: Final = 2.0

NOT_SENT: Final = (0, 1005, 1006, 1015)
"""Codes that say that there was none (RFC 6455, section 7.4.1)."""


class Ending(NamedTuple):
    """Reason why one side of a session ended it."""

    code: int
    reason: str


GONE: Final = Ending(WSCloseCode.GOING_AWAY, "the other side has disconnected")


async def joined(
    ours: Socket, theirs: Socket, hear_ours: Hear, hear_theirs: Hear, member: str, send_s_max: float
) -> bool:
    """Pass on what both say until one of them ends; return whether both could be told of it.

    A side that takes nothing for `send_s_max` is gone: then nobody can tell it anything.
    """
    broke = Ending(WSCloseCode.GOING_AWAY, f"the connection to {member} broke")
    both = {
        asyncio.create_task(_pass_on(ours, theirs, hear_ours, send_s_max, GONE)): theirs,
        asyncio.create_task(_pass_on(theirs, ours, hear_theirs, send_s_max, broke)): ours,
    }
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        ends = {both[task]: task.result() for task in done}
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
    for target, ending in ends.items():
        if ending is not None:
            await closed(target, ending)
        elif target is theirs:
            await closed(ours, broke)
        else:
            await closed(theirs, GONE)
    return None not in ends.values()


async def closed(socket: Socket, ending: Ending) -> None:
    """Close a session, within `CLOSE_S_MAX`: who goes on talking is not listened to for ever."""
    with contextlib.suppress(aiohttp.ClientError, ConnectionError, TimeoutError):
        async with asyncio.timeout(CLOSE_S_MAX):
            await socket.close(code=ending.code, message=close_reason(ending.reason))


async def _pass_on(
    source: Socket, target: Socket, hear: Hear, send_s_max: float, broke: Ending
) -> Ending | None:
    """Hand on messages until `source` ends, and return how; None when `target` takes none any more."""
    while True:
        message = await source.receive()
        try:
            async with asyncio.timeout(send_s_max):
                if message.type is WSMsgType.BINARY:
                    hear(message.data)
                    await target.send_bytes(message.data)
                elif message.type is WSMsgType.TEXT:
                    await target.send_str(message.data)
                else:
                    return _ending(message.type, message.data, message.extra or "", broke)
        except (aiohttp.ClientError, ConnectionError, TimeoutError):
            return None


def _ending(kind: WSMsgType, data: object, extra: str, broke: Ending) -> Ending:
    if kind is WSMsgType.CLOSE and isinstance(data, int):
        return Ending(WSCloseCode.OK if data in NOT_SENT else data, extra)
    if kind is WSMsgType.ERROR and isinstance(data, aiohttp.WebSocketError):
        return Ending(data.code, str(data))
    return broke
