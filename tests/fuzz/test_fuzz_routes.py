"""Every route of a site and of a broker, driven by its own OpenAPI document, in both forms.

The document says what is right and what is wrong; real servers must take the one, refuse the other,
and answer as the document says. Whatever is refused has changed nothing.
"""

from __future__ import annotations

import unittest
from typing import Any

import msgpack
import pytest
import schemathesis
from fuzz_servers import Answer, Facility, Server, check_answer
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core import NOT_SET
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis.builder import (
    InvalidHeadersExampleMark,
    InvalidRegexMark,
    MissingPathParameters,
    NonSerializableMark,
)
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.schemas import APIOperation, BaseSchema
from tests.support.patience import PATIENCE_S

from kalends.serving.auth.callers import OpenAccess
from kalends.serving.http.dispatch import Role
from kalends.serving.http.openapi import build


def _schema(role: Role) -> schemathesis.openapi.OpenApiSchema:
    """The document without the way in, which is tested by itself (`test_fuzz_authorisation`)."""
    document = build(role, role, "1", OpenAccess())
    del document["components"]["securitySchemes"]
    for methods in document["paths"].values():
        for operation in methods.values():
            del operation["security"]
    schema = schemathesis.openapi.from_dict(document)
    schema.config.checks.negative_data_rejection.expected_statuses = REFUSALS
    return schema


REFUSALS = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "429"]
"""What is too long for its field may be too long for any body (413), which is looked at first."""

SITE = _schema("site")
BROKER = _schema("broker")

LEFT_OUT = {"positive_data_acceptance"}
"""What is well-formed may still be refused: no such request, no such resource, no time in common."""

WAIT_MS_MAX = 120_000

pytestmark = pytest.mark.usefixtures("untouched")

FEW = settings(
    max_examples=8, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate],
)  # fmt: skip


@schemathesis.serializer("application/msgpack")
def as_messagepack(context: Any, value: Any) -> bytes:
    """Lets the driver send MessagePack too; what it cannot carry becomes bytes that are never valid."""
    try:
        return bytes(msgpack.packb(value))
    except (OverflowError, TypeError, ValueError):
        return b"\xc1"


def _waits(wait_ms: Any) -> bool:
    """Whether `wait_ms` is a valid wait: tests have no time for it."""
    whole = isinstance(wait_ms, int) or (isinstance(wait_ms, float) and wait_ms.is_integer())
    return whole and wait_ms is not True and 0 < wait_ms <= WAIT_MS_MAX


LEFT_UNTRIED = (
    InvalidHeadersExampleMark, InvalidRegexMark, MissingPathParameters, NonSerializableMark,
)  # fmt: skip
"""What schemathesis notes where it cannot think of all cases."""


def operations(schema: BaseSchema) -> list[pytest.param]:
    return [pytest.param(found.ok(), id=found.ok().label) for found in schema.get_all_operations()]


def drive_all(
    schema: BaseSchema, operation: APIOperation[Any, Any, Any], place: Facility, server: Server
) -> None:
    """Think of the cases of `operation`, and drive each.

    Schemathesis's plugin would do so where tests are collected: seconds in each process that runs some.
    """
    load_all_checks()
    feedback = FeedbackSources(constants_value_source=make_constants_value_source(schema))
    cases = build_operation_test(
        config=schema.config, operation=operation, test_func=drive, given_kwargs={}, feedback=feedback
    )  # fmt: skip
    try:
        cases(place=place, server=server)
    except unittest.SkipTest as nothing_tried:
        raise AssertionError(f"{operation.label}: {nothing_tried}") from nothing_tried
    assert [mark for mark in LEFT_UNTRIED if mark.is_set(cases)] == []


@FEW
def drive(case: schemathesis.Case, place: Facility, server: Server) -> None:
    """Send `case` as mallory, who owns nothing, and look at the answer and at everyone's bookings."""
    if isinstance(case.body, dict) and _waits(case.body.get("wait_ms", WAIT_MS_MAX)):
        case.body["wait_ms"] = 0
    elif case.body is NOT_SET and case.operation.label == "POST /v1/watch":
        return  # It is right, and waits for half a minute.
    headers = place.headers("mallory", server, "use", "audit", "admin")
    response = case.call(base_url=server.url, headers=headers, timeout=PATIENCE_S)
    names = {name.lower(): ", ".join(values) for name, values in response.headers.items()}
    answer = Answer(response.status_code, names, response.content)
    check_answer(place, answer, headers)
    checks = [check for check in CHECKS.get_all() if check.__name__ not in LEFT_OUT]
    case.validate_response(response, checks=checks)
    if answer.status == 200 and case.operation.label in ("POST /v1/requests", "POST /v1/series"):
        place.accept(answer)
    if answer.status == 200 and case.operation.label == "POST /v1/drain":
        server.post("/v1/drain", {"on": False}, headers)


@pytest.mark.parametrize("operation", operations(SITE))
def test_a_site_answers_as_its_document_says(operation: Any, facilities: Any) -> None:
    drive_all(SITE, operation, facilities["tokens"], facilities["tokens"].sites[0])


@pytest.mark.parametrize("operation", operations(BROKER))
def test_a_broker_answers_as_its_document_says(operation: Any, facilities: Any) -> None:
    drive_all(BROKER, operation, facilities["tokens"], facilities["tokens"].broker)
