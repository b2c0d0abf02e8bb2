"""Answers of HTTP as servers and proxies may write them, each sent byte by byte by a socket on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import h11
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kalends
from kalends.client.client import Client
from kalends.client.transports import http_line
from kalends.client.transports.http_line import (
    EARLY_ANSWERS_MAX,
    HEAD_BYTES_MAX,
    HttpAnswer,
    read_answer,
)
from kalends.client.transports.retry import Backoff, ConnectionFailed
from kalends.client.transports.transport import ANSWER_BYTES_MAX
from kalends.contract.calls import Health
from kalends.core.errors import InvalidInput, Unavailable

HEALTH = msgspec.msgpack.encode(Health(role="site", name="sdsc", status="ok", version="1"))
TYPE = b"Content-Type: application/msgpack\r\n"
OK = b"HTTP/1.1 200 OK\r\n" + TYPE
PLAIN = OK + b"Content-Length: %d\r\n\r\n" % len(HEALTH) + HEALTH
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
PIECES = b"3;of=some\r\n%s\r\n%x\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (
    HEALTH[:3], len(HEALTH) - 3, HEALTH[3:],
)  # fmt: skip
DAMAGED = "damaged in transit"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(script: Script) -> AsyncIterator[Client]:
    """A client of a server that follows `script` on each connection, and then closes it."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            """The client has gone."""
        finally:
            writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, kalends.connect(
        f"http://127.0.0.1:{port}", user="ann", zone="UTC", transport="http",
        backoff=Backoff(tries_max=1),
    ) as client:  # fmt: skip
        yield client


def saying(*answers: bytes) -> Script:
    """Each of `answers` after a request."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            for byte in answer:
                writer.write(bytes([byte]))
            await writer.drain()

    return script


async def read(sent: bytes) -> HttpAnswer:
    """What is read of `sent`, after which the server closes the connection."""
    reader, said = (
        asyncio.StreamReader(),
        h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX),
    )
    said.send(h11.Request(method="GET", target="/healthz", headers=[("Host", "sdsc")]))
    said.send(h11.EndOfMessage())
    reader.feed_data(sent)
    reader.feed_eof()
    return await read_answer(reader, said)


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN,
        CHUNKED + PIECES,
        OK + b"\r\n" + HEALTH,
        b"HTTP/1.0 200 OK\r\n" + TYPE + b"\r\n" + HEALTH,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN,
        PLAIN.replace(b"Content-Length:", b"content-LENGTH: \t"),
        PLAIN.replace(b" OK", b""),
        PLAIN.replace(b"msgpack", b"MsgPack; charset=x"),
    ],
)  # fmt: skip
async def test_an_answer_is_read_in_every_form_that_http_has_for_it(answer: bytes) -> None:
    async with server(saying(answer)) as client:
        assert (await client.health()).name == "sdsc"


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        PLAIN.replace(b"200", b"2_0"),
        PLAIN.replace(b"200", b"20"),
        PLAIN.replace(TYPE, TYPE + b"no colon\r\n"),
        PLAIN.replace(TYPE, TYPE + b"Content-Length : 7\r\n"),
        PLAIN.replace(TYPE, TYPE + b"Content-Length: 7\r\n"),
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: +1\r\n\r\nx",
        OK + b"Transfer-Encoding: gzip\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"1\r\nxx\r\n0\r\n\r\n",
        CHUNKED + b"0\r\n" + b"Trailer: x\r\n" * HEAD_BYTES_MAX + b"\r\n",
        OK + b"X: " + bytes(HEAD_BYTES_MAX) + b"\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * EARLY_ANSWERS_MAX + PLAIN,
    ],
)  # fmt: skip
async def test_an_answer_that_is_not_http_is_told_as_damaged(answer: bytes) -> None:
    with pytest.raises(ConnectionFailed, match=DAMAGED) as failed:
        await read(answer)
    assert failed.value.sent


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED + PIECES])
async def test_an_answer_that_is_cut_is_not_taken_for_a_whole_one(answer: bytes) -> None:
    for end in range(len(answer)):
        with pytest.raises(ConnectionFailed, match="closed the connection"):
            await read(answer[:end])


async def test_an_answer_that_is_announced_as_too_long_is_not_read() -> None:
    with pytest.raises(ConnectionFailed, match="more than"):
        await read(OK + b"Content-Length: %d\r\n\r\n" % (ANSWER_BYTES_MAX + 1))


async def test_an_answer_that_never_ends_is_read_no_further_than_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_line, "ANSWER_BYTES_MAX", 1_000)
    with pytest.raises(ConnectionFailed, match="more than"):
        await read(CHUNKED + b"a\r\n0123456789\r\n" * 101)


@given(st.binary(max_size=40), st.integers(0, len(PLAIN)), st.booleans())
def test_whatever_is_put_into_an_answer_it_is_read_or_told(
    noise: bytes, at: int, chunked: bool
) -> None:
    whole = CHUNKED + PIECES if chunked else PLAIN
    try:
        asyncio.run(read(whole[:at] + noise + whole[at:]))
    except ConnectionFailed:
        """Then it is told."""


async def test_calls_share_a_connection_as_long_as_the_server_keeps_it() -> None:
    connections = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await saying(PLAIN, CHUNKED + PIECES, PLAIN)(reader, writer)

    async with server(script) as client:
        for _ in range(3):
            await client.health()
        assert len(connections) == 1


@pytest.mark.parametrize(
    "answer",
    [
        PLAIN.replace(TYPE, TYPE + b"Connection: close\r\n"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        OK + b"\r\n" + HEALTH,
    ],
)  # fmt: skip
async def test_a_connection_that_ends_with_its_answer_is_not_used_again(answer: bytes) -> None:
    async with server(saying(answer)) as client:
        for _ in range(3):
            assert (await client.health()).name == "sdsc"


async def test_calls_at_the_same_time_have_connections_of_their_own() -> None:
    here: list[asyncio.StreamWriter] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        here.append(writer)
        if len(here) == 3:
            for each in here:
                each.write(PLAIN)
        await reader.read()

    async with server(script) as client:
        found = await asyncio.gather(*(client.health() for _ in range(3)))
    assert [each.name for each in found] == ["sdsc"] * 3


async def test_closing_a_client_ends_the_calls_that_are_under_way() -> None:
    heard = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        heard.set()
        await reader.read()

    async with server(script) as client:
        call = asyncio.create_task(client.health())
        await heard.wait()
        await client.close()
        with pytest.raises(Unavailable, match="closed the connection"):
            await call


async def test_a_request_says_who_asks_and_for_what() -> None:
    heard = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(PLAIN)
        await writer.drain()

    async with server(script) as client:
        await client.health()
    first, *headers = heard[0].strip().split("\r\n")
    assert first == "GET /healthz HTTP/1.1"
    assert {"Kalends-User: ann", "Accept: application/msgpack"} < set(headers)
    assert headers[0].startswith("Host: 127.0.0.1:")


@pytest.mark.parametrize(
    "url", ["http://sdsc:99999", "http://sdsc:port", "http://sdsc:0", f"http://{'ä' * 64}.org"]
)
def test_an_address_with_a_port_or_host_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="not the address of a server"):
        kalends.connect(url)


async def test_a_host_that_does_not_exist_is_told() -> None:
    once = Backoff(tries_max=1)
    async with kalends.connect(
        "http://a..b:7100", zone="UTC", transport="http", backoff=once
    ) as client:
        with pytest.raises(Unavailable, match="no answer"):
            await client.health()
