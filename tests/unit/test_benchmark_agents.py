"""The agent benchmark: what it counts on the wire, and that both ways of booking follow one rule."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgpack
import pytest
from benchmarks.facility import start_line
from benchmarks.slow_line import Passed
from benchmarks.traffic import Counts, Direction
from hypothesis import given
from hypothesis import strategies as st

HEAD = b"GET /v1/session HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"


def frame(payload: bytes, *, opcode: int = 2, final: bool = True, mask: bytes = b"") -> bytes:
    """One frame after RFC 6455, section 5.2."""
    size = len(payload)
    lengths = (
        bytes([size])
        if size < 126
        else b"\x7e" + size.to_bytes(2, "big")
        if size < 1 << 16
        else b"\x7f" + size.to_bytes(8, "big")
    )
    head = bytes([opcode | 0x80 * final, lengths[0] | 0x80 * bool(mask), *lengths[1:]])
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)) if mask else payload
    return head + mask + masked


def counted(pieces: Iterable[bytes]) -> Counts:
    counts = Counts()
    direction = Direction(counts)
    for piece in pieces:
        direction.feed(piece)
    return counts


messages = st.lists(st.sampled_from(["visit", "dispatch", "prepare"]), max_size=4)
frames = st.lists(st.tuples(messages, st.integers(0, 200), st.binary(min_size=4, max_size=4)))


@given(frames, st.data())
def test_every_message_counts_once_however_the_stream_is_cut(
    sent: list[tuple[list[str], int, bytes]], data: st.DataObject
) -> None:
    stream, length, kinds = HEAD, 0, []
    for number, (names, padding, mask) in enumerate(sent):
        body = [{"kind": name, "text": "x" * padding} for name in names]
        packed = frame(msgpack.packb({"v": 1, "messages": body}), mask=mask if number % 2 else b"")
        stream += frame(b"still there", opcode=9) + packed
        length += len(packed)
        kinds += names
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    counts = counted(
        stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
    )
    assert counts == Counts(
        length, len(sent), len(kinds), {kind: kinds.count(kind) for kind in kinds}
    )


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("mask", [b"", b"\x01\x80\x00\xff"])
def test_lengths_of_every_form_are_read(size: int, mask: bytes) -> None:
    padding = max(size - len(msgpack.packb([{"number": 1, "answer": b""}])) - 4, 0)
    packed = frame(msgpack.packb([{"number": 1, "answer": bytes(padding)}]), mask=mask)
    counts = counted([HEAD, packed, packed])
    assert (counts.bytes, counts.frames, counts.kinds) == (2 * len(packed), 2, {"reply": 2})


def test_a_message_in_several_frames_counts_once() -> None:
    packed = msgpack.packb([{"number": 1, "name": "book", "body": {}}])
    counts = counted(
        [
            HEAD
            + frame(packed[:5], final=False)
            + frame(b"", opcode=10)
            + frame(packed[5:], opcode=0)
        ]
    )
    assert (counts.frames, counts.messages, counts.kinds) == (2, 1, {"book": 1})


def test_plain_http_is_carried_uncounted() -> None:
    assert counted([b"POST /v1/book HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"]) == Counts()


def test_what_has_passed_since_is_the_difference() -> None:
    earlier = Passed(Counts(10, 2, 2, {"visit": 2}), Counts(1, 1, 1, {"visited": 1}))
    later = Passed(Counts(15, 3, 4, {"visit": 3, "decide": 1}), Counts(1, 1, 1, {"visited": 1}))
    assert later - earlier == Passed(Counts(5, 1, 2, {"visit": 1, "decide": 1}), Counts())
    assert earlier + (later - earlier) == later


async def test_a_slow_line_delivers_what_it_counts() -> None:
    said = frame(msgpack.packb([{"number": 7, "name": "show", "body": {}}]), mask=b"abcd")
    answered = frame(msgpack.packb([{"number": 7, "answer": {}}]))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(HEAD + said)) == HEAD + said
        writer.write(HEAD + answered)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        line = start_line(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", one_way_ms=1)
        try:
            port = int(line.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + said)
            received = await reader.read()
            passed = await asyncio.to_thread(line.passed)
            writer.close()
        finally:
            line.close()
    assert received == HEAD + answered
    assert passed == Passed(
        Counts(len(said), 1, 1, {"show": 1}), Counts(len(answered), 1, 1, {"reply": 1})
    )
