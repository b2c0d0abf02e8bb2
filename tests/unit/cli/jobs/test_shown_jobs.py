"""What the command line says of a job: in full, in a row, and in its schedule."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.cli.jobs import drawings, shown_jobs
from kalends.contract.job_calls import (
    JobView,
    MachineLoad,
    MachinePlan,
    PredictedStart,
    ScheduledJob,
)
from kalends.core.jobs import Notify
from kalends.core.times import parse_time, zone_named

UTC = zone_named("UTC")
NOW = parse_time("2026-11-23 10:05", 0, UTC)


def job(phase: str, **fields: Any) -> JobView:
    usual = {"nodes": 1, "limit_s": 3_600, "submitted": NOW}
    return JobView(job=17, machine="lab/box", user="ann", phase=phase, **usual | fields)


def over(passed_s: int, **fields: Any) -> list[str]:
    ended = job(
        "ended", started=NOW, over=NOW + passed_s, end="exit", attempt=1, node_seconds=100, **fields
    )
    return shown_jobs.details(ended, UTC)


def test_a_job_that_is_to_change_says_since_when_and_why_the_last_change_was_not_made() -> None:
    changing = job(
        "changing", started=NOW, attempt=1, changing_to=4, changing_since=NOW + 60,
        refused="not now", refused_at=NOW,
    )  # fmt: skip
    lines = shown_jobs.details(changing, UTC)
    assert "changing   to 4 nodes since Mon 2026-11-23 10:06: no answer yet" in lines
    assert "unchanged  Mon 2026-11-23 10:05: not now" in lines


def test_memory_that_could_not_be_measured_is_not_shown_as_none() -> None:
    assert "MB" not in over(9, ran_s=9.0)[-1]
    assert over(9, ran_s=9.0, memory_bytes=70_000_000)[-1].endswith(", 70 MB")


def test_what_a_job_used_is_explained_where_its_start_and_end_do_not_fit_to_it() -> None:
    assert over(101, ran_s=100.0)[-1].startswith("used       100 node-seconds, ran 100.0 s")
    words = "           by the job's own clock: the site was down then, or its clock was wrong"
    assert over(7_378, ran_s=100.0)[-1] == words
    assert over(0, ran_s=100.0)[-1] == words


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (Notify(when=("begin", "end")), "notifies   ann on begin, end"),
        (
            Notify(when=("fail",), to="a@b.example", each=True),
            "notifies   a@b.example on fail, for each job",
        ),
    ],
)
def test_a_job_shows_when_its_user_is_told(asked: Notify, line: str) -> None:
    assert line in shown_jobs.details(job("queued", notify=asked), UTC)


@pytest.mark.parametrize(
    ("sizes", "malleable", "said"),
    [
        ((), False, "asks for   2 nodes for 1h"),
        ((2, 4), False, "asks for   2 or 4 nodes for 1h"),
        ((1, 2, 4), True, "asks for   1, 2 or 4 nodes, changing while it runs, for 1h"),
    ],
)
def test_a_job_tells_the_sizes_that_it_can_have(
    sizes: tuple[int, ...], malleable: bool, said: str
) -> None:
    view = job("queued", nodes=2, sizes=sizes, malleable=malleable)
    assert said in shown_jobs.details(view, UTC)


def test_a_listing_shows_the_nodes_that_a_job_has_now() -> None:
    view = job("running", sizes=(1, 2, 4), malleable=True, started=NOW, node_numbers=(0, 1, 2, 3))
    header, row = shown_jobs.listing((view,), UTC)
    assert row[: header.index("NODES") + 5].split()[-1] == "4"


def test_a_stopped_job_is_expected_to_go_on() -> None:
    stopped = job(
        "stopped", nodes=2, submitted=NOW - 2_000, started=NOW - 1_500, attempt=1, stood_s=90,
        predicted=PredictedStart(
            made_at=NOW, latest=NOW + 1_800, expected=NOW + 1_500, p50=NOW + 1_500, p90=NOW + 1_700
        ),
    )  # fmt: skip
    assert (
        shown_jobs.news(None, stopped, UTC) == "stopped: expected to resume ~Mon 2026-11-23 10:30"
    )
    lines = shown_jobs.details(stopped, UTC)
    assert "state      stopped" in lines
    assert "resumes    ~Mon 2026-11-23 10:30 expected" in lines
    assert "started    Mon 2026-11-23 09:40, attempt 1" in lines
    assert "stood      1m30s, stopped for more urgent jobs" in lines
    (_, row) = shown_jobs.listing((stopped,), UTC)
    assert "~Mon 2026-11-23 10:30" in row


def test_in_the_schedule_a_stopped_job_is_planned_and_not_running() -> None:
    load = MachineLoad(
        machine="lab/box", description="pool:4", nodes=4, free=4, out=0, reserved=0, policy="preemptive",
        waiting=1, running=0,
    )  # fmt: skip
    stopped = ScheduledJob(
        job=17, user="ann", phase="stopped", nodes=2, start=NOW + 1_500, end=NOW + 3_600
    )
    plan = MachinePlan(
        machine=load, now=NOW, made_at=NOW, jobs=(stopped,), reservations=(), free=()
    )
    assert [block.kind for block in drawings.placed(plan, ["a"]) if block.sign == "a"] == [
        "planned"
    ]
