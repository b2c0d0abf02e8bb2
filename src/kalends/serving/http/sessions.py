"""The WebSocket ``/v1/calls``: one client, many calls in flight, replies in batches.

A frame is MessagePack of several calls; replies that are made in one turn of the event loop leave in
one frame, in the order in which they were made. The memory of a client is bounded: its calls in
flight, bytes of unread replies, the size of a frame. When the session closes, calls in
flight continue to their end, and the client asks for their outcome by key.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import msgpack
from aiohttp import WSCloseCode, WSMsgType, web

from kalends.contract import codec
from kalends.contract.agreement import told
from kalends.contract.bodies import Answer
from kalends.contract.calls import CallFrame, Reply, UnreadCall
from kalends.core.errors import InvalidInput, KalendsError, LimitExceeded, TooLarge
from kalends.serving.auth.callers import Caller
from kalends.serving.http.dispatch import Dispatcher, answer_overdue
from kalends.serving.http.rate_limits import BYTES_OF_A_CALL

CLOSE_REASON_BYTES_MAX: Final = 123
"""RFC 6455 section 5.5: a control frame carries 125 bytes, two of them the code."""

_ARRAY_HEADER_BYTES_MAX: Final = 5

_CALL_FRAME: Final[Any] = CallFrame
"""An annotated alias, which the type checker does not accept as a type."""

_Ticket = tuple[int, str, float]
"""A call in flight: its number, its name, and when it started."""


class Session:
    """One client's session; `run` serves it until either side closes.

    `abort` drops the connection at once, for a client that reads no bytes; `known` are the features that may
    be used with it.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        caller: Caller,
        dispatcher: Dispatcher,
        abort: Callable[[], None],
        known: frozenset[str] = frozenset(),
    ) -> None:
        self._socket = socket
        self.caller = caller
        self._dispatcher = dispatcher
        self._abort = abort
        self._known = known
        self._limits = dispatcher.limits
        self._clock = dispatcher.clock
        self._in_flight: dict[object, _Ticket] = {}
        self._replies: deque[bytes] = deque()
        self._replies_bytes = 0
        self._to_write = asyncio.Event()
        self._drained = asyncio.Event()
        """Set while no reply waits to be sent, and permanently once nothing more can be sent."""
        self._over = False

    async def run(self) -> None:
        """Serve the session until either side closes it."""
        writer = asyncio.create_task(self._write())
        sweeper = asyncio.create_task(self._sweep())
        try:
            await self._read()
        finally:
            self._end()
            writer.cancel()
            sweeper.cancel()
            await asyncio.gather(writer, sweeper, return_exceptions=True)

    @property
    def calls_in_flight(self) -> int:
        return len(self._in_flight)

    def give_way(self) -> None:
        """End soon, because others need the place; the outcome of calls in flight is found by their keys."""
        reason = "all sessions are in use, and this user has the most of them"
        self._dispatcher.start(self._close(WSCloseCode.TRY_AGAIN_LATER, reason))

    async def drain(self, drain_s: float) -> None:
        """Let calls in flight be answered within `drain_s`, then close as going away.

        The outcome of calls left then is unknown to the client, which can ask for it by key.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                while not self._over and (self._in_flight or self._replies):
                    self._drained.clear()
                    await self._drained.wait()
        await self._close(WSCloseCode.GOING_AWAY, "the server is stopping")

    async def disown(self) -> None:
        """End the session, because its caller is no longer accepted."""
        await self._close(
            WSCloseCode.POLICY_VIOLATION, "the key of this token is no longer trusted"
        )

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                self._dispatcher.charge(self.caller, len(message.data))
                try:
                    calls = self._calls_in(message.data)
                except KalendsError as error:
                    await self._close(WSCloseCode.INVALID_TEXT, f"{error.where}: {error.detail}")
                    return
                for call in calls:
                    self._take(call)
                    if len(memoryview(call.body)) > BYTES_OF_A_CALL:
                        await asyncio.sleep(0)  # Other clients do not wait for all of the frame.
                await self._room()
            elif message.type is WSMsgType.TEXT:
                await self._close(WSCloseCode.UNSUPPORTED_DATA, "frames are binary: MessagePack")
                return
            else:
                return

    def _calls_in(self, frame: bytes) -> list[UnreadCall]:
        """Return the calls in `frame`; raises `TooLarge` and `InvalidInput`, with the path."""
        calls: list[UnreadCall] = codec.decode_msgpack(
            frame, _CALL_FRAME, bytes_max=self._limits.frame_bytes_max
        )
        for number, call in enumerate(calls):
            if not codec.is_map(memoryview(call.body)):
                raise InvalidInput("the body must be a map", where=f"[{number}].body")
        return calls

    async def _room(self) -> None:
        """Wait before the next frame while many replies wait, so that TCP slows the client down."""
        if len(self._replies) > self._limits.calls_in_flight_max:
            self._drained.clear()
            await self._drained.wait()

    def _take(self, call: UnreadCall) -> None:
        """Start one call, or reply at once with its refusal."""
        ticket = (call.number, call.name, self._clock.monotonic_s())
        try:
            self._check_room()
            answer = self._dispatcher.begin(self.caller, call.name, bytes(call.body))
        except Exception as error:
            # The boundary: the error of a call becomes its reply, and never ends the session.
            self._fail(ticket, error)
            return
        if isinstance(answer, Answer):
            self._answer(ticket, answer)
            return
        key = object()
        self._in_flight[key] = ticket
        self._dispatcher.start(self._finish(key, answer))

    def _check_room(self) -> None:
        if len(self._in_flight) >= self._limits.calls_in_flight_max:
            raise LimitExceeded(
                f"{len(self._in_flight)} calls are in flight on this session",
                where="session",
                remedy="wait for replies, or open another session",
                retry_after_s=0.1,
            )

    async def _finish(self, key: object, awaitable: Awaitable[Answer]) -> None:
        try:
            answer = await awaitable
        except Exception as error:
            # The boundary for handlers that did not answer at once.
            if ticket := self._in_flight.pop(key, None):
                self._fail(ticket, error)
            else:
                self._dispatcher.problem(error)
        else:
            if ticket := self._in_flight.pop(key, None):
                self._answer(ticket, answer)

    async def _sweep(self) -> None:
        """Stop waiting for overdue calls, by one timer for the session, not one for each call."""
        answer_s_max = self._limits.answer_s_max
        while True:
            await asyncio.sleep(answer_s_max / 10)
            latest_s = self._clock.monotonic_s() - answer_s_max
            overdue = [key for key, (_, _, at_s) in self._in_flight.items() if at_s <= latest_s]
            for key in overdue:
                self._fail(self._in_flight.pop(key), answer_overdue(answer_s_max))

    def _answer(self, ticket: _Ticket, answer: Answer) -> None:
        number, name, started_s = ticket
        try:
            packed = codec.encode_msgpack(Reply(number, answer=told(answer, self._known)))
            if len(packed) > self._limits.frame_bytes_max:
                raise TooLarge(
                    f"the answer has {len(packed)} bytes, more than fits into a frame",
                    remedy="ask for less: a shorter window, or fewer at a time",
                )
        except Exception as error:
            # An answer that cannot be encoded is an internal error of this call only.
            self._fail(ticket, error)
            return
        self._dispatcher.ended(name, 200, started_s)
        self._reply(packed)

    def _fail(self, ticket: _Ticket, error: Exception) -> None:
        number, name, started_s = ticket
        problem = self._dispatcher.problem(error)
        self._dispatcher.ended(name, problem.status, started_s)
        self._reply(codec.encode_msgpack(Reply(number, problem=problem)))

    def _reply(self, packed: bytes) -> None:
        if self._over:
            return
        self._replies.append(packed)
        self._replies_bytes += len(packed)
        if self._replies_bytes > self._limits.replies_waiting_bytes_max:
            self._dispatcher.logger.warning("session_does_not_read", waiting=len(self._replies))
            self._give_up()
        self._to_write.set()

    async def _write(self) -> None:
        """Send waiting replies, a frame at a time; give up on a client that reads nothing."""
        while True:
            await self._to_write.wait()
            self._to_write.clear()
            while self._replies:
                frame = self._next_frame()
                try:
                    async with asyncio.timeout(self._limits.send_s_max):
                        await self._socket.send_bytes(frame)
                except (TimeoutError, ConnectionError):
                    self._give_up()
                    return
            self._drained.set()

    def _next_frame(self) -> bytes:
        """Return as many waiting replies as fit into one frame, in order."""
        count = codec.messages_in_frame(
            map(len, self._replies), _ARRAY_HEADER_BYTES_MAX, self._limits.frame_bytes_max
        )
        taken = [self._replies.popleft() for _ in range(count)]
        self._replies_bytes -= sum(map(len, taken))
        return b"".join((msgpack.Packer().pack_array_header(len(taken)), *taken))

    def _give_up(self) -> None:
        self._end()
        self._abort()

    def _end(self) -> None:
        """Stop sending: drop waiting replies and wake all tasks that wait for them."""
        self._over = True
        self._in_flight.clear()
        self._replies.clear()
        self._replies_bytes = 0
        self._drained.set()

    async def _close(self, code: WSCloseCode, reason: str) -> None:
        await self._socket.close(code=code, message=close_reason(reason))


def close_reason(reason: str) -> bytes:
    """Return `reason` cut, between characters, to the size of a close frame."""
    return reason.encode()[:CLOSE_REASON_BYTES_MAX].decode(errors="ignore").encode()


class OpenSessions:
    """Sessions by their users, at most `sessions_max` of all together."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max
        self._of: dict[str, dict[Session, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def __iter__(self) -> Iterator[Session]:
        for sessions in self._of.values():
            yield from sessions

    def make_room(self, user: str) -> None:
        """Make room for one more session of `user`; raises `LimitExceeded` if that is impossible.

        The user with the most sessions gives up the one with the fewest calls in flight, the oldest of those.
        """
        if len(self) < self._sessions_max:
            return
        greedy = max(self._of, key=lambda each: len(self._of[each]), default=user)
        if len(self._of.get(greedy, ())) <= len(self._of.get(user, ())) + 1:
            raise LimitExceeded(
                f"{self._sessions_max} sessions are open, the maximum of this server",
                remedy="close unused sessions, or try again later",
                retry_after_s=1.0,
            )
        session = min(self._of[greedy], key=lambda each: each.calls_in_flight)
        self.remove(greedy, session)
        session.give_way()

    def add(self, user: str, session: Session) -> None:
        self._of.setdefault(user, {})[session] = None

    def remove(self, user: str, session: Session) -> None:
        """Forget `session`, if it is there."""
        sessions = self._of.get(user, {})
        sessions.pop(session, None)
        if not sessions:
            self._of.pop(user, None)
