"""One WebSocket to the terminal of a job."""

from __future__ import annotations

import contextlib
from typing import Final, Self

import aiohttp
import msgspec

from kalends.client.calls import CallSender
from kalends.client.transports.retry import ConnectionFailed
from kalends.contract import codec
from kalends.contract.terminal_frames import (
    TERMINALS_PATH,
    AttachTerminal,
    FromOnlooker,
    TerminalRefusal,
    ToOnlooker,
)
from kalends.core.errors import InvalidInput, KalendsError, error_from_problem

_FRAMES: Final = msgspec.msgpack.Decoder(ToOnlooker)


class TerminalLine:
    """A connection; it is lost when `next` returns None, and then drops what is sent."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool]) -> None:
        self._socket = socket
        self._first: ToOnlooker | None = None

    @classmethod
    async def opened(cls, sender: CallSender, wish: AttachTerminal) -> Self:
        """Return a connection that granted `wish`; raises `ConnectionFailed`, or the site's refusal."""
        line = cls(await sender.open_socket(TERMINALS_PATH))
        try:
            await line.say(wish)
            first = await line.next()
            if first is None:
                raise ConnectionFailed("the server closed the connection", sent=False)
            if isinstance(first, TerminalRefusal):
                raise error_from_problem(first.problem)
        except BaseException:
            await line.close()
            raise
        line._first = first
        return line

    async def say(self, frame: AttachTerminal | FromOnlooker) -> None:
        # The reader notices that the connection is lost.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            await self._socket.send_bytes(codec.encode_msgpack(frame))

    async def next(self) -> ToOnlooker | None:
        """Return the next frame of the site; raises `KalendsError` for invalid ones."""
        if self._first is not None:
            first, self._first = self._first, None
            return first
        try:
            message = await self._socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return None
            frame: ToOnlooker = codec.decode_frame(message.data, _FRAMES)
        except (aiohttp.ClientError, OSError):
            return None
        except InvalidInput as error:
            raise KalendsError(
                f"the server sent an invalid frame: {error.where}: {error.detail}",
                where="terminal",
                remedy="use the same version of client and server",
            ) from error
        return frame

    async def close(self) -> None:
        await self._socket.close()
