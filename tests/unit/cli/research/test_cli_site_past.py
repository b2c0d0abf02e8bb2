"""``kalends simulate --from-site``: last month as it was, and as it would have been, from a real site."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result
from command_line import Run
from past_site import MACHINE, NODES, OCTOBER, past_job, past_site

from kalends.batch.journal.contract import ReservedTime
from kalends.batch.queue.facts import JobEnding
from kalends.cli import cli

LIMIT = JobEnding(kind="limit")


def ran(number: int, submitted: int, started: int, over: int, nodes: int, **more: Any) -> Any:
    """A job that ran so, in seconds of October."""
    return past_job(
        number, submitted=OCTOBER + submitted, started=OCTOBER + started, over=OCTOBER + over,
        nodes=nodes, node_seconds=nodes * (over - started), **{"limit_s": over - started, **more},
    )  # fmt: skip


JOBS = [
    ran(1, -500, -400, 300, 4),
    ran(2, 10, 10, 1_010, 4),
    ran(3, 20, 1_010, 1_110, 8, priority="low"),
    ran(4, 30, 1_110, 1_210, 4, priority="high"),
    ran(5, 40, 1_210, 1_310, 4, limit_s=60, ending=LIMIT),
    past_job(6, submitted=OCTOBER + 50, phase="withdrawn", started=0, node_numbers=(), ending=None),
    ran(7, 40 * 86_400, 40 * 86_400, 41 * 86_400, 8),
]
"""The first one still had 4 of 8 nodes when the month began; the last is of November."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with past_site(JOBS) as url:
        yield url


@pytest.fixture
def simulate(site: str) -> Run:
    def run(*words: str) -> Result:
        settings = {"KALENDS_BROKER": site, "KALENDS_ZONE": "UTC", "KALENDS_USER": "ann"}
        return CliRunner().invoke(cli, ["simulate", *words], env=settings)

    return run


def replayed(simulate: Run, *words: str) -> dict[str, Any]:
    done = simulate("--from-site", MACHINE, *words, "--json")
    assert done.exit_code == 0, done.output
    return {each["policy"]: each for each in json.loads(done.stdout)["data"]}


def test_the_month_is_told_as_it_was_and_as_it_would_have_been(simulate: Run) -> None:
    found = replayed(simulate, "--month", "2026-10", "--policy", "fcfs,easy,priority")
    assert list(found) == ["as it was", "fcfs", "easy", "priority"]
    assert {each["nodes"] for each in found.values()} == {NODES}
    assert {each["jobs"] for each in found.values()} == {4}
    waits = {name: each["mean_wait_s"] for name, each in found.items()}
    # The fourth and the fifth fit beside the second, once the nodes of the first are free; and the
    # third is the least urgent.
    assert waits == {
        "as it was": (0 + 990 + 1_080 + 1_170) / 4,
        "fcfs": (0 + 990 + 1_080 + 1_070) / 4,
        "easy": (0 + 990 + 270 + 360) / 4,
        "priority": (0 + 990 + 270 + 360) / 4,
    }


def test_what_was_reserved_stays_so() -> None:
    start, end = OCTOBER + 300, OCTOBER + 1_000
    reserved = ReservedTime(
        machine=MACHINE, reservation="r", booked_start=start, booked_end=end, user="eve", start=start,
        end=end, nodes=4, credit_seconds=7_200,
    )  # fmt: skip
    with past_site(JOBS, [reserved]) as url:
        settings = {"KALENDS_BROKER": url, "KALENDS_ZONE": "UTC", "KALENDS_USER": "ann"}
        words = ["simulate", "--from-site", MACHINE, "--month", "2026-10", "--json"]
        found = json.loads(CliRunner().invoke(cli, words, env=settings).stdout)["data"]
        words = ["usage", MACHINE, "--everyone", "--from", "2026-10-01", "--to", "2026-11-01"]
        told = CliRunner().invoke(cli, words, env=settings).stdout.splitlines()
    # The fourth and the fifth must wait for the end of the reservation; then the third does for them.
    assert found[1]["mean_wait_s"] == (0 + 990 + 1_080 + 1_070) / 4
    assert told[-1].split() == ["eve", "(reserved)", "1", "0.78", "-", "2.00"]


def test_the_classes_of_a_machine_are_the_priorities_of_its_jobs(simulate: Run) -> None:
    found = replayed(simulate, "--month", "2026-10", "--by", "priority", "--policy", "easy")
    classes = {each["name"]: each["jobs"] for each in found["easy"]["by"]["priority"]}
    assert classes == {"1": 1, "2": 2, "3": 1}


def test_any_time_may_be_replayed_and_times_are_checked(simulate: Run) -> None:
    when = ("--from", "2026-10-01T00:00:15", "--to", "2026-10-01T00:00:35")
    found = replayed(simulate, *when, "--policy", "easy")
    assert found["easy"]["jobs"] == 2
    for wrong in (
        ("--from-site", MACHINE),
        ("--from-site", MACHINE, "--month", "2026-13"),
        ("--from-site", MACHINE, "--month", "2026-10", "--to", "now"),
        ("--from-site", MACHINE, "--from", "2026-10-02", "--to", "2026-10-01"),
        ("--from-site", MACHINE, "--month", "2026-10", "--generate", "poisson"),
        ("--month", "2026-10", "--generate", "poisson"),
        ("--from-site", MACHINE, "--month", "2020-10"),
    ):
        assert simulate(*wrong).exit_code == 2, wrong


def test_the_table_says_which_time_of_which_machine_it_is(simulate: Run) -> None:
    done = simulate("--from-site", MACHINE, "--month", "2026-10")
    first, _, was, easy = done.stdout.splitlines()
    assert first.startswith(
        "4 jobs on 8 nodes (lab/box from 2026-10-01T00:00Z to 2026-11-01T00:00Z)"
    )
    assert (was.split()[0], easy.split()[0]) == ("as", "easy")
    assert "1 job dropped" in done.stderr
    # Policies there plan nodes for limits, and for the 15 s that ending a job may take.
    assert "job 5 ran 100 s of 75 s" in done.stderr
