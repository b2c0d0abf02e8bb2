"""The WebSockets at which people sit at the terminals of jobs.

A session passes frames on between its client and the shepherd of the job, and keeps nothing. A client that
does not read is let go by the shepherd, and one that says what is no frame by us; the program waits for
neither. How long a session lives is its client's affair: it comes back by itself, and goes on where it was.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

import msgspec
from aiohttp import WSCloseCode, WSMessage, WSMsgType, web

from kalends.batch.shepherds.shepherd_line import Attachment, History, Notice, Output
from kalends.contract import codec
from kalends.contract import terminal_frames as t
from kalends.core.errors import (
    Conflict,
    InvalidInput,
    KalendsError,
    LimitExceeded,
    TooLarge,
    Unavailable,
)
from kalends.serving.audit_log import AuditLog
from kalends.serving.auth.callers import Caller
from kalends.serving.http.application import audit_of, caller_of, open_socket
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.sessions import close_reason

T = TypeVar("T")

SESSIONS_MAX: Final = 512
SESSIONS_OF_USER_MAX: Final = 64
FIRST_FRAME_S_MAX: Final = 10.0
"""A client says what it wants at once."""

LOOK_EVERY_S: Final = 10.0
"""Whether the caller's token has been revoked."""

_WISHES: Final = msgspec.msgpack.Decoder(t.AttachTerminal)
_FRAMES: Final[msgspec.msgpack.Decoder[t.FromOnlooker]] = msgspec.msgpack.Decoder(t.FromOnlooker)


class Seat(NamedTuple):
    """A place at the terminal of attempt `attempt`."""

    attempt: int
    place: Attachment


TerminalGate = Callable[[Caller, t.AttachTerminal], Awaitable[Seat]]
"""Lets a caller to the terminal of a job.

Raises `NotFound`, `NotAllowed`, `InvalidInput` without one, `Conflict` if it does not run.
"""


class _Close(NamedTuple):
    """Reasons for the end of a session."""

    code: int
    reason: str


_ENDED: Final = _Close(WSCloseCode.OK, "the program has ended")
_REFUSED: Final = _Close(WSCloseCode.OK, "this terminal takes no more sessions")
_LEFT: Final = _Close(WSCloseCode.OK, "")
_LET_GO: Final = _Close(WSCloseCode.TRY_AGAIN_LATER, "the terminal has closed this session")
_EXPIRED: Final = _Close(WSCloseCode.POLICY_VIOLATION, "the token has expired: send a new one")
_DISOWNED: Final = _Close(
    WSCloseCode.POLICY_VIOLATION, "the key of this token is no longer trusted"
)
_NO_FRAME: Final = _Close(WSCloseCode.UNSUPPORTED_DATA, "frames are binary: MessagePack")
_SILENT: Final = _Close(WSCloseCode.POLICY_VIOLATION, "no terminal was asked for")


class TerminalSessions:
    """`wall_s` tells whether a caller's right has run out, in seconds UTC."""

    def __init__(
        self, gate: TerminalGate, limits: ServingLimits, wall_s: Callable[[], int]
    ) -> None:
        self._gate = gate
        self._limits = limits
        self._wall_s = wall_s
        self._open: dict[web.WebSocketResponse, Caller] = {}
        self._stopping = False

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """One session, authenticated at the upgrade."""
        caller = caller_of(request, "use")
        if self._stopping:
            raise Unavailable("the site is stopping", retry_after_s=1.0)
        user = caller.principal.user
        of_user = sum(each.principal.user == user for each in self._open.values())
        if len(self._open) >= SESSIONS_MAX or of_user >= SESSIONS_OF_USER_MAX:
            raise LimitExceeded(
                "too many terminals are attached to",
                where="terminals",
                remedy="detach from some, or try again later",
                retry_after_s=1.0,
            )
        socket = await open_socket(request, self._limits)
        self._open[socket] = caller
        transport = request.transport
        try:
            try:
                code, reason = await self._serve(socket, caller, audit_of(request))
            except (InvalidInput, TooLarge) as error:
                code, reason = WSCloseCode.INVALID_TEXT, f"{error.where}: {error.detail}"
            await socket.close(code=code, message=close_reason(reason))
        except (TimeoutError, ConnectionError):
            if transport is not None:
                transport.abort()
        finally:
            del self._open[socket]
        return socket

    async def close(self, code: int, reason: str) -> None:
        """Close every session, and open none any more. The jobs go on."""
        self._stopping = True
        message = close_reason(reason)
        closing = [socket.close(code=code, message=message) for socket in list(self._open)]
        await asyncio.gather(*closing, return_exceptions=True)

    async def close_unless(self, believed: Callable[[Caller], bool]) -> None:
        """Close the sessions of users whose tokens are no longer trusted. The jobs go on."""
        closing = [
            socket.close(code=_DISOWNED.code, message=close_reason(_DISOWNED.reason))
            for socket, caller in list(self._open.items())
            if not believed(caller)
        ]
        await asyncio.gather(*closing, return_exceptions=True)

    async def _serve(
        self, socket: web.WebSocketResponse, caller: Caller, audit: AuditLog
    ) -> _Close:
        """Raises `InvalidInput` and `TooLarge` for what is no frame, `TimeoutError` when nothing is taken."""
        try:
            async with asyncio.timeout(FIRST_FRAME_S_MAX):
                message = await socket.receive()
        except TimeoutError:
            return _SILENT
        wish = _understood(message, _WISHES)
        if isinstance(wish, _Close):
            return wish
        try:
            seat = await self._gate(caller, wish)
        except KalendsError as error:
            await self._say(socket, t.TerminalRefusal(problem=error.to_problem()))
            return _REFUSED
        audit.done("attach", caller, machine=wish.machine, job=wish.job, keys=wish.keys)
        place = seat.place
        try:
            if wish.keys:
                place.ask_keys(wish.rows, wish.columns, wish.seat, again=wish.again)
            else:
                place.look_on()
            return await self._pass_on(socket, seat, caller)
        finally:
            await place.close()

    async def _pass_on(self, socket: web.WebSocketResponse, seat: Seat, caller: Caller) -> _Close:
        """Pass frames on in both directions until either side ends it, or the caller's right runs out."""
        left_s = caller.expires_at - self._wall_s() if caller.expires_at else math.inf
        both = {
            asyncio.create_task(self._hear(socket, seat.place)),
            asyncio.create_task(self._show(socket, seat)),
        }
        try:
            done: set[asyncio.Task[_Close]] = set()
            while not done and left_s > 0 and not caller.is_revoked():
                wait_s = min(left_s, LOOK_EVERY_S)
                done, _ = await asyncio.wait(
                    both, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED
                )
                left_s -= wait_s
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        if not done:
            return _EXPIRED
        return next(iter(done)).result()

    async def _hear(self, socket: web.WebSocketResponse, place: Attachment) -> _Close:
        """Hand on what the client says."""
        while True:
            frame = _understood(await socket.receive(), _FRAMES)
            if isinstance(frame, _Close):
                return frame
            try:
                async with asyncio.timeout(self._limits.send_s_max):
                    if isinstance(frame, t.TypedKeys):
                        await place.type(frame.data)
                    elif isinstance(frame, t.InputEnd):
                        await place.end_input()
                    else:
                        place.resize(frame.rows, frame.columns)
            except Conflict:
                return _LET_GO

    async def _show(self, socket: web.WebSocketResponse, seat: Seat) -> _Close:
        """Tell the client what the shepherd says."""
        while True:
            said = await seat.place.next()
            if said is None:
                return _LET_GO
            if isinstance(said, Notice) and "ended" in said.what:
                await self._say(socket, t.TerminalEnd())
                return _ENDED
            await self._say(socket, _frame_of(said, seat.attempt))

    async def _say(self, socket: web.WebSocketResponse, frame: t.ToOnlooker) -> None:
        """Send one frame; raises `TimeoutError` when the client takes nothing."""
        async with asyncio.timeout(self._limits.send_s_max):
            await socket.send_bytes(codec.encode_msgpack(frame))


def _understood(message: WSMessage, decoder: msgspec.msgpack.Decoder[T]) -> T | _Close:
    """Return the frame in `message`, or how the session ends; raises `InvalidInput` and `TooLarge`."""
    if message.type is WSMsgType.TEXT:
        return _NO_FRAME
    if message.type is not WSMsgType.BINARY:
        return _LEFT
    return codec.decode_frame(message.data, decoder)


def _frame_of(said: History | Output | Notice, attempt: int) -> t.ToOnlooker:
    if isinstance(said, History):
        return t.ScreenHistory(attempt=attempt, start=said.start, data=said.data)
    if isinstance(said, Output):
        return t.ScreenOutput(data=said.data)
    what = said.what
    return t.SeatNotice(
        keys=what["keys"], attached=what["attached"], typed=what["typed"], pending=what["pending"]
    )
