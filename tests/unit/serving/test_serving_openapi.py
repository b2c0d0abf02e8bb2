"""The OpenAPI document: valid, complete, and true of a running server (driven by schemathesis)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from serving_support import Deeds, serving

from kalends.contract.calls import OPERATIONS
from kalends.serving.auth.callers import SCOPES, OpenAccess
from kalends.serving.auth.keys import generate_key
from kalends.serving.auth.public_keys import KeyTerms, TrustedKey, key_id
from kalends.serving.auth.tokens import KeyRing, mint
from kalends.serving.clocks import SystemClock
from kalends.serving.http.dispatch import Role
from kalends.serving.http.openapi import build
from kalends.serving.http.rate_limits import ServingLimits

KEY = generate_key()
RING = KeyRing(
    [TrustedKey(KEY.public_key(), key_id(KEY.public_key()), KeyTerms("", frozenset(SCOPES)))],
    "npaci",
)
DOCUMENT = build("broker", "npaci", "1", RING)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
SCHEMA.config.phases.coverage.enabled = False  # Exhaustive cases: for tests/fuzz.


@schemathesis.serializer("application/msgpack")
def _as_messagepack(context: Any, value: Any) -> bytes:
    """Lets the driver send MessagePack too; what it cannot carry becomes bytes that are never valid."""
    try:
        return bytes(msgpack.packb(value))
    except (OverflowError, TypeError, ValueError):
        return b"\xc1"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A broker in a thread of its own: the driver calls it like any other client."""
    loop = asyncio.new_event_loop()
    ready: list[str] = []
    up, stop = threading.Event(), asyncio.Event()
    unhurried = ServingLimits(calls_burst=1_000_000)

    async def live() -> None:
        async with serving(Deeds(), authenticator=RING, limits=unhurried) as server:
            ready.append(server.url)
            up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(live(),))
    thread.start()
    assert up.wait(30)
    yield ready[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


@pytest.mark.parametrize("role", ["site", "broker"])
def test_the_document_is_valid_openapi(role: Role) -> None:
    schemathesis.openapi.from_dict(build(role, "x", "1", OpenAccess())).validate()


@pytest.mark.parametrize("role", ["site", "broker"])
def test_every_operation_of_the_role_is_described_and_no_other(role: Role) -> None:
    described = {
        (method.upper(), path, operation["operationId"])
        for path, methods in build(role, "x", "1", OpenAccess())["paths"].items()
        for method, operation in methods.items()
    }
    expected = {(o.method, o.path, o.name) for o in OPERATIONS if role in o.roles}
    assert described == expected


def test_every_reference_leads_somewhere() -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    for reference in references(DOCUMENT):
        found: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]


def test_path_fields_are_parameters_and_leave_the_body() -> None:
    cancel = DOCUMENT["paths"]["/v1/requests/{id}/cancel"]["post"]
    assert [(p["name"], p["in"]) for p in cancel["parameters"]] == [("id", "path")]
    body = cancel["requestBody"]["content"]["application/json"]["schema"]
    assert list(body["properties"]) == ["wait_ms"]
    assert cancel["requestBody"]["required"] is False
    assert DOCUMENT["paths"]["/v1/requests"]["post"]["requestBody"]["required"] is True


def test_the_way_in_is_described_with_the_scope_that_each_operation_needs() -> None:
    assert DOCUMENT["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert DOCUMENT["paths"]["/v1/audit"]["post"]["security"] == [{"token": ["audit"]}]
    assert DOCUMENT["paths"]["/healthz"]["get"]["security"] == []
    by_name = build("broker", "npaci", "1", OpenAccess())
    assert by_name["components"]["securitySchemes"]["user"]["name"] == "Kalends-User"


def test_the_server_serves_its_document(url: str) -> None:
    answer = requests.get(url + "/v1/openapi.json", timeout=30)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json() == json.loads(json.dumps(DOCUMENT))


@SCHEMA.parametrize()
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_what_is_sent_by_the_document_is_taken_and_answered_by_the_document(
    case: schemathesis.Case, url: str
) -> None:
    token = mint(
        KEY, user="anna", groups=[], audience=["npaci"], scopes=sorted(SCOPES), issuer="",
        lifetime_s=3_600, now_s=SystemClock().wall_s(),
    )  # fmt: skip
    case.call_and_validate(base_url=url, headers={"Authorization": f"Bearer {token}"})
