"""Hostile questions between sites and brokers: without the secret nobody learns or changes anything."""

from __future__ import annotations

import time
from typing import Any

import msgpack
import pytest
from fuzz_servers import Answer, Facility, Server, check_answer
from fuzz_values import SCRAPS, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("untouched")

SECRET = "0123456789abcdef" * 2
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)


def annas(place: Facility) -> list[dict[str, Any]]:
    """Anna's requests as the register has them."""
    answer = place.broker.post("/v1/audit", {}, place.headers("auditor", place.broker, "audit"))
    listed = place.broker.post("/v1/requests/list", {}, place.headers("anna", place.broker))
    mine = {each["id"] for each in listed.value()["requests"]}
    return [record for record in answer.value()["records"] if record["id"] in mine]


def targets(place: Facility, rid: str, att: int) -> list[tuple[Server, str, dict[str, Any]]]:
    about = {"rid": rid, "att": att, "site": "alpha", "secret": SECRET}
    asks = [(site, "/v1/peers", {"kind": "peerask", **about, "until": 1_900_000_000})
            for site in place.sites]  # fmt: skip
    return [*asks, (place.broker, "/v1/inquire", {"kind": "inquire", **about})]


def post(place: Facility, server: Server, path: str, body: bytes, **headers: str) -> Answer:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = server.call("POST", path, body, given)
    # All fuzzing is of one stranger to these servers, who may have to wait for a second.
    while answer.status == 429:
        time.sleep(int(answer.headers["retry-after"]))
        answer = server.call("POST", path, body, given)
    check_answer(place, answer, given)
    return answer


def test_a_wrong_secret_learns_nothing_and_changes_nothing(place: Facility) -> None:
    before = place.state()
    for record in annas(place):
        for att in (record["att"], record["att"] + 1, 1_000_000):
            for server, path, message in targets(place, record["id"], att):
                took_part = any(
                    claim["id"] == record["id"] for claim in before.get(f"{server.name} claims", [])
                )
                if server.role == "broker" or took_part:
                    answer = post(place, server, path, msgpack.packb(message))
                    assert (answer.status, answer.problem().code) == (403, "not-allowed")
    assert place.state() == before


def test_a_broken_question_is_refused(place: Facility) -> None:
    for server, path, _ in targets(place, "", 1):
        for scrap in SCRAPS:
            if path == "/v1/peers" and server is not place.sites[0]:
                continue
            answer = post(place, server, path, scrap)
            assert answer.status in (400, 413, 429), (scrap, answer)


@SHARED
@given(data=st.data())
def test_a_question_that_is_nearly_right_is_refused_or_answered(
    place: Facility, data: st.DataObject
) -> None:
    server, path, message = data.draw(
        st.sampled_from(targets(place, "01234567-89ab-7def-8123-456789abcdef", 1))
    )
    post(place, server, path, msgpack.packb(data.draw(mutated(message))))
