"""What is told of a request whose job was left to a broker."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from msgspec import structs

from kalends.cli import cli
from kalends.cli.requests.request_texts import listing, placed_text, request_lines
from kalends.cli.resources import site_lines
from kalends.contract.calls import (
    PlacedEnd,
    PlacedJob,
    RequestState,
    RequestView,
    Resources,
    SiteStatus,
)

PLACED = PlacedJob(machine="ctc/sp2", number=412, start_by=1_800_000_000, late_start=1_800_000_000)


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("reserved", "job      ctc/sp2/412, starts by Fri 2027-01-15 08:00:00 UTC (UTC+00:00)"),
        ("cancelled", "job      ctc/sp2/412"),
    ],
)
def test_a_start_is_told_only_while_it_is_promised(state: RequestState, line: str) -> None:
    view = RequestView(
        id="0" * 36, state=state, user="ann", text="a job", created_at=1, placed=PLACED
    )
    assert f"  {line}" in request_lines(view, ZoneInfo("UTC"))


def test_other_places_are_told_until_it_has_started_at_one() -> None:
    also = PlacedJob(machine="sdsc/sp2", number=7)
    assert placed_text(structs.replace(PLACED, also=(also,)), ZoneInfo("UTC")).endswith(
        "; also waits as sdsc/sp2/7"
    )


@pytest.mark.parametrize(
    ("ended", "words", "state"),
    [
        (
            PlacedEnd(at=1_800_000_000, end="exit", ran_s=720),
            "ended Fri 2027-01-15 08:00:00 UTC (UTC+00:00) after 12m: exit", "ended",
        ),
        (
            PlacedEnd(at=1_800_000_000, end="exit", status=3, ran_s=720),
            "ended Fri 2027-01-15 08:00:00 UTC (UTC+00:00) after 12m: exit 3", "ended: exit 3",
        ),
        (
            PlacedEnd(at=1_800_000_000, end="limit", ran_s=3_600),
            "ended Fri 2027-01-15 08:00:00 UTC (UTC+00:00) after 1h: limit", "ended: limit",
        ),
        (
            PlacedEnd(at=1_800_000_000, end="withdrawn"),
            "was withdrawn Fri 2027-01-15 08:00:00 UTC (UTC+00:00)", "ended: withdrawn",
        ),
        (
            PlacedEnd(at=1_800_000_000, end="not-started", ran_s=1),
            "could not be started Fri 2027-01-15 08:00:00 UTC (UTC+00:00); kalends job ctc/sp2/412 shows why",
            "ended: not-started",
        ),
    ],
)  # fmt: skip
def test_of_a_job_that_has_ended_it_is_told_how_in_full_and_in_lists(
    ended: PlacedEnd, words: str, state: str
) -> None:
    view = RequestView(
        id="0" * 36, state="reserved", user="ann", text="a job", created_at=1,
        placed=structs.replace(PLACED, ended=ended),
    )  # fmt: skip
    told = f"  job      ctc/sp2/412, {words}"
    assert told in request_lines(view, ZoneInfo("UTC"))
    cancelled = structs.replace(view, state="cancelled")
    assert told in request_lines(cancelled, ZoneInfo("UTC"))
    assert f" {state} " in listing([view], ZoneInfo("UTC"))[1]
    assert " cancelled " in listing([cancelled], ZoneInfo("UTC"))[1]


@pytest.mark.parametrize(
    ("ended", "times"),
    [
        (None, "Fri 2027-01-15 08:00        1h"),
        (PlacedEnd(at=1_800_000_000, end="exit", ran_s=720), "Fri 2027-01-15 07:48       12m"),
        (PlacedEnd(at=1_800_000_000, end="withdrawn"), "-                      -"),
        (PlacedEnd(at=1_800_000_000, end="not-started", ran_s=1), "-                      -"),
    ],
)
def test_of_a_job_that_has_ended_lists_tell_when_it_ran_and_not_what_was_promised(
    ended: PlacedEnd | None, times: str
) -> None:
    view = RequestView(
        id="0" * 36, state="reserved", user="ann", text="a job", created_at=1,
        start=1_800_000_000, end=1_800_003_600, placed=structs.replace(PLACED, ended=ended),
    )  # fmt: skip
    _, row = listing([view], ZoneInfo("UTC"))
    assert times.split() == row.partition("  ")[2].split("ann")[0].split()[-len(times.split()) :]
    assert request_lines(view, ZoneInfo("UTC"))[0] == (
        "ended 00000000" if ended else "reserved 00000000"
    )


def test_a_user_sees_what_was_learned_of_their_jobs_at_each_site() -> None:
    east = SiteStatus(
        site="east", url="http://east", state="up", learned_share=0.314, learned_jobs=7
    )
    west = SiteStatus(site="west", url="http://west", state="up")
    head, *rows = site_lines(Resources(resources=(), sites=(east, west)))
    at = head.index("YOURS RUN")
    assert [row[at:].split()[0] for row in rows] == ["0.31", "-"]


def test_a_user_sees_which_version_each_site_runs_and_what_it_does_not_know_yet() -> None:
    sites = (
        SiteStatus(site="east", url="http://east", state="up", version="0.2.0"),
        SiteStatus(
            site="west", url="http://west", state="up", version="older", lacks=("shares", "pleas")
        ),
        SiteStatus(site="north", url="http://north", state="down", detail="not connected yet"),
    )
    head, *rows = site_lines(Resources(resources=(), sites=sites))
    at = head.index("VERSION")
    assert [row[at:].split()[0] for row in rows] == ["0.2.0", "older", "-"]
    assert "lacks shares, pleas" in rows[1]


def test_a_terminal_waits_at_one_site_only() -> None:
    refused = CliRunner().invoke(cli, ["run", "--redundant", "--for", "1m", "--", "true"])
    assert (refused.exit_code, "No such option" in refused.output) == (2, True)
