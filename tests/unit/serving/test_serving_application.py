"""The HTTP side: every request gets an answer or problem details, and never a 5xx for its content."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import aiohttp
import msgpack
import pytest
from aiohttp import web
from serving_support import ANNA, REQUEST, RID, Deeds, ManualClock, Server, serving

from kalends.contract import calls
from kalends.contract.versions import own_version
from kalends.core import limits
from kalends.core.errors import NoCommonTime, Refusal
from kalends.serving.auth.callers import Caller, OpenAccess
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id
from kalends.serving.auth.tokens import KeyRing, mint
from kalends.serving.http.application import build_application, caller_of
from kalends.serving.http.rate_limits import ServingLimits
from kalends.serving.metrics import Metrics

KEY = generate_key()
BOOK = {"key": "key-0001", "request": REQUEST}


@pytest.fixture
def deeds() -> Deeds:
    return Deeds()


def key_ring() -> KeyRing:
    public = KEY.public_key()
    return KeyRing(
        [TrustedKey(public, key_id(public), KeyTerms("", frozenset({"use", "audit"})))], "npaci"
    )


def bearer(clock: ManualClock, *scopes: str, **changes: Any) -> dict[str, str]:
    fields: dict[str, Any] = {
        "user": "anna", "groups": ["staff"], "audience": ["npaci"], "scopes": scopes,
        "issuer": "", "lifetime_s": 600, "now_s": clock.wall_now_s,
    }  # fmt: skip
    return {"Authorization": f"Bearer {mint(KEY, **{**fields, **changes})}"}


def check_problem(answer: tuple[int, Any, Any], status: int, code: str) -> dict[str, Any]:
    got, headers, body = answer
    assert (got, body["status"], body["code"]) == (status, status, code), body
    assert headers["Content-Type"] == "application/problem+json"
    assert body["type"] == f"urn:kalends:problem:{code}"
    assert body["title"]
    assert body["detail"]
    return dict(body)


async def test_a_post_reaches_its_handler_with_caller_and_typed_body(deeds: Deeds) -> None:
    async with serving(deeds) as server:
        headers = {"Kalends-Groups": "staff, physics"}
        status, _, body = await server.call("POST", "/v1/requests", json=BOOK, headers=headers)
    assert (status, body["id"], body["user"]) == (200, RID, "anna")
    caller, book = deeds.seen[0]
    assert caller.principal.groups == ("staff", "physics")
    assert isinstance(book, calls.Book)
    assert book.request.alternatives[0].terms[0].units == 3


async def test_path_fields_reach_the_body(deeds: Deeds) -> None:
    async with serving(deeds) as server:
        assert (await server.call("GET", f"/v1/requests/{RID}"))[2]["id"] == RID
        await server.call("POST", f"/v1/requests/{RID}/cancel", json={"wait_ms": 5})
        await server.call("POST", f"/v1/requests/{RID}/lock")
    assert [type(body) for _, body in deeds.seen] == [calls.ById, calls.Finish, calls.Finish]
    assert deeds.seen[1][1].wait_ms == 5


async def test_messagepack_and_json_are_chosen_by_the_headers() -> None:
    async with serving() as server:
        for accept, kind in (
            ("application/msgpack", "application/msgpack"),
            ("application/json;q=0.5, application/msgpack", "application/msgpack"),
            ("application/*", "application/json"),
            ("*/*;q=0.1", "application/json"),
            ("text/html, */*", "application/json"),
            ("application/msgpack;q=0, */*", "application/json"),
        ):
            async with server.client.post(
                server.url + "/v1/requests",
                data=msgpack.packb(BOOK),
                headers={**ANNA, "Content-Type": "application/msgpack", "Accept": accept},
            ) as response:
                assert (response.status, response.content_type) == (200, kind), accept
                body = await response.read()
            decode = msgpack.unpackb if kind.endswith("msgpack") else json.loads
            assert decode(body)["id"] == RID


async def test_problems_are_messagepack_where_that_is_asked_for() -> None:
    async with serving() as server:
        headers = {**ANNA, "Accept": "application/msgpack"}
        async with server.client.get(server.url + "/v1/none", headers=headers) as response:
            assert response.content_type == "application/problem+msgpack"
            assert msgpack.unpackb(await response.read())["code"] == "not-found"


async def test_what_cannot_be_answered_is_refused_before_anything_is_done(deeds: Deeds) -> None:
    async with serving(deeds) as server:
        for accept in ("text/html", "application/json;q=0", "application/json;q=x", ";;,,"):
            answer = await server.call(
                "POST", "/v1/requests", json=BOOK, headers={"Accept": accept}
            )
            check_problem(answer, 406, "invalid-input")
    assert deeds.seen == []


async def test_unknown_paths_methods_and_types_are_problems() -> None:
    async with serving() as server:
        check_problem(await server.call("GET", "/nowhere"), 404, "not-found")
        answer = await server.call("DELETE", "/v1/requests")
        assert "POST" in check_problem(answer, 405, "invalid-input")["remedy"]
        assert answer[1]["Allow"] == "POST"
        for kind in ("text/plain", "application/json; charset=latin-1", "application/xml", "x"):
            headers = {"Content-Type": kind}
            answer = await server.call("POST", "/v1/requests", data=b"{}", headers=headers)
            check_problem(answer, 415, "invalid-input")
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        answer = await server.call("POST", "/v1/requests", data=b"\x1f\x8b", headers=headers)
        check_problem(answer, 415, "invalid-input")
        answer = await server.call("GET", "/healthz", headers={"Expect": "the unexpected"})
        check_problem(answer, 417, "invalid-input")


async def test_a_problem_names_the_path_of_what_is_wrong() -> None:
    async with serving() as server:
        wrong = {**REQUEST, "alternatives": [{"terms": [{"resource": "sdsc/sp2", "units": "x"}]}]}
        answer = await server.call("POST", "/v1/requests", json={**BOOK, "request": wrong})
        body = check_problem(answer, 400, "invalid-input")
        assert body["where"] == "request.alternatives[0].terms[0].units"
        change = {"key": "key-0001", "units": {"Big": 1}}
        answer = await server.call("POST", f"/v1/requests/{RID}/change", json=change)
        assert check_problem(answer, 400, "invalid-input")["where"] == "units"
        answer = await server.call("POST", "/v1/requests", json={**BOOK, "bogus": 1})
        assert "bogus" in check_problem(answer, 400, "invalid-input")["detail"]


BAD_JSON = [
    b"{", b"[]", b"null", b"5", b'"x"', b"\xff\xfe", b'{"key": "\xff"}', b'{"key": "\\ud800"}',
    b"[" * 100_000, b'{"a":' * 10_000, b'{"key": 1e999}', b'{"key": ' + b"9" * 5_000 + b"}",
    b'{"key":"a\\u0000bcdefgh"}', b'{"a\\u0000":1}', b'{"x": [' + b"[" * 50 + b"]" * 50 + b"]}",
    b'{"x": 9223372036854775808}', b'{"x": -9223372036854775809}', b"\0" * 100, b"{}{}",
    json.dumps({**BOOK, "wait_ms": True}).encode(), json.dumps({**BOOK, "wait_ms": 1.5}).encode(),
]  # fmt: skip
BAD_MSGPACK = [
    b"\xc1", b"\x90", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\x91" * 2_000, b"\x81\xa1a" * 2_000, b"\x81\xc0\xc0", b"\x81\xa1a\xd4\x01\x00",
    b"\x81\xa1a\xd6\xff\x00\x00\x00\x00", b"\x81\xa1\xff\xc0", b"\x81\x90\xc0",
    msgpack.packb({"a": float("nan")}), msgpack.packb({"a": float("inf")}),
    msgpack.packb({**BOOK, "key": b"key-0001"}), msgpack.packb({"a": "\0"}), b"\x80\x80",
]  # fmt: skip


@pytest.mark.parametrize("path", ["/v1/requests", "/v1/find", f"/v1/requests/{RID}/change"])
async def test_no_malformed_body_leads_to_anything_but_a_problem(deeds: Deeds, path: str) -> None:
    async with serving(deeds) as server:
        for kind, bodies in (("json", BAD_JSON), ("msgpack", BAD_MSGPACK)):
            for data in bodies:
                headers = {"Content-Type": f"application/{kind}"}
                answer = await server.call("POST", path, data=data, headers=headers)
                body = check_problem(answer, 400, "invalid-input")
                assert body["where"], (kind, data[:40])
    assert deeds.seen == []


async def test_the_path_of_a_value_that_no_field_can_mean_is_named() -> None:
    async with serving() as server:
        odd = {"a": [{"b": 1}, {"b": 1 << 70}]}
        answer = await server.call("POST", "/v1/find", json=odd)
        assert check_problem(answer, 400, "invalid-input")["where"] == "a[1].b"


async def test_bad_percent_encodings_and_queries_are_problems() -> None:
    async with serving() as server:
        for path in (
            "%zz",
            "%00",
            "%ff%fe",
            "%F0%28%8C%28",
            "x" * 300,
            "%2e%2e",
            "a%2fb",
            "%ud800",
        ):
            raw = f"GET /v1/requests/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nKalends-User: a\r\n"
            answer = await server.raw(raw.encode() + b"Connection: close\r\n\r\n")
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ")), (path, answer)
            assert b"application/problem+json" in answer
        for query in ("a=1", "id=5", "a=1&a=2", "%ff=1", "a=%ff", "a=%00", "%00=1", "\xe9=1"):
            path = f"/v1/requests/{RID}?{query}"
            raw = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nKalends-User: a\r\n"
            answer = await server.raw(raw.encode("latin-1") + b"Connection: close\r\n\r\n")
            assert b" 400 " in answer[:20], (query, answer)
        answer = await server.call("POST", "/v1/find?count=3", json={"request": REQUEST})
        assert check_problem(answer, 400, "invalid-input")["where"] == "count"
        answer = await server.call("POST", f"/v1/requests/{RID}/lock", json={"id": RID})
        assert check_problem(answer, 400, "invalid-input")["where"] == "id"


HEAD = b"POST /v1/requests HTTP/1.1\r\nHost: 127.0.0.1\r\nKalends-User: a\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "rest",
    [
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}}}}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: gzip\r\n\r\n{}",
        b"Content-Length: -1\r\n\r\n{}",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Length: x\r\n\r\n{}",
        b"Bad Header: x\r\n\r\n",
        b"X: \0\r\n\r\n",
    ],
)
async def test_lies_about_the_length_of_a_body_are_never_a_5xx(deeds: Deeds, rest: bytes) -> None:
    async with serving(deeds) as server:
        answer = await server.raw(HEAD + rest)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ") or b" 400 " in answer[:40]
        assert (await server.call("GET", "/healthz"))[0] == 200
    assert deeds.seen == []


async def test_a_body_cut_short_is_nobodys_crash(deeds: Deeds) -> None:
    async with serving(deeds) as server:
        assert b" 500 " not in await server.raw(
            HEAD + b"Content-Length: 99\r\n\r\n{}", then_close=True
        )
        assert "call_failed" not in server.log.getvalue()
    assert deeds.seen == []


async def test_a_body_beyond_the_limit_is_refused_while_it_is_read(deeds: Deeds) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while sent < 100_000_000:
            sent += 65_536
            yield b" " * 65_536

    async with serving(deeds) as server:
        kind = {"Content-Type": "application/json"}
        data = b" " * (limits.BODY_BYTES_MAX + 1)
        check_problem(
            await server.call("POST", "/v1/find", data=data, headers=kind), 413, "too-large"
        )
        # The server may close while we are still sending.
        with contextlib.suppress(aiohttp.ClientError):
            answer = await server.call("POST", "/v1/find", data=endless(), headers=kind)
            check_problem(answer, 413, "too-large")
    assert sent < 50_000_000, "the server went on reading"
    assert deeds.seen == []


async def test_a_body_that_comes_too_slowly_is_refused() -> None:
    async with serving(limits=ServingLimits(body_read_s_max=0.01)) as server:
        gate = asyncio.Event()

        async def slow() -> Any:
            yield b"{"
            await gate.wait()

        kind = {"Content-Type": "application/json"}
        answer = await server.call("POST", "/v1/find", data=slow(), headers=kind)
        assert check_problem(answer, 408, "invalid-input")["where"] == "body"
        gate.set()


async def test_a_kalends_error_of_a_handler_reaches_the_caller_whole(deeds: Deeds) -> None:

    async def find(caller: Caller, body: calls.Find) -> calls.Answer:
        refusal = Refusal(where="sdsc/sp2", code="busy", detail="taken", rule="night")
        raise NoCommonTime("no start suits", where="request", remedy="widen", refusals=(refusal,))

    deeds.find = find  # type: ignore[method-assign]  # one deed is replaced
    async with serving(deeds) as server:
        answer = await server.call("POST", "/v1/find", json={"request": REQUEST})
        body = check_problem(answer, 409, "no-common-time")
    assert body["remedy"] == "widen"
    assert body["refusals"] == [
        {"where": "sdsc/sp2", "code": "busy", "detail": "taken", "rule": "night"}
    ]


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_unforeseen_error_is_told_only_to_the_log(deeds: Deeds, at_once: bool) -> None:

    async def later(caller: Caller, body: calls.Find) -> calls.Answer:
        raise RuntimeError("the private part")

    def now(caller: Caller, body: calls.Find) -> calls.Answer:
        raise RuntimeError("the private part")

    deeds.find = now if at_once else later  # type: ignore[assignment]  # one deed is replaced
    async with serving(deeds) as server:
        answer = await server.call("POST", "/v1/find", json={"request": REQUEST})
        body = check_problem(answer, 500, "internal")
        error_id = body["detail"].rsplit(" ", 1)[1]
        assert "private" not in json.dumps(body)
        logged = [json.loads(line) for line in server.log.getvalue().splitlines()]
    assert [line["error_id"] for line in logged] == [error_id]
    assert "RuntimeError: the private part" in logged[0]["exception"]


async def test_an_overdue_answer_is_unknown_and_the_handler_still_ends(deeds: Deeds) -> None:
    gate, ended = asyncio.Event(), asyncio.Event()

    async def find(caller: Caller, body: calls.Find) -> calls.Answer:
        await gate.wait()
        ended.set()
        return calls.Found(candidates=())

    deeds.find = find  # type: ignore[method-assign]  # one deed is replaced
    async with serving(deeds, limits=ServingLimits(answer_s_max=0.01)) as server:
        answer = await server.call("POST", "/v1/find", json={"request": REQUEST})
        check_problem(answer, 504, "outcome-unknown")
        gate.set()
        await ended.wait()


async def test_scopes_are_required_and_the_open_operation_needs_no_token() -> None:
    clock = ManualClock()
    async with serving(authenticator=key_ring(), clock=clock) as server:
        use, audit = bearer(clock, "use"), bearer(clock, "use", "audit", "admin")
        assert (await server.call("GET", "/healthz"))[0] == 200
        answer = await server.call("GET", "/v1/resources")
        check_problem(answer, 401, "not-authenticated")
        assert answer[1]["WWW-Authenticate"] == "Bearer"
        assert (await server.call("GET", "/v1/resources", headers=use))[0] == 200
        answer = await server.call("POST", "/v1/audit", headers=use)
        assert "'audit'" in check_problem(answer, 403, "not-allowed")["detail"]
        assert (await server.call("POST", "/v1/audit", headers=audit))[0] == 200
        answer = await server.call("POST", "/v1/drain", json={"on": True}, headers=audit)
        check_problem(answer, 403, "not-allowed")  # The key may not issue "admin".
        clock.wall_now_s += 900
        answer = await server.call("GET", "/v1/resources", headers=use)
        assert "expired 5 min ago" in check_problem(answer, 401, "not-authenticated")["detail"]
        token = use["Authorization"].split()[1]
        assert token not in server.log.getvalue()


async def test_whoever_has_a_believed_token_is_told_whose_it_is_and_for_whom() -> None:
    clock = ManualClock()
    async with serving(authenticator=key_ring(), clock=clock) as server:
        for scopes in ((), ("audit",), ("use", "audit")):
            headers = bearer(clock, *scopes, audience=["npaci", "sdsc"])
            status, _, told = await server.call("GET", "/v1/whoami", headers=headers)
            assert (status, told["user"], told.get("scopes", [])) == (200, "anna", sorted(scopes))
            assert told["audiences"] == ["npaci", "sdsc"]
        check_problem(await server.call("GET", "/v1/whoami"), 401, "not-authenticated")
        old = bearer(clock)
        clock.wall_now_s += 900
        answer = await server.call("GET", "/v1/whoami", headers=old)
        check_problem(answer, 401, "not-authenticated")


async def test_open_access_believes_only_loopback_hosts_and_named_users() -> None:
    async with serving() as server:
        for host in ("evil.example", "192.0.2.1:80", "", "[2001:db8::1]:7101", "localhost.evil"):
            answer = await server.call("GET", "/v1/resources", headers={"Host": host})
            check_problem(answer, 401, "not-authenticated")
        for host in ("localhost:5", "127.0.0.1", "[::1]:7101", "127.9.9.9"):
            assert (await server.call("GET", "/v1/resources", headers={"Host": host}))[0] == 200
        answer = await server.call("GET", "/v1/resources", headers={"Kalends-User": ""})
        check_problem(answer, 401, "not-authenticated")
        raw = b"GET /v1/resources HTTP/1.1\r\nHost: 127.0.0.1\r\nKalends-User: \xff\xfe\r\n"
        assert b" 401 " in await server.raw(raw + b"Connection: close\r\n\r\n")


async def test_a_caller_who_calls_too_often_is_told_when_to_come_back() -> None:
    clock = ManualClock()
    limited = ServingLimits(calls_per_s=2.0, calls_burst=3)
    async with serving(limits=limited, clock=clock) as server:
        statuses = [(await server.call("GET", "/v1/resources"))[0] for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        answer = await server.call("GET", "/v1/resources")
        body = check_problem(answer, 429, "limit-exceeded")
        assert (body["retry_after_s"], answer[1]["Retry-After"]) == (0.5, "1")
        other = await server.call("GET", "/v1/resources", headers={"Kalends-User": "ben"})
        assert other[0] == 200, "one caller's haste is not another's"
        assert (await server.call("GET", "/healthz"))[0] == 200
        clock.now_s += 0.5
        assert (await server.call("GET", "/v1/resources"))[0] == 200


async def test_answers_are_not_cached_nor_shared_with_other_origins() -> None:
    async with serving() as server:
        _, headers, _ = await server.call("GET", "/healthz", headers={"Origin": "http://evil"})
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"] == "kalends/1"


@pytest.mark.parametrize(
    ("status", "code"),
    [("ok", 200), ("draining", 200), ("starting", 503), ("standby", 503), ("failing", 503)],
)
async def test_a_load_balancer_is_told_where_to_send_no_calls_and_a_supervisor_to_end_nobody(
    status: Any, code: int
) -> None:
    health = calls.Health(status=status, role="broker", name="npaci", version="1", store="hangs")
    deeds = Deeds()
    deeds.health = lambda caller, body: health  # type: ignore[method-assign]
    async with serving(deeds) as server:
        ready = await server.call("GET", "/readyz")
        well = await server.call("GET", "/healthz")
        assert (ready[0], well[0]) == (code, 200)
        assert ready[2] == well[2]
        assert (ready[2]["status"], ready[2]["store"]) == (status, "hangs")


async def test_metrics_count_calls_by_operation_and_status() -> None:
    async with serving() as server:
        await server.call("POST", "/v1/requests", json=BOOK)
        await server.call("POST", "/v1/requests", json={})
        await server.call("GET", "/a/path/that/is/not")
        async with server.client.get(server.url + "/metrics") as response:
            text = await response.text()
    assert 'kalends_calls_total{operation="book",status="200"} 1.0' in text
    assert 'kalends_calls_total{operation="book",status="400"} 1.0' in text
    assert 'kalends_calls_total{operation="none",status="404"} 1.0' in text
    assert 'kalends_call_seconds_count{operation="book"} 2.0' in text
    assert "kalends_calls_in_flight 0.0" in text
    assert "kalends_sessions 0.0" in text
    assert 'kalends_server_info{name="npaci",role="broker",version="1"} 1.0' in text


async def test_further_routes_get_problems_and_callers_too() -> None:
    async def peer(request: web.Request) -> web.Response:
        return web.Response(text=caller_of(request, "audit").principal.user)

    clock = ManualClock()
    routes = [web.get("/v1/peer", peer)]
    async with serving(authenticator=key_ring(), clock=clock, routes=routes) as server:
        check_problem(await server.call("GET", "/v1/peer"), 401, "not-authenticated")
        answer = await server.call("GET", "/v1/peer", headers=bearer(clock, "use"))
        check_problem(answer, 403, "not-allowed")
        headers = bearer(clock, "audit")
        async with server.client.get(server.url + "/v1/peer", headers=headers) as response:
            assert await response.text() == "anna"


def test_handlers_must_be_exactly_those_of_the_role() -> None:
    handlers = Deeds().handlers("site")
    del handlers["calendar"]
    with pytest.raises(ValueError, match="calendar"):
        build_application(
            role="site", name="sdsc", version=own_version("1"), handlers=handlers, authenticator=OpenAccess(),
            metrics=Metrics(role="site", name="sdsc", version="1"), logger=None,
        )  # type: ignore[call-arg]  # fmt: skip


async def test_a_request_in_flight_is_answered_at_a_stop_and_watchers_are_woken() -> None:
    deeds = Deeds()
    started, woken = asyncio.Event(), asyncio.Event()

    async def watch(caller: Caller, body: calls.Watch) -> calls.Answer:
        started.set()
        await woken.wait()
        return calls.Events(events=(), next=7)

    deeds.watch = watch  # type: ignore[method-assign]  # one deed is replaced
    async with serving(deeds, on_stop=woken.set) as server:
        asking = asyncio.create_task(server.call("POST", "/v1/watch", json={}))
        await started.wait()
        await server.stop()
        status, _, body = await asking
    assert (status, body["next"]) == (200, 7)


async def test_a_call_that_does_not_end_is_cut_off_at_a_stop(deeds: Deeds) -> None:
    started = asyncio.Event()

    async def watch(caller: Caller, body: calls.Watch) -> calls.Answer:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    deeds.watch = watch  # type: ignore[method-assign]  # one deed is replaced
    async with serving(deeds, limits=ServingLimits(drain_s_max=0.01)) as server:
        asking = asyncio.create_task(server.call("POST", "/v1/watch", json={}))
        await started.wait()
        await server.stop()
        with pytest.raises(aiohttp.ClientError):
            await asking
        assert "calls_cut_off" in server.log.getvalue()


async def test_the_server_of_each_role_answers_only_its_own_operations() -> None:
    async with serving(role="site") as server:
        assert isinstance(server, Server)
        check_problem(await server.call("POST", "/v1/requests", json=BOOK), 404, "not-found")
        answer = await server.call(
            "POST", "/v1/calendar", json={"resource": "sdsc/sp2", "start": 0, "end": 60}
        )
        assert answer[0] == 200
