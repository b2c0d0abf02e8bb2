"""What is news of a job, and who hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.job_watch import JobWatch, is_news
from kalends.contract.job_calls import JobView, PredictedStart, WatchJob

NOW = 1_000_000


def view(expected: int = 0, **fields: Any) -> JobView:
    start = NOW + expected
    predicted = PredictedStart(made_at=NOW, latest=start, expected=start, p50=start, p90=start)
    given = {"phase": "queued", **fields}
    return JobView(
        job=1, machine="lab/box", user="ann", nodes=1, limit_s=60, submitted=1,
        predicted=predicted if expected else None, **given,
    )  # fmt: skip


def known(expected: int = 0, **fields: Any) -> WatchJob:
    start = NOW + expected if expected else 0
    return WatchJob(machine="lab/box", job=1, expected=start, **{"phase": "queued", **fields})


@pytest.mark.parametrize(
    ("before_s", "after_s", "news"),
    [
        (500, 560, False),
        (500, 561, True),
        (500, 439, True),
        (10_000, 10_900, False),
        (10_000, 11_001, True),
        (0, 500, True),
        (500, 0, True),
        (0, 0, False),
    ],
)
def test_a_start_that_moves_by_more_than_a_minute_and_a_tenth_of_the_wait_is_news(
    before_s: int, after_s: int, news: bool
) -> None:
    assert is_news(view(after_s), known(before_s), NOW) is news


def test_another_phase_or_attempt_is_always_news() -> None:
    assert is_news(view(500, phase="held"), known(500), NOW)
    assert is_news(view(phase="starting", attempt=2), known(phase="starting", attempt=1), NOW)
    assert not is_news(view(phase="starting", attempt=1), known(phase="starting", attempt=1), NOW)


def test_all_who_wait_for_a_job_hear_of_it_and_nobody_else() -> None:
    watch = JobWatch()
    with (
        watch.of("lab/box", 1) as one,
        watch.of("lab/box", 1) as two,
        watch.of("lab/mill", 1) as other,
    ):
        watch.moved("lab/box", {1, 2})
        assert (one.is_set(), two.is_set(), other.is_set()) == (True, True, False)
    watch.moved("lab/mill", {1})
    assert not other.is_set(), "who has gone is not kept"
