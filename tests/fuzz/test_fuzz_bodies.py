"""Hostile requests on every route: broken and nearly right bodies, headers, paths, bytes that are no HTTP.

Always a problem that says what was wrong, never a 5xx, and nothing of the server's own in an answer.
"""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import quote

import msgpack
import pytest
from fuzz_servers import Answer, Facility, Server, check_answer
from fuzz_values import SCRAPS, TEXTS, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kalends.contract.calls import OPERATIONS, Operation
from kalends.core.limits import BODY_BYTES_MAX

pytestmark = pytest.mark.usefixtures("untouched")

RID = "01234567-89ab-7def-8123-456789abcdef"
REQUEST = {
    "alternatives": [
        {"terms": [{"resource": "alpha/cluster", "units": 2, "offset_s": -60}], "weight": 1.5},
        {"terms": [{"attributes": [{"name": "kind", "operator": "in", "value": ["a", 1]}]}]},
    ],
    "duration_s": 600,
    "not_before": 1_900_000_000,
    "not_after": 1_900_100_000,
    "preferences": [{"start": 0, "end": 60, "weight": 0.5}],
    "note": "a note",
}
SEEDS: dict[str, Any] = {
    "calendar": {"resource": "alpha/cluster", "start": 1_900_000_000, "end": 1_900_003_600},
    "find": {"request": REQUEST, "count": 2},
    "book": {
        "key": "fuzzed-key",
        "request": REQUEST,
        "hold": True,
        "hold_s": 60,
        "job": {"machine": "", "limit_s": 60, "command": ["true"]},
        "jobs": {"alpha/cluster": {"machine": "", "limit_s": 60, "command": ["show"]}},
        "wait_ms": 0,
    },
    "series_book": {
        "key": "fuzzed-series",
        "request": {
            "alternatives": [{"terms": [{"resource": "alpha/cluster"}]}],
            "duration_s": 600,
            "not_before": 1_900_000_000,
            "not_after": 1_900_000_600,
        },
        "rule": "FREQ=WEEKLY;BYDAY=TU,TH;COUNT=3",
        "zone": "Europe/Berlin",
        "mode": "as-many",
        "skip": ["2030-03-21"],
        "give_s": 1_800,
        "keep_going": True,
        "wait_ms": 0,
    },
    "series_find": {
        "request": REQUEST,
        "rule": "FREQ=WEEKLY;COUNT=3",
        "zone": "Europe/Berlin",
        "opens_s": 32_400,
        "closes_s": 64_800,
        "skip": ["2030-03-21"],
        "count": 2,
    },
    "series_retry": {"wait_ms": 0},
    "series_cancel": {"occurrence": "2030-03-19T18:46:40", "following": True, "wait_ms": 0},
    "series_change": {
        "key": "fuzzed-key",
        "what": "move",
        "occurrence": "2030-03-19T18:46:40",
        "following": True,
        "by_s": -1_800,
        "wait_ms": 0,
    },
    "by_key": {"key": "fuzzed-key"},
    "list": {"state": "held", "everyone": False, "count": 5, "before": RID},
    "lock": {"wait_ms": 0},
    "release": {"wait_ms": 0},
    "cancel": {"wait_ms": 0},
    "change": {"key": "change-key", "start": 60, "units": {"alpha/cluster": 2}, "wait_ms": 0},
    "watch": {"after": 0, "id": RID, "wait_ms": 0},
    "site_pass": {"site": "alpha"},
    "agent_upload": {"name": "mine", "source": "def choose(view, request):\n    return []\n"},
    "agent_delete": {},
    "notify_add": {"to": "http://127.0.0.1:1/x", "zone": "Europe/Berlin"},
    "notify_remove": {"to": "ann@example.org"},
    "book_for": {
        "user": "bob",
        "key": "fuzzed-named",
        "request": REQUEST,
        "hold": True,
        "wait_ms": 0,
    },
    "share": {"party": "user:bob", "may_change": True},
    "unshare": {"party": "group:optics"},
    "give": {"to": "bob", "days": 2},
    "accept": {"key": "accept-key", "wait_ms": 0},
    "decline": {},
    "link_add": {},
    "link_revoke": {},
    "feed_add": {"name": "phone"},
    "feed_revoke": {"name": "never-made"},
    "notify_test": {"to": "http://127.0.0.1:1/never-added"},
    "ids": {"part": RID[-8:]},
    "agent_tell": {"key": "tell-key", "message": '{"a": [1]}', "agent": "ready:latest"},
    "agent_runs": {"id": RID, "count": 5},
    "audit": {"after": RID},
    "bidders": {},
    "sites_list": {},
    "sites_announce": {"site": "beta", "card": "a.b.c"},
    "sites_add": {"site": "beta", "key": "k", "card": "a.b.c"},
    "sites_remove": {"site": "beta", "key": "k"},
    "drain": {"on": False},
    "reconcile": {"wait_ms": 0, "go_on": False},
    "reclaim": {
        "key": "reclaim-key",
        "resource": "alpha/cluster",
        "start": 1_900_000_000,
        "end": 1_900_003_600,
        "notice_s": 60,
        "reason": "a new pump",
        "units": 1,
        "dry_run": False,
    },
    "reclaim_end": {},
    "check_in": {"id": RID},
    "close": {
        "key": "closure-key",
        "resources": ["alpha/cluster"],
        "start": 1_900_000_000,
        "end": 1_900_003_600,
        "standing": "keep",
        "reason": "a flood",
        "dry_run": False,
    },
    "open": {"key": "closure-key"},
    "today": {"day": "2027-03-01", "zone": "Europe/Berlin"},
    "credits_grant": {
        "key": "grant-key",
        "account": "user:anna",
        "amount": 3_600_000,
        "note": "term",
    },
    "credits": {},
    "credit_entries": {"account": "user:anna"},
    "approvals": {},
    "approval_decide": {"approve": True, "revision": 1, "word": "with care"},
    "job_place_elsewhere": {"key": "elsewhere-key", "wait_ms": 0},
    "job_place": {
        "key": "place-key",
        "by_limits": True,
        "job": {
            "machine": "",
            "nodes": 2,
            "limit_s": 600,
            "command": ["/bin/true", "one"],
            "environment": {"ONE": "1"},
        },
        "on": [{"name": "memory", "operator": ">=", "value": 64}],
        "end_by": 0,
        "prefer": [
            {
                "attributes": [{"name": "site", "operator": "=", "value": "alpha"}],
                "worth_s": 600,
            }
        ],
        "homes": ["alpha"],
        "pick": "def pick(bids):\n    return bids[0]['machine']\n",
        "rank": "def rank(schedules, machine):\n    return 0\n",
        "data": [{"site": "alpha", "size_mb": 1.5}],
        "implementations": [
            {"name": "wide", "sizes": [2, 4], "limits_s": [600, 300], "command": ["/bin/true"]},
            {
                "name": "fast",
                "needs": [{"name": "kind", "operator": "=", "value": "press"}],
                "sizes": [1],
                "limits_s": [60],
                "speed": "gflops",
                "script": "#!/bin/sh\n",
            },
        ],
        "wait_ms": 0,
    },
    "jobs_submit": {
        "key": "many-key",
        "machine": "alpha/press",
        "first": 1,
        "jobs": [{"machine": "alpha/press", "limit_s": 60, "command": ["true"]}],
    },
    "job_submit": {
        "key": "job-key",
        "job": {
            "machine": "alpha/press",
            "nodes": 2,
            "sizes": [1, 2, 4],
            "limit_s": 600,
            "command": ["/bin/true", "one"],
            "environment": {"ONE": "1"},
            "indices": [1, 2],
            "after": [{"job": 1, "happened": "ended"}],
            "output": "out.%j",
            "reservation": "0190a3c2-7c1e-7d20-8f00-3b1d5a9e4c77",
            "warning": {"before_s": 60, "signal": "USR1"},
            "notify": {"when": ["begin", "fail"], "to": "root@alpha.example", "each": True},
        },
    },
    "jobs": {"machine": "alpha/press", "state": "over", "everyone": True, "count": 5, "before": 9},
    "job": {"machine": "alpha/press", "job": 1},
    "job_watch": {
        "machine": "alpha/press",
        "job": 1,
        "phase": "queued",
        "attempt": 1,
        "expected": 1_900_000_000,
        "wait_ms": 0,
    },
    "jobs_watch": {"machine": "alpha/press", "life": "0", "after": 3, "wait_ms": 0},
    "job_change": {"machine": "alpha/press", "job": 1, "what": "hold"},
    "job_output": {
        "machine": "alpha/press",
        "job": 1,
        "stream": "error",
        "offset": 10,
        "wait_ms": 0,
    },
    "job_usage": {"machine": "alpha/press", "start": 1_900_000_000, "end": 1_900_003_600},
    "slots": {
        "machine": "alpha/press",
        "start": 0,
        "end": 1_900_003_600,
        "everyone": True,
        "count": 5,
        "after_s": 3,
        "after_name": "kal.alpha.00000000-1",
    },
    "job_history": {
        "machine": "alpha/press",
        "start": 0,
        "end": 1_900_003_600,
        "by": "submitted",
        "everyone": True,
        "count": 5,
        "after_s": 9,
        "after_job": 9,
    },
    "machine_plan": {"machine": "alpha/press"},
    "machine_gaps": {"machine": "alpha/press"},
    "machine_delays": {
        "machine": "alpha/press",
        "nodes": 1,
        "length_s": 60,
        "starts": [1_800_000_000],
    },
    "machine_nodes": {
        "machine": "alpha/press",
        "what": "resume",
        "nodes": [0, 1],
        "detail": "a fan",
    },
    "machine_replan": {"machine": "alpha/press"},
    "host_lost": {"host": "elsewhere", "machine": "alpha/press"},
    "machine_policy": {"machine": "alpha/press", "policy": "conservative"},
}
CASES = [
    pytest.param(role, operation, id=f"{role}-{operation.name}")
    for operation in OPERATIONS
    for role in operation.roles
]
POSTS = [case for case in CASES if case.values[1].method == "POST"]

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)


def server_of(place: Facility, role: str) -> Server:
    return place.of(role)


def send(
    place: Facility, server: Server, method: str, path: str, body: bytes = b"", **headers: str
) -> Answer:
    """As mallory, with every scope that a person can have; the answer is a proper one."""
    given = place.headers("mallory", server, "use", "audit", "admin")
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    answer = server.call(method, path, body, given)
    check_answer(place, answer, given)
    if answer.status == 200 and (method, path) in (
        ("POST", "/v1/requests"),
        ("POST", "/v1/series"),
    ):
        place.accept(answer)
    if answer.status == 200 and path == "/v1/drain":
        server.post("/v1/drain", {"on": False}, given)
    return answer


def path_of(operation: Operation) -> str:
    return operation.path.format(id=RID, name="mine", run="17", key="reclaim-key", site="beta")


def quick(value: Any) -> Any:
    """`value`, made not to wait for minutes where it happens to be valid."""
    if isinstance(value, dict):
        wait_ms = value.get("wait_ms", 1)
        if type(wait_ms) in (int, float) and 0 < wait_ms <= 120_000:
            value["wait_ms"] = 0
    return value


@pytest.mark.parametrize(("role", "operation"), POSTS)
@SHARED
@given(data=st.data())
def test_a_body_that_is_nearly_right_is_taken_or_refused(
    role: str, operation: Operation, place: Facility, data: st.DataObject
) -> None:
    value = quick(data.draw(mutated(SEEDS[operation.name])))
    server = server_of(place, role)
    as_json = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    send(place, server, "POST", path_of(operation), as_json, Content_Type="application/json")
    packed = msgpack.packb(value)
    kind = "application/msgpack"
    send(place, server, "POST", path_of(operation), packed, Content_Type=kind, Accept=kind)


@pytest.mark.parametrize(("role", "operation"), POSTS)
def test_a_broken_body_is_refused_in_either_form(
    role: str, operation: Operation, place: Facility
) -> None:
    harmless = {b"", b"{}", b"\x80", b"\xef\xbb\xbf{}"}
    refused = [scrap for scrap in SCRAPS if scrap not in harmless]
    # An empty watch is a right one, and waits.
    for scrap in refused if operation.name == "watch" else SCRAPS:
        for kind in ("application/json", "application/msgpack"):
            answer = send(place, server_of(place, role), "POST", path_of(operation), scrap,
                          Content_Type=kind)  # fmt: skip
            assert answer.status >= 400 or scrap in harmless, (scrap, answer)


@pytest.mark.parametrize("key", ["resource", "start", "__class__", "constructor"])
def test_a_field_that_is_given_twice_never_breaks_a_call(key: str, place: Facility) -> None:
    body = b'{"resource":"alpha/cluster","start":0,"end":60,"' + key.encode() + b'":"alpha/vault"}'
    kind = "application/json"
    send(place, place.sites[0], "POST", "/v1/calendar", body, Content_Type=kind)


@pytest.mark.parametrize("size", [BODY_BYTES_MAX + 1, 4 * BODY_BYTES_MAX])
@pytest.mark.parametrize("role", ["site", "broker"])
def test_a_body_beyond_the_limit_is_too_large(role: str, size: int, place: Facility) -> None:
    body = b'{"after":"' + b"a" * size + b'"}'
    answer = send(place, server_of(place, role), "POST", "/v1/audit", body)
    assert (answer.status, answer.problem().code) == (413, "too-large")


@pytest.mark.parametrize("role", ["site", "broker"])
@pytest.mark.parametrize(
    ("kind", "status"),
    [("text/plain", 415), ("application/xml", 415), ("application/json; charset=utf-16", 415),
     ("multipart/form-data; boundary=a", 415), ("application/x-www-form-urlencoded", 415),
     ("application/jsön", 415), (";;;", 415), ("a" * 4_000, 415), ("application/msgpack", 400)],
)  # fmt: skip
def test_a_body_of_another_type_is_refused(
    role: str, kind: str, status: int, place: Facility
) -> None:
    answer = send(place, server_of(place, role), "POST", "/v1/audit", b'{"after":""}',
                  Content_Type=kind.encode().decode("latin-1"))  # fmt: skip
    assert answer.status == status


HEADERS = [
    ("Accept", "text/html"), ("Accept", "application/json;q=nan"), ("Accept", ",,,;q=;;"),
    ("Accept", "*/*;q=0"), ("Accept", "a" * 7_000), ("Accept", "application/msgpack;q=1e999"),
    ("Content-Encoding", "gzip"), ("Content-Encoding", "deflate, br"), ("Content-Encoding", "\xff"),
    ("Expect", "200-maybe"), ("Range", "bytes=0-1"), ("If-Match", '"a"'), ("TE", "trailers"),
    ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Upgrade", "h2c"),
    ("X-Forwarded-For", "127.0.0.1"), ("X-HTTP-Method-Override", "DELETE"), ("Cookie", "a=b; " * 500),
    ("Kalends-User", "root"), ("Kalends-Groups", "staff"), ("Kalends-User", ""),
    ("Kalends-User", "\xe9\xff"), ("Kalends-Groups", ",".join("abcdefgh" for _ in range(200))),
    ("Kalends-User", "a" * 500), ("Authorization", "Bearer"), ("Authorization", "Bearer a.b.c"),
    ("Authorization", "Basic cm9vdDpyb290"), ("Authorization", "Bearer " + "a" * 7_900),
    ("Authorization", "Bearer eyJhbGciOiJub25lIn0.e30."), ("Authorization", "\xff\xfe"),
    ("Authorization", "Bearer eyJhbGciOiJFZERTQSIsImtpZCI6W119.e30.AAAA"),
    ("Authorization", "Bearer " + "eyJhbGciOiJFZERTQSIsImNyaXQiOlsiYSJdfQ" + ".e30.AAAA"),
    ("Host", ""), ("Host", "evil.example"), ("Host", "[::1"), ("Host", "127.0.0.1:99999999"),
]  # fmt: skip


@pytest.mark.parametrize("role", ["site", "broker"])
@pytest.mark.parametrize(("name", "value"), HEADERS, ids=range(len(HEADERS)))
def test_a_strange_header_is_ignored_or_refused(
    role: str, name: str, value: str, place: Facility
) -> None:
    server = server_of(place, role)
    headers = {name.replace("-", "_"): value}
    send(place, server, "GET", "/v1/resources", **headers)
    send(place, server, "POST", "/v1/audit", b'{"after":""}', **headers)


PATHS = [
    "/", "//", "/v1", "/v1/", "/v1/nothing", "/v1/requests/", "/v1/requests/%00", "/v1/requests/%",
    "/v1/requests/%zz", "/v1/requests/%ff%fe", "/v1/requests/%2e%2e%2f", "/v1/requests/../audit",
    "/v1/requests/..%2f..%2fetc%2fpasswd", f"/v1/requests/{RID}%0a", f"/v1/requests/{RID}/",
    f"/v1/requests/{RID}/nothing", f"/v1/requests/{RID.upper()}", "/v1/requests/" + "a" * 4_000,
    f"/v1/requests/{RID}?id={RID}", "/v1/requests/x?a=%00", "/v1/resources?a=1&a=2",
    "/v1/resources?%00", "/v1/resources?" + "a=1&" * 1_000, "/v1/resources?a=%ed%a0%80",
    "/v1/resources#a", "/v1/requests/%C0%AF", "/v1/requests/😀".encode().decode("latin-1"),
    "/v1/requests/by-key", "/v1/requests/list", "/healthz?a=b", "http://evil.example/v1/resources",
    "/v1/audit?x=1", "/metrics/", "/v1/openapi.json/x", "/v1/calls", "/v1/session",
    "/v1/terminals",
]  # fmt: skip


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO"]
)
def test_a_strange_path_or_method_is_refused(method: str, place: Facility) -> None:
    for role in ("site", "broker"):
        server = server_of(place, role)
        for path in PATHS:
            raw = _request_line(method, path, place.headers("mallory", server, "use"))
            answer = exchange(server, raw)
            assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200", b"HTTP/1.0 400")), (
                path,
                answer,
            )
            assert b"Traceback" not in answer


@settings(SHARED, max_examples=40)
@given(text=st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8"), max_size=30))
def test_no_text_as_an_id_is_more_than_refused(place: Facility, text: str) -> None:
    for tail in ("", "/why"):
        answer = send(place, place.broker, "GET", f"/v1/requests/{quote(text, safe='')}{tail}")
        assert answer.status in (400, 404, 405), answer


BROKEN = [
    b"\r\n\r\n", b"\0" * 64, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/audit HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST /v1/audit HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /v1/audit HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/audit HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", b"GET / HTTP/1.1\r\nA\0: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", b"GET /\x80\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("raw", BROKEN, ids=range(len(BROKEN)))
def test_bytes_that_are_no_http_are_refused_and_the_server_goes_on(
    raw: bytes, place: Facility
) -> None:
    for server in (place.sites[0], place.broker):
        answer = exchange(server, raw, then_end=True)
        assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer
        assert b"Traceback" not in answer
        assert str(place.directory).encode() not in answer
        assert server.call("GET", "/healthz").value()["status"] == "ok"


def exchange(server: Server, raw: bytes, *, then_end: bool = False) -> bytes:
    """What the server says to these bytes, up to the end of its answer's headers or of the line.

    `then_end` tells it that no more will come.
    """
    answer = b""
    with socket.create_connection(("127.0.0.1", server.port), 20) as line:
        try:
            line.sendall(raw)
            if then_end:
                line.shutdown(socket.SHUT_WR)
            while b"\r\n\r\n" not in answer:
                chunk = line.recv(65_536)
                if not chunk:
                    break
                answer += chunk
        except (BrokenPipeError, ConnectionResetError):
            pass  # It answered before it had read everything, and closed.
    return answer


def _request_line(method: str, path: str, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
