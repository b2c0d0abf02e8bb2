"""Peers that send nonsense, too much, or never read: told why, shut out, and nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgpack
import pytest

from kalends.core import limits

from .auditing import audit
from .customers import DAY_S, Customer, base_now_s
from .facility import Facility, make_facility
from .servers import Server, running, until

MEMORY_GROWTH_BYTES_MAX = 160 * 1024 * 1024
"""Above what one session may make a server keep: frames in, replies and their copies out."""

CALLS = 10_000
LINE_CUT = 1006
"""RFC 6455 section 7.1.5: closed without a word."""

ADA = {"Kalends-User": "ada"}
HEALTH = {"name": "health", "body": {}}


@pytest.fixture
async def facility(tmp_path: Path) -> AsyncIterator[Facility]:
    facility = make_facility(tmp_path, sites=1, replicas=1)
    async with running(*facility.servers):
        yield facility


@contextlib.asynccontextmanager
async def opened(server: Server, path: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse[bool]]:
    async with (
        aiohttp.ClientSession(headers=ADA) as http,
        http.ws_connect(server.url + path, max_msg_size=0) as socket,
    ):
        yield socket


async def closed_with(socket: aiohttp.ClientWebSocketResponse[bool]) -> tuple[int | None, str]:
    """The code and the reason that the server closes `socket` with; what it says before is left out."""
    async with asyncio.timeout(20):
        while True:
            message = await socket.receive()
            if message.type is aiohttp.WSMsgType.CLOSE:
                return message.data, message.extra or ""
            if message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR):
                return LINE_CUT, ""
            assert message.type is aiohttp.WSMsgType.BINARY, message


async def still_serves(facility: Facility) -> None:
    """A customer books, and the auditor finds nothing wrong."""
    base_s = base_now_s()
    urls = [broker.url for broker in facility.brokers]
    async with Customer("bob", urls, facility.resources, base_s, random.Random()) as bob:
        await bob.book_patiently("site0/cluster", 0)
        assert await audit(facility, [bob], start_s=base_s, end_s=base_s + DAY_S) == []


def sessions_of(facility: Facility) -> list[tuple[Server, str]]:
    """Every session there is: of clients with both servers, and of brokers with a site."""
    (site,), (broker,) = facility.sites, facility.brokers
    return [(broker, "/v1/calls"), (site, "/v1/calls"), (site, "/v1/session")]


NONSENSE = [
    b"",
    b"\x00",
    b"\xc1" * 1_000,
    random.Random(1).randbytes(100_000),
    msgpack.packb({"v": 2, "source": "x", "lc": -1, "messages": [None]}),
    msgpack.packb([{"number": "one", "name": 7}]),
    b"\x91" * 100_000,
    b"\xdd\xff\xff\xff\xff",
]


async def test_nonsense_closes_the_session_with_a_reason_and_nothing_else(
    facility: Facility,
) -> None:
    for server, path in sessions_of(facility):
        for frame in NONSENSE:
            async with opened(server, path) as socket:
                await socket.send_bytes(frame)
                code, reason = await closed_with(socket)
                assert code in (1007, 1008), frame[:20]
                assert reason
        async with opened(server, path) as socket:
            await socket.send_str("hello")
            code, reason = await closed_with(socket)
            assert code == 1003
            assert reason
    await still_serves(facility)


async def test_a_frame_beyond_the_limit_closes_the_session_before_it_is_kept(
    facility: Facility,
) -> None:
    for server, path in sessions_of(facility):
        before = server.memory_bytes()
        async with opened(server, path) as socket:
            # The server may close, or cut the line, while we are still sending.
            with contextlib.suppress(ConnectionError):
                await socket.send_bytes(bytes(16 * limits.FRAME_BYTES_MAX))
            code, _ = await closed_with(socket)
        assert code in (1009, LINE_CUT)
        assert server.memory_bytes() - before < MEMORY_GROWTH_BYTES_MAX
    await still_serves(facility)


async def test_ten_thousand_calls_at_once_are_all_answered(facility: Facility) -> None:
    (broker,) = facility.brokers
    async with opened(broker, "/v1/calls") as socket:
        for first in range(0, CALLS, limits.FRAME_MESSAGES_MAX):
            numbers = range(first, first + limits.FRAME_MESSAGES_MAX)
            await socket.send_bytes(msgpack.packb([HEALTH | {"number": n} for n in numbers]))
        answered: set[int] = set()
        async with asyncio.timeout(60):
            while len(answered) < CALLS:
                answered.update(
                    reply["number"] for reply in msgpack.unpackb((await socket.receive()).data)
                )
        assert answered == set(range(CALLS))
    await still_serves(facility)


async def test_a_peer_that_never_reads_is_shut_out_and_memory_stays_bounded(
    facility: Facility,
) -> None:
    (broker,) = facility.brokers
    before = broker.memory_bytes()
    writer = await a_peer_that_never_reads(broker)
    ask = {"name": "resources", "body": {}}
    frame = msgpack.packb([ask | {"number": n} for n in range(limits.FRAME_MESSAGES_MAX)])

    async def shut_out() -> bool:
        """Ask for much, and read nothing."""
        writer.write(_masked_frame(frame))
        try:
            async with asyncio.timeout(0.5):
                await writer.drain()
        except TimeoutError:
            pass  # The server reads no further: that is how it keeps its memory.
        except ConnectionError:
            return True
        assert broker.memory_bytes() - before < MEMORY_GROWTH_BYTES_MAX
        return writer.is_closing()

    await until(shut_out, "the peer is shut out")
    await still_serves(facility)


async def a_peer_that_never_reads(server: Server) -> asyncio.StreamWriter:
    """A session whose incoming side is not looked at again after the upgrade."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1)
    writer.write(
        b"GET /v1/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nKalends-User: mallory\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    assert (await reader.readexactly(12)).endswith(b"101")
    # Nothing more is taken from the socket: the server's bytes fill the buffers on the way.
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
    return writer


def _masked_frame(payload: bytes) -> bytes:
    """A binary WebSocket frame of a client, masked with zeros (RFC 6455, section 5)."""
    return b"\x82\xff" + len(payload).to_bytes(8, "big") + bytes(4) + payload
