"""Virtual sites that lie: their managers name whom they like, and frames pass as they like."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import web

from kalends.contract import codec
from kalends.contract import messages as m
from kalends.core.limits import MEMBERS_MAX
from kalends.servers.virtual import REFER_BYTES_MAX, ManagerDesk
from kalends.serving.http.request_fields import read_body
from kalends.virtual_sites import relay
from tests.shells.lying import LATE_S_MAX, Liar, of_here

REMEMBERED: Final = 200


class LyingWay(Liar):
    """Those who come through it hear what it likes of each other. `garbles`: it also changes bytes."""

    garbles = False
    harm = 0.05
    """How often something happens to a frame, of each kind."""

    def begin(self) -> None:
        """It has started."""
        self.frames: deque[bytes] = deque(maxlen=REMEMBERED)
        self._tasks: set[asyncio.Task[None]] = set()

    async def live(self) -> None:
        """It does nothing unasked."""

    async def passes(self, frame: bytes, send: Callable[[bytes], Any]) -> None:
        """Hand on a frame, after a fashion."""
        self.frames.append(frame)
        if self.silent:
            await send(frame)
            return
        chance, harm = self.chance, self.harm
        if chance.random() < harm:
            self.said["withheld"] += 1
            return
        if chance.random() < harm:
            self._later(chance.choice(self.frames), send, "replayed")
        if chance.random() < harm:
            self._later(frame, send, "late")
            return
        if self.garbles and chance.random() < harm:
            self.said["garbled"] += 1
            changed = bytearray(frame)
            for _ in range(chance.randrange(1, 4)):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
            frame = bytes(changed)
        await send(frame)

    def _later(self, frame: bytes, send: Callable[[bytes], Any], how: str) -> None:
        self.said[how] += 1

        async def sent() -> None:
            await asyncio.sleep(self.chance.uniform(0, LATE_S_MAX))
            try:
                await send(frame)
            except (aiohttp.ClientError, ConnectionError):
                self.said["too late"] += 1

        task = asyncio.create_task(sent())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def names(self, question: m.Refer) -> bytes:
        """Its manager's answer."""
        own = tuple(each.way for each in question.candidates)
        ways: tuple[str, ...] = self.chance.choice(
            (
                own[:1],
                own,
                own[::-1],
                (self.name,),
                (*own[:1], "strangers/site"),
                ("site0",),
                (),
                own[:1] * 3,
            )
        )
        if self.chance.random() < 0.1:
            ways = tuple(f"stranger{number}" for number in range(MEMBERS_MAX))
        self.said["named"] += 1
        answer = m.Referred(rid=question.rid, att=question.att, ways=ways)
        if self.chance.random() < 0.2:
            answer = self.inventor.altered(answer)
        packed = codec.encode_msgpack(answer)
        if self.chance.random() < 0.1:
            return packed[: len(packed) // 2]
        return packed * 40_000 if self.chance.random() < 0.03 else packed


class LyingSocket:
    """A socket on which `liar` says what others have said."""

    def __init__(self, socket: Any, liar: LyingWay) -> None:
        self._socket = socket
        self._liar = liar

    async def send_bytes(self, frame: bytes) -> None:
        await self._liar.passes(frame, self._socket.send_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)


def lie(liars: dict[str, LyingWay]) -> None:
    """From now on what these virtual sites pass on, and name, is theirs to say."""
    joined, refer = relay.joined, ManagerDesk.refer

    async def joining(ours: Any, theirs: Any, *more: Any) -> bool:
        if (liar := of_here(liars)) is not None:
            ours, theirs = LyingSocket(ours, liar), LyingSocket(theirs, liar)
        return await joined(ours, theirs, *more)

    async def referring(desk: ManagerDesk, request: web.Request) -> web.StreamResponse:
        liar = of_here(liars)
        if liar is None or liar.silent:
            return await refer(desk, request)
        body = await read_body(
            request, msgspec.structs.replace(desk._limits, body_bytes_max=REFER_BYTES_MAX)
        )
        if liar.chance.random() < 0.1:
            await asyncio.sleep(LATE_S_MAX)
        question = codec.decode_msgpack(body, m.Refer, bytes_max=REFER_BYTES_MAX)
        return web.Response(body=liar.names(question), content_type=codec.MSGPACK)

    relay.joined = joining
    ManagerDesk.refer = referring  # type: ignore[method-assign]
