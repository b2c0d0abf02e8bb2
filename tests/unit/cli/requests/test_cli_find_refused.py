"""A search that finds nothing tells the same reason, with the same exit code, as a booking would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from kalends.cli import cli
from kalends.testing import LocalFacility

WHEN = ("--for", "1h", "--after", "now+1h", "--before", "now+3h")


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalFacility]:
    with LocalFacility({"lab": {"scope": 1}, "mill": {"saw": 2}}) as servers:
        servers.stop("mill")
        yield servers


def run(servers: LocalFacility, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--broker", servers.url("broker"), "--user", "ann", *words])


@pytest.mark.parametrize(
    ("request_text", "code", "told"),
    [
        ("lab/scope + mill/saw", 75, "a site cannot be reached"),
        ("mill/saw", 75, "a site cannot be reached"),
        ("lab/scope:2", 2, "more units than the resource has"),
    ],
)
def test_a_search_that_finds_nothing_ends_as_a_booking_does(
    servers: LocalFacility, request_text: str, code: int, told: str
) -> None:
    found = run(servers, "find", request_text, *WHEN)
    assert (found.exit_code, told in found.stderr) == (code, True)
    assert run(servers, "--json", "find", request_text, *WHEN).exit_code == code
    booked = run(servers, "book", request_text, *WHEN, "--no-wait")
    assert (booked.exit_code, told in booked.stderr) == (code, True)


def test_a_window_that_is_taken_has_no_common_time(servers: LocalFacility) -> None:
    taken = run(servers, "book", "lab/scope", "--for", "3h", "--at", "now")
    assert taken.exit_code == 0
    found = run(servers, "find", "lab/scope", *WHEN)
    assert (found.exit_code, "no common time in this window" in found.stderr) == (5, True)
