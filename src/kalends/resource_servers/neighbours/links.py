"""The WebSocket between a broker and a site, seen from the site: frames out, bounded.

Messages wait in an outbox as bytes. Whatever is there when the socket takes the next frame leaves
in that frame, so that a busy session sends large frames and a quiet one sends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

import msgpack
import msgspec
from aiohttp import web

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.contract.agreement import fitted
from kalends.contract.versions import BASE
from kalends.core import limits
from kalends.core.features import Feature
from kalends.serving.http.sessions import close_reason

OUTBOX_BYTES_MAX: Final = 32 * 1024 * 1024
"""What a broker that does not read can make us keep; beyond it the session is over."""

SEND_S_MAX: Final = 30.0
"""A broker that takes no bytes for this long is gone."""

FLUSH_S_MAX: Final = 5.0
"""At a close, what waits gets this long to leave."""

_FRAME_HEAD_BYTES_MAX: Final = 256


class BrokerLink:
    """One broker's session; `write` runs beside whoever reads the socket.

    `name` is the broker's, and `register` that of the register it works for: known from its first
    frame. `through` are the virtual sites that it has come by. `clocks` gives the logical time and that of
    the wall clock (milliseconds UTC) for a frame, `mark` says to whose register it is told how far the site
    is; `known` are the features that may be used with the broker, and `unsaid` hears of a message that it
    does not know enough for; `abort` drops the connection at once.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        site: str,
        clocks: Callable[[], tuple[int, int]],
        mark: Callable[[str], m.Mark],
        known: frozenset[str],
        unsaid: Callable[[str, m.Message, Feature], None],
        abort: Callable[[], None],
    ) -> None:
        self.socket = socket
        self.name = ""
        self.register = ""
        self.through: tuple[str, ...] = ()
        self.version = BASE
        self.closing = False
        self.comparing = False
        """What follows belongs to a comparison, by which reservations are locked again and freed."""
        self.locked_again = self.freed = 0
        self._site = site
        self._clocks = clocks
        self._mark = mark
        self._told: m.Mark | None = None
        """How far the broker was told that the site is."""
        self._known = known
        self._unsaid = unsaid
        self._abort = abort
        self._outbox: deque[bytes] = deque()
        self._outbox_bytes = 0
        self._to_write = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def push(self, message: m.Message) -> None:
        """Send `message` with the next frame; a session whose broker reads too little is dropped.

        What the broker does not know is left out of it; where that is not possible, it counts as lost.
        """
        if self.closing:
            return
        said = fitted(message, self._known)
        if isinstance(said, Feature):
            self._unsaid(self.name, message, said)
            return
        packed = codec.encode_msgpack(said)
        if len(packed) > limits.FRAME_BYTES_MAX - _FRAME_HEAD_BYTES_MAX:
            assert isinstance(said, m.View), "only a view can be so large"
            packed = codec.encode_msgpack(shortened(said))
        self._outbox.append(packed)
        self._outbox_bytes += len(packed)
        self._empty.clear()
        self._to_write.set()
        if self._outbox_bytes > OUTBOX_BYTES_MAX:
            self.drop()

    async def write(self) -> None:
        """Send frames until the session is over."""
        while not self.closing or self._outbox:
            await self._to_write.wait()
            self._to_write.clear()
            while self._outbox:
                frame = self._next_frame()
                try:
                    async with asyncio.timeout(SEND_S_MAX):
                        await self.socket.send_bytes(frame)
                except (TimeoutError, ConnectionError):
                    self.drop()
                    return
            self._empty.set()

    async def close(self, code: int, reason: str) -> None:
        """Send what waits, as far as the broker takes it, and close; a second call does nothing."""
        if self.closing:
            return
        self.closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S_MAX):
                await self._empty.wait()
        await self.socket.close(code=code, message=close_reason(reason))

    def drop(self) -> None:
        """End the session at once; waiting messages are lost, as messages may be."""
        self.closing = True
        self._outbox.clear()
        self._outbox_bytes = 0
        self._empty.set()
        self._abort()

    def _next_frame(self) -> bytes:
        """As many waiting messages as one frame carries, in order."""
        count = codec.messages_in_frame(map(len, self._outbox), _FRAME_HEAD_BYTES_MAX)
        taken = [self._outbox.popleft() for _ in range(count)]
        self._outbox_bytes -= sum(map(len, taken))
        packer = msgpack.Packer(autoreset=False)
        logical, wall_ms = self._clocks()
        head: dict[str, object] = {
            "v": m.WIRE_VERSION, "source": self._site, "lc": logical, "wall_ms": wall_ms,
        }  # fmt: skip
        mark = self._mark(self.register) if self.register else None
        if mark != self._told and mark is not None:
            self._told = mark
            head["mark"] = msgspec.to_builtins(mark)
        packer.pack_map_header(len(head) + 1)
        for name, value in head.items():
            packer.pack(name)
            packer.pack(value)
        packer.pack("messages")
        packer.pack_array_header(len(taken))
        return b"".join((packer.bytes(), *taken))


def shortened(view: m.View) -> m.View:
    """`view` cut to fit into a frame: every part is complete up to an earlier `until`."""
    count_max = limits.VIEW_STEPS_MAX
    while True:
        count_max //= 2
        prices = tuple(_cheaper_to_send(each, count_max) for each in view.prices)
        priced_until = {each.terms: each.steps[-1][1] for each in prices if each.steps}
        views = tuple(
            _first_of(part, count_max, priced_until.get(part.terms, part.until))
            for part in view.views
        )
        short = msgspec.structs.replace(view, views=views, prices=prices)
        if len(codec.encode_msgpack(short)) <= limits.FRAME_BYTES_MAX - _FRAME_HEAD_BYTES_MAX:
            return short


def _cheaper_to_send(prices: m.PriceList, count_max: int) -> m.PriceList:
    return msgspec.structs.replace(prices, steps=prices.steps[:count_max])


def _first_of(part: m.FreeSteps, count_max: int, priced_until: int) -> m.FreeSteps:
    until = min(part.until, priced_until)
    if len(part.steps) > count_max:
        until = min(until, part.steps[count_max][0])
    if len(part.slots) > count_max:
        until = min(until, part.slots[count_max].start)
    return msgspec.structs.replace(
        part,
        until=until,
        steps=tuple(
            (start, min(end, until), units)
            for start, end, units in part.steps[:count_max]
            if start < until
        ),
        slots=part.slots[:count_max],
    )
