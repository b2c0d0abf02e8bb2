"""What PSI/J is told of a job that has ended in one way or another."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.contract.job_calls import JobView
from kalends_psij.job_statuses import statuses_of
from psij import JobState

QUEUED, ACTIVE, FAILED = JobState.QUEUED, JobState.ACTIVE, JobState.FAILED


def told(**fields: Any) -> list[JobState]:
    return [status.state for status in statuses_of(view(**fields))]


def view(**fields: Any) -> JobView:
    given = {"phase": "ended" if "end" in fields else "queued", **fields}
    return JobView(
        job=1, machine="lab/box", user="ann", nodes=1, limit_s=60, submitted=5, over=9, **given
    )


@pytest.mark.parametrize("phase", ["held", "queued", "starting"])
def test_what_does_not_run_yet_is_queued(phase: str) -> None:
    assert told(phase=phase, started=6 if phase == "starting" else 0) == [QUEUED]


@pytest.mark.parametrize("phase", ["running", "changing", "ending"])
def test_what_runs_is_active(phase: str) -> None:
    assert told(phase=phase, started=6) == [QUEUED, ACTIVE]


@pytest.mark.parametrize(
    ("end", "states"),
    [
        ("exit", [QUEUED, ACTIVE, JobState.COMPLETED]),
        ("limit", [QUEUED, ACTIVE, FAILED]),
        ("node-failed", [QUEUED, ACTIVE, FAILED]),
        ("lost", [QUEUED, ACTIVE, FAILED]),
        ("not-started", [QUEUED, FAILED]),
        ("killed", [QUEUED, ACTIVE, JobState.CANCELED]),
        ("withdrawn", [QUEUED, JobState.CANCELED]),
    ],
)
def test_each_end_is_one_of_theirs(end: str, states: list[JobState]) -> None:
    statuses = statuses_of(view(end=end, started=6))
    assert [status.state for status in statuses] == states
    assert (statuses[0].time, statuses[-1].time) == (5, 9)
    assert (statuses[-1].message is None) == (end == "exit")


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3, 3), (-9, 137)])
def test_a_signal_is_told_as_shells_tell_it(status: int, code: int) -> None:
    last = statuses_of(view(end="exit", started=6, status=status))[-1]
    assert last.exit_code == code
    assert (last.state == JobState.COMPLETED) == (status == 0)
