"""The link to a site, against a real WebSocket server that says what a test wants it to say."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
import structlog
from aiohttp import web
from msgspec.structs import replace

from kalends.broker.sites import site_link
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from kalends.core import limits
from kalends.core.clock import LogicalClock
from kalends.core.identifiers import request_id
from kalends.core.resources import ResourceInfo
from kalends.serving.auth.peer_auth import Proof

RID = request_id(1_800_000_000_000, 7)
HELLO = m.Hello(site="sdsc", epoch=3, resources=(ResourceInfo(name="sdsc/sp2"),))
WELCOME = m.Welcome(register="1" * 32)
WAIT_S = 20.0
OPEN = Proof("npaci-1", str)


def frame(*messages: m.Message, source: str = "sdsc", lc: int = 0) -> bytes:
    return msgspec.msgpack.encode({"v": 2, "source": source, "lc": lc, "messages": messages})


class Site:
    """A site that says `greeting` on each connection, and keeps what it hears."""

    def __init__(self) -> None:
        self.greeting: bytes = frame(HELLO)
        self.frames: asyncio.Queue[m.FrameToSite] = asyncio.Queue()
        self.sockets: asyncio.Queue[web.WebSocketResponse] = asyncio.Queue()
        self.headers: list[str] = []

    async def session(self, request: web.Request) -> web.WebSocketResponse:
        self.headers.append(request.headers.get("Kalends-User", ""))
        socket = web.WebSocketResponse(max_msg_size=limits.FRAME_BYTES_MAX)
        await socket.prepare(request)
        await socket.send_bytes(self.greeting)
        await self.sockets.put(socket)
        welcomed = False
        async for message in socket:
            frame = msgspec.msgpack.decode(message.data, type=m.FrameToSite)
            if not welcomed:
                assert frame.messages.pop(0) == WELCOME
                welcomed = True
            if frame.messages or frame.proof:
                await self.frames.put(frame)
        return socket


class User:
    """What the link tells, as queues."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[m.Message] = asyncio.Queue()
        self.lost: asyncio.Queue[str] = asyncio.Queue()
        self.logical = LogicalClock(500)

    def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        assert site == "sdsc"
        for message in messages:
            self.said.put_nowait(message)

    def site_lost(self, site: str, reason: str, *, unusable: bool = False) -> None:
        self.unusable = unusable
        self.lost.put_nowait(reason)

    def site_at(self, site: str, position: int) -> None:
        pass

    def mark(self, site: str) -> m.Mark | None:
        return None

    def welcome(self, site: str) -> m.Welcome:
        return WELCOME

    def heard_clocks(self, site: str, logical: int, wall_ms: int) -> None:
        self.logical.merge(logical, 1_000)

    def clocks(self) -> tuple[int, int]:
        return self.logical.value, 1_000


@asynccontextmanager
async def linked(
    site: Site, proof: Proof = OPEN, user: User | None = None
) -> AsyncIterator[tuple[SiteLink, User]]:
    application = web.Application()
    application.router.add_get("/v1/session", site.session)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    listening = web.TCPSite(runner, "127.0.0.1", 0)
    await listening.start()
    user = user or User()
    logger: Any = structlog.wrap_logger(
        structlog.WriteLogger(io.StringIO()), processors=[structlog.processors.JSONRenderer()]
    )
    async with aiohttp.ClientSession() as http:
        link = SiteLink(
            "sdsc", f"http://127.0.0.1:{runner.addresses[0][1]}/", source="npaci-1", http=http,
            tls=True, proof=proof, user=user, logger=logger,
            jitter=lambda: 0.0,
        )  # fmt: skip
        task = asyncio.create_task(link.run())
        try:
            async with asyncio.timeout(WAIT_S):
                yield link, user
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await runner.cleanup()


def forget(att: int) -> m.Forget:
    return m.Forget(rid=RID, att=att)


async def test_the_site_speaks_first_and_what_one_turn_sends_leaves_in_one_frame() -> None:
    site = Site()
    async with linked(site) as (link, user):
        assert await user.said.get() == HELLO
        messages = [forget(att) for att in range(1, 51)]
        for message in messages:
            link.send(message)
        received = await site.frames.get()
        assert received.messages == messages
        assert (received.source, received.lc) == ("npaci-1", 500)
        assert site.headers == ["npaci-1"]


async def test_no_frame_is_larger_than_the_limits_and_the_order_stays() -> None:
    site = Site()
    async with linked(site) as (link, user):
        await user.said.get()
        count = limits.FRAME_MESSAGES_MAX + 10
        for att in range(1, count + 1):
            link.send(forget(att))
        first, second = await site.frames.get(), await site.frames.get()
        assert len(first.messages) == limits.FRAME_MESSAGES_MAX
        assert [*first.messages, *second.messages] == [forget(att) for att in range(1, count + 1)]


async def test_clocks_are_merged_with_each_frame() -> None:
    site = Site()
    site.greeting = frame(HELLO, lc=900)
    async with linked(site) as (link, user):
        await user.said.get()
        link.send(forget(1))
        assert (await site.frames.get()).lc == 900


class Faulty(User):
    """Breaks at the first thing that a site says."""

    broken = False

    def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        if not self.broken:
            self.broken = True
            raise RuntimeError("a fault of ours")
        super().site_said(site, messages)


async def test_a_fault_of_ours_costs_one_connection_and_the_next_one_is_made() -> None:
    async with linked(Site(), user=Faulty()) as (_, user):
        assert "a fault of ours" in await user.lost.get()
        assert await user.said.get() == HELLO


async def test_a_lost_connection_is_told_and_made_again_and_nothing_is_kept_for_it() -> None:
    site = Site()
    async with linked(site) as (link, user):
        await user.said.get()
        await (await site.sockets.get()).close()
        assert "closed" in await user.lost.get()
        link.send(forget(1))
        assert await user.said.get() == HELLO
        link.send(forget(2))
        assert (await site.frames.get()).messages == [forget(2)]


async def test_a_site_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_link, "OUTBOX_BYTES_MAX", 100)
    site = Site()
    async with linked(site) as (link, user):
        await user.said.get()
        for att in range(1, 10):
            link.send(forget(att))
        assert "too slowly" in await user.lost.get()
        assert await user.said.get() == HELLO


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (frame(m.Hello(site="ncsa", epoch=1, resources=()), source="ncsa"), "frame of ncsa"),
        (frame(m.Hello(site="ncsa", epoch=1, resources=())), "site 'ncsa'"),
        (frame(m.Done(rid=RID, att=1, of="commit")), "not a site"),
        (frame(), "not a site"),
        (b"\xc1nonsense", "not a frame"),
        (
            msgspec.msgpack.encode({"v": 3, "source": "sdsc", "lc": 0, "messages": []}),
            "not a frame",
        ),
    ],
    ids=["other-source", "other-site", "no-hello", "empty", "nonsense", "newer"],
)
async def test_who_does_not_say_that_it_is_this_site_is_not_used(
    greeting: bytes, reason: str
) -> None:
    site = Site()
    site.greeting = greeting
    async with linked(site) as (link, user):
        assert reason in await user.lost.get()
        assert not link.connected
        assert user.said.empty()
        site.greeting = frame(HELLO)
        assert await user.said.get() == HELLO


async def test_what_somebody_has_to_mend_is_told_as_that_when_it_is_met_again() -> None:
    site = Site()
    site.greeting = frame(replace(HELLO, site="ncsa"))
    async with linked(site) as (_, user):
        assert await user.lost.get() == "at its address is site 'ncsa'"
        assert not user.unusable
        assert await user.lost.get() == "at its address is site 'ncsa'"
        assert user.unusable
