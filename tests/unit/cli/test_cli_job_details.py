"""What `kalends job` says of a job whose times do not fit together."""

from __future__ import annotations

from msgspec import structs

from kalends.cli.jobs import shown_jobs
from kalends.contract.job_calls import JobView
from kalends.core.times import parse_time, zone_named

UTC = zone_named("UTC")
NOW = parse_time("2026-11-23 10:05", 0, UTC)


def test_a_job_that_is_to_change_says_since_when_and_why_the_last_change_was_not_made() -> None:
    job = JobView(
        job=17, machine="lab/box", user="ann", phase="changing", nodes=1, limit_s=3_600, submitted=NOW,
        started=NOW, attempt=1, changing_to=4, changing_since=NOW + 60, refused="not now", refused_at=NOW,
    )  # fmt: skip
    lines = shown_jobs.details(job, UTC)
    assert "changing   to 4 nodes since Mon 2026-11-23 10:06: no answer yet" in lines
    assert "unchanged  Mon 2026-11-23 10:05: not now" in lines


def test_memory_that_could_not_be_measured_is_not_shown_as_none() -> None:
    job = JobView(
        job=17, machine="lab/box", user="ann", phase="ended", nodes=1, limit_s=3_600, submitted=NOW,
        started=NOW, over=NOW + 9, end="exit", attempt=1, node_seconds=9, ran_s=9.0,
    )  # fmt: skip
    assert "MB" not in shown_jobs.details(job, UTC)[-1]
    told = structs.replace(job, memory_bytes=70_000_000)
    assert shown_jobs.details(told, UTC)[-1].endswith(", 70 MB")


def used(passed_s: int, ran_s: float) -> list[str]:
    job = JobView(
        job=17, machine="lab/box", user="ann", phase="ended", nodes=1, limit_s=3_600, submitted=NOW,
        started=NOW, over=NOW + passed_s, end="exit", attempt=1, node_seconds=100, ran_s=ran_s,
    )  # fmt: skip
    return shown_jobs.details(job, UTC)[-2:]


def test_what_a_job_used_is_explained_where_its_start_and_end_do_not_fit_to_it() -> None:
    assert used(101, 100.0)[-1].startswith("used       100 node-seconds, ran 100.0 s")
    words = "           by the job's own clock: the site was down then, or its clock was wrong"
    assert used(7_378, 100.0)[-1] == words
    assert used(0, 100.0)[-1] == words
