"""Job requests that can never be right are refused in words that tell their user what to do."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest


def refused(**fields: Any) -> InvalidInput:
    given = {"machine": "lab/box", "limit_s": 60, "command": ("true",), **fields}
    with pytest.raises(InvalidInput) as raised:
        JobRequest(**given).check()
    return raised.value


def test_a_script_with_the_line_ends_of_windows_is_refused_before_no_interpreter_is_found() -> None:
    error = refused(command=(), script="#!/bin/sh\r\ntrue\r\n")
    assert (error.where, "dos2unix" in error.remedy) == ("script", True)
    JobRequest(machine="lab/box", limit_s=60, script="#!/bin/sh\necho\r\n").check()


def test_limits_and_sizes_that_do_not_match_are_told_by_their_numbers() -> None:
    sizes = {"sizes": (2, 4, 8), "nodes": 2, "limit_s": 120}
    assert refused(**sizes, limits_s=(60, 120)).detail == "2 limits for 3 sizes"
    wrong = refused(**sizes, limits_s=(60, 30, 20))
    assert wrong.detail == "the longest limit is not limit_s, which is 120"


@pytest.mark.parametrize(
    ("fields", "where", "detail"),
    [
        ({"name": "x" * 129}, "name", "it has more than 128 characters"),
        ({"command": ("x" * 4097,)}, "command[0]", "it has more than 4096 characters"),
        ({"command": ("x",) * 257}, "command", "it has more than 256 entries"),
    ],
)
def test_what_is_too_long_is_told_in_words(fields: dict[str, Any], where: str, detail: str) -> None:
    error = refused(**fields)
    assert (error.where, error.detail) == (where, detail)
