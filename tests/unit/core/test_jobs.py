"""Job requests that can never be right are refused in words that tell their user what to do."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.core.errors import InvalidInput
from kalends.core.job_paths import named_path
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


@pytest.mark.parametrize("where", ["output", "error"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("out-%A_%a.txt", "%A in 'out-%A_%a.txt' is not a known sign"),
        ("%x.txt", "%x in '%x.txt' is not a known sign"),
        ("%02j.txt", "%02j in '%02j.txt' is not a known sign"),
        ("%%%N", "%N in '%%%N' is not a known sign"),
        ("100%", "a % ends '100%'"),
        ("out.$JOB_ID", "the variable $JOB_ID in 'out.$JOB_ID' is not replaced there"),
        ("${HOME}/out", "the variable ${HOME} in '${HOME}/out' is not replaced there"),
    ],
)
def test_an_unknown_sign_of_an_output_path_is_refused_with_the_known_ones(
    where: str, path: str, said: str
) -> None:
    error = refused(**{where: path}, indices=(1, 2))
    assert (error.where, error.detail) == (where, said)
    assert all(sign in error.remedy for sign in ("%j", "%a", "%u", "%%"))


def test_the_sign_of_an_index_needs_an_array() -> None:
    assert "this job is not an array" in refused(output="out-%a").detail
    JobRequest(
        machine="lab/box", limit_s=60, command=("true",), output="%j-%a-%u-100%%", indices=(1, 2)
    ).check()


@pytest.mark.parametrize("where", ["directory", "input"])
def test_a_sign_in_a_path_that_has_none_is_refused(where: str) -> None:
    error = refused(**{where: "run-%j"})
    assert (error.where, "%j in 'run-%j' is not replaced" in error.detail) == (where, True)
    JobRequest(machine="lab/box", limit_s=60, command=("true",), **{where: "/data/50%/a"}).check()


def test_each_sign_is_replaced_once_and_nothing_in_what_replaces_it() -> None:
    assert named_path("%j-%a-%u-%%j", 17, 3, "ann") == "17-3-ann-%j"
    assert named_path("%j", 17, None, "ann") == "17"
