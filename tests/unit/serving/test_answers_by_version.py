"""Clients of other versions are answered in what they know, over HTTP and on a session alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.pretended_features import pretended
from tests.support.serving_support import ANNA, Server, call, frame, replies, serving

from kalends.client.transports.transport import OLDER, error_from_server
from kalends.contract import calls
from kalends.contract.versions import ServerVersion, own_version, version_in
from kalends.core.errors import InvalidInput
from kalends.core.features import Feature

HEALTH = Feature("health", "the health of servers")
KNOWS = {"Kalends-Version": "2.0", "Kalends-Features": "health"}


@pytest.fixture(autouse=True)
def _features() -> Iterator[None]:
    with pretended({}, {calls.Health: HEALTH}):
        yield


async def by_session(server: Server, headers: dict[str, str]) -> object:
    url = server.url + "/v1/calls"
    async with server.client.ws_connect(url, headers={**ANNA, **headers}) as socket:
        await socket.send_bytes(frame(call(1, "health")))
        (reply,) = await replies(socket, 1)
    return (reply.get("answer") or reply["problem"]).get("status")


async def test_who_knows_enough_is_answered_and_others_are_told_what_they_lack() -> None:
    version = ServerVersion("3.0", frozenset({"health"}))
    async with serving(version=version) as server:
        status, headers, answer = await server.call("GET", "/healthz", headers=KNOWS)
        assert (status, answer["status"]) == (200, "ok")
        assert version_in(headers) == version
        status, _, problem = await server.call("GET", "/healthz")
        assert (status, problem["code"], problem["remedy"]) == (
            409, "conflict", "upgrade the client"
        )  # fmt: skip
        assert HEALTH.words in problem["detail"]
        assert await by_session(server, KNOWS) == "ok"
        assert await by_session(server, {}) == 409


async def test_a_version_that_makes_no_sense_is_a_problem() -> None:
    async with serving(version=own_version("3.0")) as server:
        bad = {"Kalends-Version": "<script>"}
        status, _, problem = await server.call("GET", "/healthz", headers=bad)
    assert (status, problem["where"]) == (400, "Kalends-Version")


async def test_a_field_that_a_server_does_not_know_is_refused_with_a_remedy() -> None:
    refused = InvalidInput("Object contains unknown field `shared`", where="request").to_problem()
    assert error_from_server(refused).remedy == OLDER
    other = InvalidInput("it must be at least 1", where="request", remedy="ask for one")
    assert error_from_server(other.to_problem()).remedy == "ask for one"
