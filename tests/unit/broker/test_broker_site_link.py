"""The link to a site, against a real WebSocket server that says what a test wants it to say."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
import structlog
from aiohttp import web
from msgspec.structs import replace
from tests.support.pretended_features import pretended

from kalends.broker.sites import site_link
from kalends.broker.sites.site_link import SiteLink
from kalends.contract import messages as m
from kalends.contract import versions
from kalends.contract.versions import BASE, ServerVersion, own_version, version_in
from kalends.core import limits
from kalends.core.clock import LogicalClock
from kalends.core.features import Feature, Since
from kalends.core.identifiers import request_id
from kalends.core.principals import Principal
from kalends.core.resources import ResourceInfo
from kalends.serving.auth.peer_auth import Proof

RID = request_id(1_800_000_000_000, 7)
HELLO = m.Hello(site="sdsc", epoch=3, resources=(ResourceInfo(name="sdsc/sp2"),))
WELCOME = m.Welcome(register="1" * 32)
WAIT_S = 20.0
NEEDS = Feature("needs", "what is to be booked")
STAMPS = Feature("stamps", "who comes first")
OURS = own_version("2.0", frozenset({"needs", "stamps"}))
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
        self.heard = BASE
        self.said = BASE
        """What it says of its version."""

    async def session(self, request: web.Request) -> web.WebSocketResponse:
        self.headers.append(request.headers.get("Kalends-User", ""))
        self.heard = version_in(request.headers)
        socket = web.WebSocketResponse(max_msg_size=limits.FRAME_BYTES_MAX)
        socket.headers.update(self.said.headers())
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


@pytest.fixture
def site() -> Site:
    return Site()


class User:
    """What the link tells, as queues."""

    def __init__(self) -> None:
        self.said: asyncio.Queue[m.Message] = asyncio.Queue()
        self.lost: asyncio.Queue[str] = asyncio.Queue()
        self.logical = LogicalClock(500)
        self.version = BASE
        self.reached: list[str] = []
        self.not_said: list[tuple[str, m.Message, Feature]] = []

    async def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        assert site == "sdsc"
        for message in messages:
            self.said.put_nowait(message)

    def site_version(self, site: str, version: ServerVersion) -> None:
        self.version = version

    def site_reached(self, site: str, url: str) -> None:
        self.reached.append(url)

    def unsaid(self, site: str, message: m.Message, feature: Feature) -> None:
        self.not_said.append((site, message, feature))

    def site_lost(
        self, site: str, reason: str, *, unusable: bool = False, ours: bool = False
    ) -> None:
        self.unusable, self.ours = unusable, ours
        self.lost.put_nowait(reason)

    def site_at(self, site: str, position: int) -> None:
        pass

    def mark(self, site: str) -> m.Mark | None:
        return None

    async def welcome(self, site: str) -> m.Welcome:
        return WELCOME

    def heard_clocks(self, site: str, logical: int, wall_ms: int) -> None:
        self.logical.merge(logical, 1_000)

    def clocks(self) -> tuple[int, int]:
        return self.logical.value, 1_000


@asynccontextmanager
async def listening(site: Site) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_get("/v1/session", site.session)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def linked(
    site: Site, proof: Proof = OPEN, user: User | None = None, standby: Site | None = None
) -> AsyncIterator[tuple[SiteLink, User]]:
    user = user or User()
    logger: Any = structlog.wrap_logger(
        structlog.WriteLogger(io.StringIO()), processors=[structlog.processors.JSONRenderer()]
    )
    async with AsyncExitStack() as ending:
        sites = [site] if standby is None else [site, standby]
        urls = [await ending.enter_async_context(listening(each)) for each in sites]
        http = await ending.enter_async_context(aiohttp.ClientSession())
        link = SiteLink(
            "sdsc", ",".join(urls), source="npaci-1", http=http,
            version=OURS,
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


async def test_no_frame_is_larger_than_the_limits_and_the_order_stays(site: Site) -> None:
    async with linked(site) as (link, user):
        await user.said.get()
        count = limits.FRAME_MESSAGES_MAX + 10
        for att in range(1, count + 1):
            link.send(forget(att))
        first, second = await site.frames.get(), await site.frames.get()
        assert len(first.messages) == limits.FRAME_MESSAGES_MAX
        assert [*first.messages, *second.messages] == [forget(att) for att in range(1, count + 1)]


async def test_clocks_are_merged_with_each_frame(site: Site) -> None:
    site.greeting = frame(HELLO, lc=900)
    async with linked(site) as (link, user):
        await user.said.get()
        link.send(forget(1))
        assert (await site.frames.get()).lc == 900


class Faulty(User):
    """Breaks at the first thing that a site says."""

    broken = False

    async def site_said(self, site: str, messages: Sequence[m.Message]) -> None:
        if not self.broken:
            self.broken = True
            raise RuntimeError("a fault of ours")
        await super().site_said(site, messages)


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
    site: Site, greeting: bytes, reason: str
) -> None:
    site.greeting = greeting
    async with linked(site) as (link, user):
        assert reason in await user.lost.get()
        assert not link.connected
        assert user.said.empty()
        site.greeting = frame(HELLO)
        assert await user.said.get() == HELLO


async def test_what_somebody_has_to_mend_is_told_as_that_when_it_is_met_again(site: Site) -> None:
    site.greeting = frame(replace(HELLO, site="ncsa"))
    async with linked(site) as (_, user):
        assert await user.lost.get() == "its address leads to site 'ncsa'"
        assert not user.unusable
        assert await user.lost.get() == "its address leads to site 'ncsa'"
        assert user.unusable


async def test_a_link_that_pauses_blames_the_broker_and_connects_as_soon_as_it_resumes(
    site: Site,
) -> None:
    async with linked(site) as (link, user):
        assert await user.said.get() == HELLO
        link.pause()
        assert await user.lost.get() == site_link.OWN_STORE
        assert user.ours
        assert len(site.headers) == 1
        link.resume()
        assert await user.said.get() == HELLO
        link.pause()
        link.resume()
        assert await user.lost.get() == site_link.OWN_STORE, "the site has to be greeted anew"
        assert await user.said.get() == HELLO
        assert len(site.headers) == 3


async def test_both_say_their_versions_before_the_first_frame_and_use_what_both_know() -> None:
    site = Site()
    site.said = ServerVersion("3.1", frozenset({"stamps", "of-the-future"}))
    async with linked(site) as (_, user):
        await user.said.get()
        assert site.heard == OURS
        assert user.version == ServerVersion("3.1", frozenset({"stamps"}))


async def test_a_site_that_does_not_say_its_version_has_the_base_version(site: Site) -> None:
    async with linked(site) as (_, user):
        await user.said.get()
        assert user.version == BASE


async def test_what_a_site_does_not_know_is_left_out_or_not_said(site: Site) -> None:
    fields = {(m.Query, "needs"): Since(NEEDS), (m.Query, "stamp"): Since(STAMPS, hint=True)}
    plain = m.Query(query_id=1, principal=Principal("anna"), wants=())
    need = m.RoomNeed(resource="", start=0, end=60, units=1, length_s=60)
    with pretended(fields, {}):
        async with linked(site) as (link, user):
            await user.said.get()
            link.send(replace(plain, needs=(need,)))
            link.send(replace(plain, stamp=7))
            assert (await site.frames.get()).messages == [plain]
            assert user.not_said == [("sdsc", replace(plain, needs=(need,)), NEEDS)]


async def test_a_site_that_is_too_old_is_told_to_people_with_both_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(versions, "REQUIRED", (STAMPS,))
    site = Site()
    site.said = ServerVersion("1.9", frozenset({"needs"}))
    async with linked(site) as (_, user):
        assert await user.lost.get() == (
            "site sdsc runs kalends 1.9, too old for this broker, which runs kalends 2.0:"
            " it knows nothing of who comes first"
        )
        assert await user.lost.get()
        assert user.unusable


async def test_a_site_whose_version_makes_no_sense_is_no_site(site: Site) -> None:
    site.said = ServerVersion("<script>")
    async with linked(site) as (_, user):
        assert await user.lost.get() == "this is not a version"


class Standby(Site):
    """Refuses until it serves."""

    serves = False

    async def session(self, request: web.Request) -> web.WebSocketResponse:
        if not self.serves:
            self.headers.append("refused")
            raise web.HTTPServiceUnavailable
        return await super().session(request)


async def test_a_standby_that_does_not_serve_is_passed_over_and_used_once_it_serves() -> None:
    primary, standby = Standby(), Standby()
    standby.serves = True
    async with linked(primary, standby=standby) as (link, user):
        assert await user.said.get() == HELLO
        assert primary.headers == ["refused"]
        assert user.lost.empty()
        primary.serves, standby.serves = True, False
        await (await standby.sockets.get()).close()
        assert "closed" in await user.lost.get()
        assert await user.said.get() == HELLO
        assert len({*user.reached}) == len(user.reached) == 2
        link.send(forget(1))
        assert (await primary.frames.get()).messages == [forget(1)]


class Hanging(Site):
    """Once `hangs`, it takes connections, and answers to nothing, not even to a ping."""

    hangs = False

    async def session(self, request: web.Request) -> web.WebSocketResponse:
        self.headers.append("asked")
        if self.hangs:
            await asyncio.Event().wait()
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        await socket.send_bytes(self.greeting)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.PING and not self.hangs:
                await socket.pong(message.data)
        return socket


async def test_a_site_that_hangs_is_left_for_its_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_link, "PING_EVERY_S", 0.02)
    monkeypatch.setattr(site_link, "SILENT_S_MAX", 0.5)
    primary, standby = Hanging(), Standby()
    async with linked(primary, standby=standby) as (_, user):
        assert await user.said.get() == HELLO
        primary.hangs = True
        assert await user.lost.get() == "nothing came from it for 0.5 s"
        # The standby does not serve yet.
        assert "refuses" in await user.lost.get()
        standby.serves = True
        assert await user.said.get() == HELLO
        assert user.lost.empty()


async def test_a_site_that_was_silent_and_is_well_is_used_at_once_where_its_standby_does_not_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_link, "PING_EVERY_S", 0.02)
    monkeypatch.setattr(site_link, "SILENT_S_MAX", 0.5)
    monkeypatch.setattr(site_link, "SILENT_CONNECT_S", 0.2)
    primary, standby = Hanging(), Standby()
    async with linked(primary, standby=standby) as (_, user):
        assert await user.said.get() == HELLO
        primary.hangs = True
        assert "nothing came" in await user.lost.get()
        assert "refuses" in await user.lost.get()
        # It is asked for a short time only, and then its standby again.
        assert "does not answer" in await user.lost.get()
        primary.hangs = False
        assert await user.said.get() == HELLO
        assert len({*user.reached}) == 1


async def test_where_all_addresses_are_silent_each_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(site_link, "CONNECT_S_MAX", 0.2)
    one, other = Hanging(), Hanging()
    one.hangs = other.hangs = True
    async with linked(one, standby=other) as (_, user):
        assert (await user.lost.get()).count("it does not answer") == 2
        one.hangs = False
        assert await user.said.get() == HELLO


async def test_an_address_that_leads_to_another_site_is_passed_over() -> None:
    stranger, standby = Site(), Site()
    stranger.greeting = frame(m.Hello(site="ncsa", epoch=3, resources=()), source="ncsa")
    async with linked(stranger, standby=standby) as (link, user):
        assert await user.said.get() == HELLO
        link.send(forget(1))
        assert (await standby.frames.get()).messages == [forget(1)]
        assert stranger.frames.empty()


async def test_where_no_address_serves_the_reason_names_all_of_them() -> None:
    async with linked(Standby(), standby=Standby()) as (_, user):
        reason = await user.lost.get()
        assert reason.count("http://127.0.0.1:") == 2


class Counting(Proof):
    """Counts the connections that it was made for."""

    made = 0

    def headers(self) -> dict[str, str]:
        self.made += 1
        return super().headers()


async def test_each_address_is_shown_a_proof_of_its_own() -> None:
    proof = Counting("npaci-1", str)
    async with linked(Standby(), proof, standby=Site()) as (_, user):
        await user.said.get()
        assert proof.made == 2
