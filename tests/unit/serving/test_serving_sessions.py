"""Sessions: many calls in flight, each answered once, whatever the client does."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import msgpack
import pytest
from aiohttp import WSMsgType, web
from serving_support import REQUEST, RID, Deeds, ManualClock, call, frame, replies, serving

from kalends.contract import calls
from kalends.serving.auth.callers import Caller
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id
from kalends.serving.auth.tokens import KeyRing, mint
from kalends.serving.http.application import open_socket
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.http.sessions import close_reason

BOOK = {"key": "key-0001", "request": REQUEST}


class Gated(Deeds):
    """`find` waits for the gate, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()
        self.ended = 0

    async def find(self, caller: Caller, body: calls.Find) -> calls.Answer:
        self.begun.set()
        await self.gate.wait()
        self.ended += 1
        return calls.Found(candidates=())


async def test_calls_of_one_frame_are_each_answered_once() -> None:
    async with serving() as server, server.session() as socket:
        sent = [call(number, "book", BOOK) for number in range(500)]
        sent += [call(number, "show", {"id": RID}) for number in range(500, 1000)]
        await socket.send_bytes(frame(*sent))
        got = await replies(socket, 1000)
    assert sorted(reply["number"] for reply in got) == list(range(1000))
    assert all(reply["answer"]["id"] == RID for reply in got)


async def test_replies_made_together_leave_in_one_frame() -> None:
    async with serving() as server, server.session() as socket:
        await socket.send_bytes(frame(*(call(number, "book", BOOK) for number in range(50))))
        assert len(msgpack.unpackb(await socket.receive_bytes())) == 50


async def test_a_slow_call_does_not_hold_up_others() -> None:
    deeds = Gated()
    async with serving(deeds) as server, server.session() as socket:
        slow, quick = call(1, "find", {"request": REQUEST}), call(2, "book", BOOK)
        await socket.send_bytes(frame(slow, quick))
        assert [reply["number"] for reply in await replies(socket, 1)] == [2]
        deeds.gate.set()
        assert [reply["number"] for reply in await replies(socket, 1)] == [1]


async def test_a_call_that_fails_is_answered_with_its_problem_and_the_session_lives() -> None:
    async with serving() as server, server.session() as socket:
        await socket.send_bytes(
            frame(
                call(1, "bok"),
                call(2, "book", {**BOOK, "wait_ms": "x"}),
                call(3, "book", {**BOOK, "request": {**REQUEST, "note": "a\0b"}}),
                call(4, "book", {"deep": [[[[1 << 63]]]]}),
                call(5, "show", {"id": RID, "more": 1}),
                call(6, "book", BOOK),
            )
        )
        got = {reply["number"]: reply for reply in await replies(socket, 6)}
    assert got[1]["problem"]["code"] == "not-found"
    assert "book" in got[1]["problem"]["remedy"]
    assert got[2]["problem"]["where"] == "wait_ms"
    assert got[3]["problem"]["where"] == "request.note"
    assert got[4]["problem"]["where"] == "deep[0][0][0][0]"
    assert "more" in got[5]["problem"]["detail"]
    assert got[6]["answer"]["id"] == RID


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_unforeseen_error_is_one_calls_problem(at_once: bool) -> None:
    deeds = Deeds()

    async def later(caller: Caller, body: calls.Find) -> calls.Answer:
        raise RuntimeError("private")

    def now(caller: Caller, body: calls.Find) -> calls.Answer:
        raise RuntimeError("private")

    deeds.find = now if at_once else later  # type: ignore[assignment]  # one deed is replaced
    async with serving(deeds) as server, server.session() as socket:
        await socket.send_bytes(frame(call(1, "find", {"request": REQUEST}), call(2, "health")))
        got = {reply["number"]: reply for reply in await replies(socket, 2)}
        assert got[1]["problem"]["code"] == "internal"
        assert "private" not in str(got)
        assert got[2]["answer"]["status"] == "ok"
        assert "RuntimeError: private" in server.log.getvalue()


async def test_an_answer_that_cannot_be_put_into_bytes_is_one_calls_problem() -> None:
    deeds = Deeds()

    def find(caller: Caller, body: calls.Find) -> calls.Answer:
        return calls.Events(events=(), next=1 << 70)

    deeds.find = find  # type: ignore[assignment]  # one deed is replaced
    async with serving(deeds) as server, server.session() as socket:
        await socket.send_bytes(frame(call(1, "find", {"request": REQUEST})))
        assert (await replies(socket, 1))[0]["problem"]["code"] == "internal"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xc1", "MessagePack"),
        (b"", "MessagePack"),
        (frame(call(1, "book")) + b"x", "MessagePack"),
        (msgpack.packb({}), "list"),
        (frame(call(1, "book"), {"number": "x", "name": "book"}), "[1].number"),
        (frame({"number": -1, "name": "book"}), "[0].number"),
        (frame({"number": 1, "name": "n" * 40}), "[0].name"),
        (frame({"number": 1, "name": "book", "extra": 1}), "extra"),
        (frame({"number": 1, "name": "book", "body": []}), "[0].body"),
        (frame(*[call(1, "health")] * 2_001), "more than"),
        (frame({"number": 1, "name": "book", "ü" * 60: 1}), "unknown field"),
    ],
)
async def test_a_malformed_frame_closes_the_session_and_names_the_path(
    data: bytes, reason: str
) -> None:
    deeds = Deeds()
    async with serving(deeds) as server, server.session() as socket:
        await socket.send_bytes(data)
        message = await socket.receive()
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1007)
        assert reason in message.extra
    assert deeds.seen == [], "nothing of a malformed frame is carried out"


async def test_text_frames_and_frames_beyond_the_limit_close_the_session() -> None:
    async with serving(limits=ServingLimits(frame_bytes_max=10_000)) as server:
        async with server.session() as socket:
            await socket.send_str("[]")
            assert (await socket.receive()).data == 1003
        async with server.session() as socket:
            await socket.send_bytes(b"\x90" + b" " * 20_000)
            assert (await socket.receive()).data == 1009
        assert (await server.call("GET", "/healthz"))[0] == 200


def answering(length: int) -> Deeds:
    """`find` answers at once with about `length` bytes."""
    deeds = Deeds()

    def find(caller: Caller, body: calls.Find) -> calls.Answer:
        return calls.Health(status="ok", role="broker", name="n" * length, version="1")

    deeds.find = find  # type: ignore[assignment]  # one deed is replaced
    return deeds


async def test_an_answer_beyond_the_frame_limit_is_a_problem() -> None:
    limited = ServingLimits(frame_bytes_max=10_000)
    async with serving(answering(20_000), limits=limited) as server, server.session() as socket:
        await socket.send_bytes(frame(call(1, "find", {"request": REQUEST}), call(2, "health")))
        got = {reply["number"]: reply for reply in await replies(socket, 2)}
    assert got[1]["problem"]["code"] == "too-large"
    assert got[2]["answer"]["status"] == "ok"


async def test_replies_are_split_over_frames_at_the_limit_and_none_is_lost() -> None:
    limited = ServingLimits(frame_bytes_max=10_000)
    async with serving(answering(4_000), limits=limited) as server, server.session() as socket:
        sent = (call(number, "find", {"request": REQUEST}) for number in range(30))
        await socket.send_bytes(frame(*sent))
        frames = [await socket.receive_bytes() for _ in range(15)]
    assert all(len(data) <= 10_000 for data in frames)
    numbers = [reply["number"] for data in frames for reply in msgpack.unpackb(data)]
    assert numbers == list(range(30))


async def test_more_calls_in_flight_than_allowed_are_refused() -> None:
    deeds = Gated()
    limited = ServingLimits(calls_in_flight_max=3)
    async with serving(deeds, limits=limited) as server, server.session() as socket:
        sent = [call(number, "find", {"request": REQUEST}) for number in range(5)]
        await socket.send_bytes(frame(*sent))
        refused = await replies(socket, 2)
        assert [reply["number"] for reply in refused] == [3, 4]
        assert {reply["problem"]["code"] for reply in refused} == {"limit-exceeded"}
        deeds.gate.set()
        assert len(await replies(socket, 3)) == 3
        await socket.send_bytes(frame(call(9, "find", {"request": REQUEST})))
        assert "answer" in (await replies(socket, 1))[0]


async def test_a_closed_session_lets_its_calls_run_to_their_end() -> None:
    deeds = Gated()
    async with serving(deeds) as server:
        async with server.session() as socket:
            await socket.send_bytes(frame(call(1, "find", {"request": REQUEST})))
            await deeds.begun.wait()
        deeds.gate.set()
        await server.stop()
    assert deeds.ended == 1


async def test_an_overdue_call_is_answered_as_unknown_and_only_once() -> None:
    deeds = Gated()
    limited = ServingLimits(answer_s_max=0.02)
    async with serving(deeds, limits=limited) as server, server.session() as socket:
        await socket.send_bytes(frame(call(1, "find", {"request": REQUEST})))
        assert (await replies(socket, 1))[0]["problem"]["code"] == "outcome-unknown"
        deeds.gate.set()
        await socket.send_bytes(frame(call(2, "health")))
        assert [reply["number"] for reply in await replies(socket, 1)] == [2]
    assert deeds.ended == 1


async def test_a_client_that_does_not_read_is_dropped() -> None:
    limited = ServingLimits(replies_waiting_bytes_max=5_000_000)
    async with (
        serving(answering(1_000_000), limits=limited) as server,
        server.session() as socket,
    ):
        sent = [call(number, "find", {"request": REQUEST}) for number in range(50)]
        await socket.send_bytes(frame(*sent))
        while (message := await socket.receive()).type is WSMsgType.BINARY:
            pass
        assert message.type in (WSMsgType.CLOSED, WSMsgType.ERROR, WSMsgType.CLOSE)
        assert "session_does_not_read" in server.log.getvalue()
        assert (await server.call("GET", "/healthz"))[0] == 200


async def test_a_stop_answers_what_is_in_flight_refuses_what_is_new_and_goes_away() -> None:
    deeds = Gated()
    async with serving(deeds) as server, server.session() as socket:
        await socket.send_bytes(frame(call(1, "find", {"request": REQUEST})))
        await deeds.begun.wait()
        stopping = asyncio.create_task(server.stop())
        while True:
            await socket.send_bytes(frame(call(2, "book", BOOK)))
            reply = (await replies(socket, 1))[0]
            if "problem" in reply:
                break
        assert (reply["number"], reply["problem"]["code"]) == (2, "unavailable")
        deeds.gate.set()
        assert [reply["number"] for reply in await replies(socket, 1)] == [1]
        message = await socket.receive()
        assert (message.type, message.data) == (WSMsgType.CLOSE, 1001)
        await stopping


async def test_sessions_are_authenticated_at_the_upgrade_and_expire_with_their_token() -> None:
    key, clock = generate_key(), ManualClock()
    public = key.public_key()
    ring = KeyRing([TrustedKey(public, key_id(public), KeyTerms("", frozenset({"use"})))], "npaci")
    fields: dict[str, Any] = {"user": "anna", "groups": [], "issuer": "", "lifetime_s": 600}
    fields |= {"audience": ["npaci"], "scopes": ["use"], "now_s": clock.wall_now_s}
    async with serving(authenticator=ring, clock=clock) as server:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await server.session()
        assert caught.value.status == 401
        headers = {"Authorization": f"Bearer {mint(key, **fields)}"}
        async with server.session(headers=headers) as socket:
            await socket.send_bytes(frame(call(1, "book", BOOK), call(2, "audit")))
            got = {reply["number"]: reply for reply in await replies(socket, 2)}
            assert got[1]["answer"]["user"] == "anna"
            assert got[2]["problem"]["code"] == "not-allowed"
            clock.wall_now_s += 600
            await socket.send_bytes(frame(call(3, "book", BOOK), call(4, "health")))
            got = {reply["number"]: reply for reply in await replies(socket, 2)}
            assert got[3]["problem"]["code"] == "not-authenticated"
            assert "answer" in got[4]


async def test_calls_of_sessions_count_against_the_same_rate_as_http() -> None:
    limited = ServingLimits(calls_burst=2, calls_per_s=1.0)
    async with (
        serving(limits=limited, clock=ManualClock()) as server,
        server.session() as socket,
    ):
        assert (await server.call("GET", "/v1/resources"))[0] == 200
        await socket.send_bytes(frame(call(1, "book", BOOK), call(2, "book", BOOK)))
        got = {reply["number"]: reply for reply in await replies(socket, 2)}
        assert "answer" in got[1]
        assert got[2]["problem"]["retry_after_s"] == 1.0


async def test_sessions_are_bounded_in_number_and_counted() -> None:
    async with serving(limits=ServingLimits(sessions_max=1)) as server, server.session() as socket:
        await socket.send_bytes(frame(call(1, "book", BOOK)))
        await replies(socket, 1)
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await server.session()
        assert caught.value.status == 429
        text = server.metrics.render().decode()
        assert "kalends_sessions 1.0" in text
        assert 'kalends_calls_total{operation="book",status="200"} 1.0' in text


async def test_who_has_most_sessions_gives_one_up_for_who_has_none() -> None:
    greedy, deeds = {"headers": {"Kalends-User": "greedy"}}, Gated()
    async with (
        serving(deeds, limits=ServingLimits(sessions_max=3)) as server,
        server.session(**greedy) as busy,
        server.session(**greedy) as idle,
        server.session(**greedy) as last,
    ):
        await busy.send_bytes(frame(call(1, "find", {"request": REQUEST})))
        await deeds.begun.wait()
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await server.session(**greedy)
        async with server.session() as socket:
            await socket.send_bytes(frame(call(1, "book", BOOK)))
            assert "answer" in (await replies(socket, 1))[0]
        ended = await idle.receive()
        assert (ended.type, ended.data) == (WSMsgType.CLOSE, 1013)
        deeds.gate.set()
        assert "answer" in (await replies(busy, 1))[0]
        assert not last.closed


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upgrade": "websocket"},
        {"Upgrade": "websocket", "Connection": "Upgrade"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "99"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
         "Sec-WebSocket-Key": "short"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
         "Sec-WebSocket-Key": "\xe9" * 24},
    ],
)  # fmt: skip
async def test_what_is_no_websocket_upgrade_is_a_problem(headers: dict[str, str]) -> None:
    async with serving() as server:
        lines = {"Host": "127.0.0.1", "Kalends-User": "a", "Connection": "close", **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        answer = await server.raw(f"GET /v1/calls HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"application/problem+json" in answer


@pytest.mark.parametrize("text", ["", "a", "é" * 100, "a" + "é" * 100, "x" * 200, "😀" * 40])
def test_close_reasons_fit_and_stay_valid_text(text: str) -> None:
    reason = close_reason(text)
    assert len(reason) <= 123
    assert text.startswith(reason.decode())
    assert len(reason) > 119 or reason.decode() == text


async def test_a_client_that_goes_away_during_the_handshake_leaves_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def goes_away(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return await open_socket(request, ServingLimits())

    async with serving(routes=[web.get("/v1/away", goes_away)]) as server:
        with pytest.raises(aiohttp.ClientError):
            await server.client.ws_connect(server.url + "/v1/away")
        assert (await server.call("GET", "/healthz"))[0] == 200
    assert caplog.text == server.log.getvalue() == ""


async def test_a_connection_of_the_servers_own_that_breaks_is_a_problem_for_its_caller() -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        raise ConnectionResetError("another server")

    async with serving(routes=[web.get("/v1/breaks", breaks)]) as server:
        status, _, problem = await server.call("GET", "/v1/breaks")
    assert (status, problem["code"]) == (500, "internal")
