"""A listing that stops says so, and how to see the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from kalends.cli import cli
from kalends.cli.console import site_calls
from kalends.cli.requests.find import obstacle_lines
from kalends.contract.calls import Found, Obstacle
from kalends.contract.job_calls import Jobs, JobView
from kalends.core.resources import Slot

JOB = JobView(
    job=1, machine="lab/box", user="ann", phase="held", nodes=1, limit_s=60, submitted=1_000
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        ((), False, ""),
        ((), True, "there are more: kalends queue lab/box --count 1000\n"),
        (("--mine", "--count", "5"), True, "kalends queue lab/box --mine --count 50\n"),
        (("--over", "--count", "5000"), True, "kalends queue lab/box --over --count 10000\n"),
        (("--count", "10000"), True, "more than 10,000 jobs: kalends queue lab/box --mine\n"),
        (("--over", "--count", "10000"), True, "kalends usage lab/box --csv -"),
    ],
)
def test_a_queue_with_more_jobs_than_rows_says_how_to_list_them(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], more: bool, said: str
) -> None:
    @contextmanager
    def client_at(settings: Any, machine: str) -> Iterator[Any]:
        yield SimpleNamespace(jobs=lambda *_, **__: Jobs(jobs=(JOB,), more=more))

    monkeypatch.setattr(site_calls, "client_at", client_at)
    done = CliRunner().invoke(cli, ["queue", "lab/box", *words], env={"KALENDS_ZONE": "UTC"})
    assert done.exit_code == 0
    assert said in done.stderr
    assert bool(done.stderr) == more


@pytest.mark.parametrize(
    ("reservations", "said"),
    [
        (("a", "b"), "2 bookings would have to move:"),
        (("job 17",), "1 job would have to end:"),
        (("a", "job 17", "job 18"), "1 booking would have to move, and 2 jobs would have to end:"),
    ],
)
def test_jobs_in_the_way_are_told_from_bookings(reservations: tuple[str, ...], said: str) -> None:
    found = Found(
        candidates=(),
        fewest=True,
        obstacles=tuple(
            Obstacle(start=0, resource="lab/box", slot=Slot(0, 60, 1, "locked", "ann", each))
            for each in reservations
        ),
    )
    first, _, *rows = obstacle_lines(found, ZoneInfo("UTC"))
    assert first.endswith(said)
    assert sum("job 1" in row for row in rows) == sum("job" in each for each in reservations)
