"""Calls that a server does not have, and another kind of server would: who asks is told whom to ask."""

from __future__ import annotations

import re

import pytest

from kalends.contract.calls import OPERATIONS, Operation, Role
from kalends.serving.http.misdirected import Misdirected


def called(operation: Operation) -> str:
    """Return a path of the operation, with something in its fields."""
    return re.sub(r"\{[a-z]+\}", "019aa0f1", operation.path)


@pytest.mark.parametrize("role", ["site", "broker", "virtual"])
def test_what_another_kind_of_server_has_is_said_to_be_for_that(role: Role) -> None:
    others = [each for each in OPERATIONS if role not in each.roles]
    assert others
    for operation in others:
        server = Misdirected(role, "sdsc")
        told = "broker" if role == "virtual" else operation.roles[0]
        for error in (
            server.path(operation.method, called(operation)),
            server.call(operation.name, ()),
        ):
            assert error.detail.startswith(f"sdsc is a {role}"), operation.name
            assert f"ask a {told}" in error.remedy, operation.name


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1/requests/a/b/c", "/", "/v1/resources/", "/v1/resource."]
)
def test_what_nobody_has_is_no_path(path: str) -> None:
    assert Misdirected("virtual", "midwest").path("GET", path).detail == "no such path"


def test_of_what_no_server_has_the_calls_here_are_told() -> None:
    error = Misdirected("broker", "npaci").call("nothing", ["find", "book"])
    assert (error.detail, error.remedy) == (
        "there is no call 'nothing' here",
        "the calls are find, book",
    )
