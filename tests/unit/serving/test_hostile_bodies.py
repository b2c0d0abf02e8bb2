"""Bodies that cost a server more to read than to send: they are refused before they are built."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import msgpack
import msgspec
import pytest
from aiohttp import WSMsgType
from hypothesis import given
from hypothesis import strategies as st
from serving_support import ManualClock, call, frame, replies, serving

from kalends.contract import codec
from kalends.core import limits
from kalends.core.errors import InvalidInput, LimitExceeded
from kalends.serving.http import bodies
from kalends.serving.http.rate_limits import BYTES_OF_A_CALL, RateLimiter, ServingLimits

ROOM = limits.BODY_BYTES_MAX - 100


def packed_list(element: bytes, number: int) -> bytes:
    return b"\xdd" + number.to_bytes(4, "big") + element * number


def lists_of(element: bytes, length: int, room: int = ROOM) -> bytes:
    """Return a list of lists of `length`, in about `room` bytes."""
    one = packed_list(element, length)
    return packed_list(one, room // len(one))


MSGPACK = {
    "maps": packed_list(b"\x80", ROOM),
    "lists": packed_list(b"\x90", ROOM),
    "lists of maps": lists_of(b"\x80", 1_000),
    "small lists of maps": lists_of(b"\x80", 10),
    "nothing": packed_list(b"\xc0", ROOM),
    "lists of nothing": lists_of(b"\xc0", limits.VALUES_MAX - 1),
    "small lists of nothing": lists_of(b"\xc0", 100),
    "short texts": lists_of(b"\xa1x", 16_000),
    "numbers": lists_of(b"\xcb" + bytes(8), 8_000),
    "claims without end": packed_list(b"", limits.VALUES_MAX) * 400,
    "chains": packed_list(b"\x91" * 30 + b"\x80", ROOM // 31),
}
JSON = {
    "maps": b"[" + b"{}," * (ROOM // 3) + b"0]",
    "lists": b"[" + b"[]," * (ROOM // 3) + b"0]",
    "maps in maps": b"[" + b'{"a":{}},' * (ROOM // 9) + b"0]",
    "numbers": b"[" + b"1," * (ROOM // 2) + b"1]",
    "texts": b"[" + b'"\\"",' * (ROOM // 5) + b"0]",
    "fields": b"{" + b",".join(b'"%x":0' % each for each in range(ROOM // 12)) + b"}",
    "lists after a text without end": b'["' + b"[" * ROOM,
}
BOMBS: dict[str, tuple[bodies.Form, bytes]] = {
    **{f"msgpack, {name}": ("msgpack", b"\x81\xa1a" + each) for name, each in MSGPACK.items()},
    **{f"json, {name}": ("json", b'{"a":' + each + b"}") for name, each in JSON.items()},
}


def peak_bytes(form: bodies.Form, body: bytes) -> int:
    """Return how much memory it takes to read `body`."""
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidInput):
            bodies.decode(body, form, bytes_max=len(body))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BOMBS)
def test_no_body_makes_a_server_build_much_more_than_it_is(name: str) -> None:
    form, body = BOMBS[name]
    assert len(body) <= limits.BODY_BYTES_MAX
    assert peak_bytes(form, body) < 12 * 1024 * 1024


@st.composite
def nests(draw: st.DrawFn) -> Any:
    """Return a list of lists and maps, with a number of leaves about what is allowed."""
    leaf: Any = draw(st.sampled_from([None, 5, "x", '"', "[{,", "\\", {}, []]))
    widths = draw(st.lists(st.sampled_from([1, 2, 7, 90, 181, 8_191, 8_192, 32_767]), max_size=3))
    total = 1
    for width in widths:
        if (total := total * width) > 3 * limits.VALUES_MAX:
            break
        leaf = draw(
            st.sampled_from(
                [lambda n, e: [e] * n, lambda n, e: dict.fromkeys(map(str, range(n)), e)]
            )
        )(width, leaf)
    return {"a": leaf}


def count_of(value: Any) -> tuple[int, int]:
    """Return how many values there are in `value`, and how many of them are maps and lists."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 1, 0
    counts = [count_of(each) for each in inner]
    return 1 + sum(values for values, _ in counts), 1 + sum(many for _, many in counts)


@given(nests())
def test_what_is_within_the_limits_passes_and_nothing_else(value: Any) -> None:
    values, maps_and_lists = count_of(value)
    fits = values - 1 <= limits.VALUES_MAX and maps_and_lists <= limits.MAPS_AND_LISTS_MAX
    for form in ("json", "msgpack"):
        packed = bodies.encode(value, form)  # type: ignore[arg-type]  # one of the two forms
        if values in (limits.VALUES_MAX, limits.VALUES_MAX + 1):
            continue  # JSON is counted by its commas: it may say so one sooner.
        if fits:
            assert bodies.decode(packed, form, bytes_max=len(packed)) == value  # type: ignore[arg-type]  # as above
        else:
            with pytest.raises(InvalidInput, match=r"values|nested"):
                bodies.decode(packed, form, bytes_max=len(packed))  # type: ignore[arg-type]  # as above


def test_marks_inside_of_texts_are_no_values() -> None:
    script = '"a\\",[{' * 20_000
    body = msgspec.json.encode({"script": script})
    assert bodies.decode(body, "json", bytes_max=len(body)) == {"script": script}


@pytest.mark.parametrize(
    "sent",
    [
        packed_list(b"\x80", limits.FRAME_BYTES_MAX - 100),
        b"\x91" + packed_list(b"\x80", limits.FRAME_BYTES_MAX - 100),
        b"\x91\x83\xa6number\x01\xa4name\xa4find\xa4bodz" + packed_list(b"\x80", 4_000_000),
        packed_list(b"", 2_000) * 10_000,
    ],
    ids=["maps", "a list of maps", "an unknown field", "claims without end"],
)
async def test_a_refused_frame_builds_nothing(sent: bytes) -> None:
    async with serving() as server, server.session() as socket:
        tracemalloc.start()
        try:
            await socket.send_bytes(sent)
            message = await socket.receive()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1007)
        assert peak < 8 * limits.FRAME_BYTES_MAX, "here are its sender and its reader"


async def test_a_bomb_in_a_call_of_a_session_is_that_calls_problem() -> None:
    head = b"\x92\x83\xa6number\x01\xa4name\xa4find\xa4body\x81\xa1a"
    after = msgpack.packb(call(2, "health"))
    async with serving() as server, server.session() as socket:
        for bomb, code in (
            (lists_of(b"\x80", 10), "invalid-input"),
            (packed_list(b"\x80", 300_000), "too-large"),
        ):
            await socket.send_bytes(head + bomb + after)
            got = {each["number"]: each for each in await replies(socket, 2)}
            assert got[1]["problem"]["code"] == code
            assert "answer" in got[2]


@pytest.mark.parametrize("way", ["http", "session"])
async def test_what_a_caller_sends_counts_by_its_bytes_refused_or_not(way: str) -> None:
    clock = ManualClock()
    limited = ServingLimits(calls_burst=60, calls_per_s=1.0)
    body = {"a": "x" * (BYTES_OF_A_CALL * 58)}
    async with serving(limits=limited, clock=clock) as server, server.session() as socket:
        if way == "http":
            assert (await server.call("POST", "/v1/find", json=body))[0] == 400
            assert (await server.call("GET", "/v1/resources"))[0] == 200
        else:
            await socket.send_bytes(frame(call(1, "find", body), call(2, "resources", {})))
            got = {each["number"]: each for each in await replies(socket, 2)}
            assert ("problem" in got[1], "answer" in got[2]) == (True, True)
        assert (await server.call("GET", "/v1/resources"))[0] == 429


async def test_who_is_in_debt_opens_no_session() -> None:
    clock = ManualClock()
    limited = ServingLimits(calls_burst=4, calls_per_s=1.0)
    async with serving(limits=limited, clock=clock) as server:
        async with server.session() as socket:
            await socket.send_bytes(b"\xc1" * (10 * BYTES_OF_A_CALL))
            assert (await socket.receive()).data == 1007
        with pytest.raises(Exception, match="429"):
            async with server.session():
                pass
        clock.now_s += 10
        async with server.session() as socket:
            await socket.send_bytes(frame(call(1, "resources", {})))
            assert "answer" in (await replies(socket, 1))[0]


@given(quiet_s=st.integers(0, 100), calls=st.integers(1, 50))
def test_what_was_saved_in_quiet_times_pays_no_charge_of_now(quiet_s: int, calls: int) -> None:
    limiter = RateLimiter(per_s=10, burst=20, tracked_max=10)
    limiter.take("a", 0.0)
    limiter.fine("a", calls, float(quiet_s))
    left = min(20, 19 + 10 * quiet_s) - min(calls, 40)
    got = 0
    with contextlib.suppress(LimitExceeded):
        while True:
            limiter.take("a", float(quiet_s))
            got += 1
    assert got == max(left, 0)


def test_all_that_a_type_does_not_have_is_refused_before_it_is_built() -> None:
    class Point(msgspec.Struct, forbid_unknown_fields=True):
        x: int = 0

    for sent in (packed_list(b"\x80", 100_000), b"\x81\xa1y" + packed_list(b"\x80", 100_000)):
        tracemalloc.start()
        try:
            with pytest.raises(InvalidInput):
                codec.decode_msgpack(sent, Point)
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()
