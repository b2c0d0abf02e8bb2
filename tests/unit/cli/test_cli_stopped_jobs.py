"""What the command line says of jobs that are stopped for more urgent ones."""

from __future__ import annotations

from kalends.cli.jobs import drawings, shown_jobs
from kalends.contract.job_calls import (
    JobView,
    MachineLoad,
    MachinePlan,
    PredictedStart,
    ScheduledJob,
)
from kalends.core.times import parse_time, zone_named

UTC = zone_named("UTC")
NOW = parse_time("2026-11-23 10:05", 0, UTC)
EXPECTED = PredictedStart(
    made_at=NOW, latest=NOW + 1_800, expected=NOW + 1_500, p50=NOW + 1_500, p90=NOW + 1_700
)
STOPPED = JobView(
    job=17, machine="lab/box", user="ann", phase="stopped", nodes=2, limit_s=3_600, submitted=NOW - 2_000,
    started=NOW - 1_500, attempt=1, predicted=EXPECTED, stood_s=90,
)  # fmt: skip


def test_a_stopped_job_is_expected_to_go_on() -> None:
    assert (
        shown_jobs.news(None, STOPPED, UTC) == "stopped: expected to resume ~Mon 2026-11-23 10:30"
    )
    lines = shown_jobs.details(STOPPED, UTC)
    assert "state      stopped" in lines
    assert "resumes    ~Mon 2026-11-23 10:30 expected" in lines
    assert "started    Mon 2026-11-23 09:40, attempt 1" in lines
    assert "stood      1m30s, stopped for more urgent jobs" in lines
    (_, row) = shown_jobs.listing((STOPPED,), UTC)
    assert "~Mon 2026-11-23 10:30" in row


def test_in_the_schedule_it_is_planned_and_not_running() -> None:
    load = MachineLoad(
        machine="lab/box", description="pool:4", nodes=4, free=4, out=0, reserved=0, policy="preemptive",
        waiting=1, running=0,
    )  # fmt: skip
    job = ScheduledJob(
        job=17, user="ann", phase="stopped", nodes=2, start=NOW + 1_500, end=NOW + 3_600
    )
    plan = MachinePlan(machine=load, now=NOW, made_at=NOW, jobs=(job,), reservations=(), free=())
    assert [block.kind for block in drawings.placed(plan, ["a"]) if block.sign == "a"] == [
        "planned"
    ]
