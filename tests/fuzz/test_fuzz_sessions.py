"""Hostile frames on the sessions of clients (``/v1/calls``) and of brokers (``/v1/session``).

A frame that is not one closes the session, with a code and a reason that names the path; a call that
is not one gets a problem as its reply. The server goes on, and nothing has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import aiohttp
import msgpack
import pytest
from aiohttp import WSCloseCode, WSMsgType
from fuzz_servers import Facility, Server, check_answer, closing
from fuzz_values import SCRAPS, VALUES, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.patience import PATIENCE_S

from kalends.core.limits import FRAME_BYTES_MAX, FRAME_MESSAGES_MAX

pytestmark = pytest.mark.usefixtures("untouched")

RID = "01234567-89ab-7def-8123-456789abcdef"
SECRET = "0123456789abcdef"
SCRIPT = "def choose(view, request):\n    return []\n"
CALLS = [
    {"number": 1, "name": "resources", "body": {}},
    {"number": 2, "name": "audit", "body": {"after": RID}},
    {"number": 3, "name": "calendar",
     "body": {"resource": "alpha/cluster", "start": 1_900_000_000, "end": 1_900_003_600}},
]  # fmt: skip
WANT = {"resource": "alpha/nothing", "start": 1_900_000_020, "end": 1_900_000_620, "units": 1}
PART = {"site": "alpha", "url": "http://127.0.0.1:1"}
ABOUT = {"rid": RID, "att": 1}
MESSAGES: list[dict[str, Any]] = [
    {"kind": "query", "query_id": 1, "principal": {"user": "anna"}, "wants": [WANT], "detail": True},
    {"kind": "visit", **ABOUT, "stamp": 1, "mode": "vote", "principal": {"user": "anna"},
     "wants": [WANT], "parts": [PART], "need": 1, "secret": SECRET, "hold_ms": 1_000},
    {"kind": "dispatch", **ABOUT, "stamp": 1, "round": 1, "principal": {"user": "anna"},
     "script": sha256(SCRIPT.encode()).hexdigest(), "source": SCRIPT, "arguments": {"at": "09:30"},
     "inbox": ["{}"], "starts": {"first": 1_900_000_020, "last": 1_900_000_620, "step_s": 60},
     "asks": [{"term": 0, "resource": "alpha/nothing", "length_s": 600}],
     "near": [{"site": "beta", "asks": [{"term": 1, "resource": "beta/one", "length_s": 600}]}],
     "parts": [PART], "need": 1, "secret": SECRET, "hold_ms": 1_000},
    {"kind": "prepare", **ABOUT, "hold_ids": [1], "parts": [PART], "need": 1},
    {"kind": "decide", **ABOUT, "outcome": "abort", "chosen": {"alpha": [1]}},
    {"kind": "forget", **ABOUT},
    {"kind": "release", **ABOUT, "hold_ids": [1]},
    {"kind": "renew", **ABOUT, "hold_ids": [1], "hold_ms": 1_000},
    {"kind": "give", **ABOUT, "hold_ids": [1]},
    {"kind": "outcome", **ABOUT, "outcome": "pending"},
]  # fmt: skip
WELCOME: dict[str, Any] = {"kind": "welcome", "register": "0" * 32}
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


def frame(*messages: Any, **changes: Any) -> bytes:
    fields = {"v": 2, "source": "fuzzer", "lc": 1, "messages": list(messages), **changes}
    return bytes(msgpack.packb(fields))


def on_session(
    place: Facility, server: Server, path: str,
    talk: Callable[[aiohttp.ClientWebSocketResponse], Awaitable[Any]],
) -> Any:  # fmt: skip
    """`talk` on a new session, as a broker called fuzzer or as mallory; its result."""

    async def run() -> Any:
        headers = (
            place.headers("fuzzer", server, "broker")
            if path == "/v1/session"
            else place.headers("mallory", server, "use", "audit")
        )
        async with (
            asyncio.timeout(PATIENCE_S),
            aiohttp.ClientSession() as http,
            http.ws_connect(server.url + path, headers=headers, max_msg_size=0) as socket,
        ):
            return await talk(socket)

    return asyncio.run(run())


def line(socket: aiohttp.ClientWebSocketResponse) -> asyncio.Transport:
    """What the session's bytes go over, for bytes that no client library would send."""
    writer: asyncio.Transport = socket._writer.transport
    return writer


def close_after(
    place: Facility, server: Server, path: str, *frames: bytes | str
) -> tuple[int, str]:
    async def talk(socket: aiohttp.ClientWebSocketResponse) -> tuple[int, str]:
        for each in frames:
            if isinstance(each, str):
                await socket.send_str(each)
            else:
                await socket.send_bytes(each)
        return await closing(socket)

    closed: tuple[int, str] = on_session(place, server, path, talk)
    return closed


def sessions(place: Facility) -> list[tuple[Server, str]]:
    site = place.sites[0]
    return [(site, "/v1/session"), (site, "/v1/calls"), (place.broker, "/v1/calls")]


def healthy(place: Facility) -> bool:
    return all(
        server.call("GET", "/healthz").value()["status"] == "ok"
        for server in place.servers.values()
    )


@pytest.mark.parametrize("scrap", SCRAPS, ids=range(len(SCRAPS)))
def test_a_broken_frame_closes_the_session_with_a_code_and_a_place(
    scrap: bytes, place: Facility
) -> None:
    for server, path in sessions(place):
        code, reason = close_after(place, server, path, scrap)
        assert code == WSCloseCode.INVALID_TEXT, (path, reason)
        assert ": " in reason
    assert healthy(place)


def test_a_text_frame_closes_the_session(place: Facility) -> None:
    for server, path in sessions(place):
        code, reason = close_after(place, server, path, "[]")
        assert (code, reason) == (WSCloseCode.UNSUPPORTED_DATA, "frames are binary: MessagePack")


def test_a_frame_beyond_the_limit_closes_the_session_before_it_is_sent(place: Facility) -> None:
    head = b"\x82\xff" + (FRAME_BYTES_MAX + 1).to_bytes(8) + bytes(4)

    async def talk(socket: aiohttp.ClientWebSocketResponse) -> tuple[int, str]:
        line(socket).write(head)
        return await closing(socket)

    for server, path in sessions(place):
        code, _ = on_session(place, server, path, talk)
        assert code == WSCloseCode.MESSAGE_TOO_BIG
    assert healthy(place)


def test_more_messages_than_a_frame_takes_close_the_session(place: Facility) -> None:
    calls = msgpack.packb([CALLS[0]] * (FRAME_MESSAGES_MAX + 1))
    many = frame(*[MESSAGES[4]] * (FRAME_MESSAGES_MAX + 1))
    for server, path in sessions(place):
        code, reason = close_after(place, server, path, many if path == "/v1/session" else calls)
        assert code == WSCloseCode.INVALID_TEXT
        assert str(FRAME_MESSAGES_MAX) in reason


@pytest.mark.parametrize(
    ("changes", "where"),
    [({"v": 1}, "v"), ({"source": "A b"}, "source"),
     ({"source": "fuzzer\n"}, "source"), ({"source": ""}, "source"), ({"messages": {}}, "messages"),
     ({"messages": [{}]}, "messages[0]"), ({"messages": [{"kind": "hello"}]}, "messages[0].kind"),
     ({"messages": [{"kind": "forget", "rid": RID}]}, "messages[0]"), ({"x": 1}, "body"),
     ({"messages": [{**MESSAGES[4], "rid": "x"}]}, "messages[0].rid"),
     ({"messages": [{**MESSAGES[4], "att": 0}]}, "messages[0].att"),
     ({"messages": [{**MESSAGES[4], "att": True}]}, "messages[0].att"),
     ({"messages": [{**MESSAGES[1], "secret": "short"}]}, "messages[0].secret"),
     ({"messages": [{**MESSAGES[1], "stamp": 1 << 63}]}, "messages[0].stamp"),
     ({"messages": [{**MESSAGES[4], "unknown": 1}]}, "messages[0]")],
)  # fmt: skip
def test_a_wrong_field_of_a_brokers_frame_is_named(
    changes: dict[str, Any], where: str, place: Facility
) -> None:
    code, reason = close_after(place, place.sites[0], "/v1/session", frame(**changes))
    assert code == WSCloseCode.INVALID_TEXT
    assert reason.startswith(f"{where}: "), reason


@pytest.mark.parametrize("lc", [-1, 1 << 63, (1 << 64) - 1])
def test_a_clock_that_cannot_be_is_refused(lc: int, place: Facility) -> None:
    code, reason = close_after(place, place.sites[0], "/v1/session", frame(lc=lc))
    assert code == WSCloseCode.INVALID_TEXT
    assert reason.startswith("lc: ")


def test_a_session_does_not_change_its_broker(place: Facility) -> None:
    frames = (frame(WELCOME), frame(MESSAGES[4], source="other"))
    code, reason = close_after(place, place.sites[0], "/v1/session", *frames)
    assert code == WSCloseCode.POLICY_VIOLATION
    assert reason.startswith("source: ")


@SHARED
@given(data=st.data())
def test_messages_that_are_nearly_right_close_the_session_or_are_answered(
    place: Facility, data: st.DataObject
) -> None:
    message = data.draw(mutated(data.draw(st.sampled_from(MESSAGES))))

    async def talk(socket: aiohttp.ClientWebSocketResponse) -> None:
        await socket.send_bytes(frame(WELCOME))
        await socket.send_bytes(frame(message))
        await socket.send_bytes(frame({**MESSAGES[0], "query_id": 77}))
        while True:
            answer = await socket.receive()
            if answer.type is WSMsgType.CLOSE:
                assert answer.data == WSCloseCode.INVALID_TEXT, answer
                assert ": " in answer.extra
                return
            assert answer.type is WSMsgType.BINARY, answer
            said = msgpack.unpackb(answer.data)["messages"]
            if any(each.get("query_id") == 77 for each in said):
                return

    on_session(place, place.sites[0], "/v1/session", talk)
    assert healthy(place)


@SHARED
@given(data=st.data())
def test_calls_that_are_nearly_right_close_the_session_or_are_answered(
    place: Facility, data: st.DataObject
) -> None:
    server = data.draw(st.sampled_from([place.sites[0], place.broker]))
    calls = data.draw(mutated(CALLS) | st.lists(st.sampled_from(CALLS), min_size=1) | VALUES)

    async def talk(socket: aiohttp.ClientWebSocketResponse) -> None:
        await socket.send_bytes(msgpack.packb(calls))
        await socket.send_bytes(msgpack.packb([{"number": 77, "name": "health", "body": {}}]))
        while True:
            answer = await socket.receive()
            if answer.type is WSMsgType.CLOSE:
                assert answer.data == WSCloseCode.INVALID_TEXT, answer
                assert ": " in answer.extra
                return
            assert answer.type is WSMsgType.BINARY, answer
            replies = msgpack.unpackb(answer.data)
            for reply in replies:
                if reply.get("problem"):
                    assert 400 <= reply["problem"]["status"] < 500, reply
                    assert reply["problem"]["code"]
            if any(reply["number"] == 77 for reply in replies):
                return

    on_session(place, server, "/v1/calls", talk)


def test_half_a_frame_and_a_lost_line_leave_the_server_as_it_was(place: Facility) -> None:
    whole = frame(MESSAGES[1])

    async def talk(socket: aiohttp.ClientWebSocketResponse) -> None:
        line(socket).write(b"\x82\xfe\xff\xff\0\0\0\0" + whole)
        line(socket).abort()

    for server, path in sessions(place):
        on_session(place, server, path, talk)
    assert healthy(place)


def test_a_plain_request_to_a_session_is_told_what_is_served_there(place: Facility) -> None:
    for server, path in sessions(place):
        scope = "broker" if path == "/v1/session" else "use"
        headers = place.headers("mallory", server, scope)
        for more in ({}, {"Upgrade": "websocket", "Connection": "Upgrade"},
                     {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "9",
                      "Sec-WebSocket-Key": "?"}):  # fmt: skip
            answer = server.call("GET", path, headers={**headers, **more})
            check_answer(place, answer, headers)
            assert answer.status == 426
