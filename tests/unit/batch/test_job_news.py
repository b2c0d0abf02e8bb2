"""What is news of a job, and who hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from kalends.batch.job_watch import ANSWER_MAX, REMEMBERED_MAX, JobMoves, JobWatch, is_news
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
    watch.begin("first")
    with (
        watch.of("lab/box", 1) as one,
        watch.of("lab/box", 1) as two,
        watch.of("lab/mill", 1) as other,
    ):
        watch.moved("lab/box", {1: "ann", 2: "ann"})
        assert (one.is_set(), two.is_set(), other.is_set()) == (True, True, False)
    watch.moved("lab/mill", {1: "ann"})
    assert not other.is_set(), "who has gone is not kept"


def test_a_user_hears_of_each_job_that_has_moved_once_and_of_nobody_elses() -> None:
    watch = JobWatch()
    watch.begin("first")
    start = watch.since("lab/box", "ann", "first", 0)
    assert start == JobMoves(0)
    with watch.of("lab/box", "ann") as ann, watch.of("lab/box", "bob") as bob:
        watch.moved("lab/box", {1: "ann", 2: "ann", 3: "eve"})
        watch.moved("lab/box", {1: "ann"})
        watch.moved("lab/mill", {4: "ann"})
        assert (ann.is_set(), bob.is_set()) == (True, False)
    found = watch.since("lab/box", "ann", "first", start.after)
    assert found.numbers == (2, 1), "by when they last moved"
    assert not found.skipped
    assert watch.since("lab/box", "ann", "first", found.after).numbers == ()
    assert watch.since("lab/box", "bob", "first", 0).numbers == ()


def test_who_is_further_behind_than_is_remembered_is_told_so() -> None:
    watch = JobWatch()
    watch.begin("first")
    watch.moved("lab/box", dict.fromkeys(range(REMEMBERED_MAX + 1), "ann"))
    behind = watch.since("lab/box", "ann", "first", 0)
    assert behind == JobMoves(REMEMBERED_MAX + 1, skipped=True)
    assert len(watch.since("lab/box", "ann", "first", 1).numbers) == ANSWER_MAX
    assert watch.since("lab/box", "ann", "first", behind.after) == JobMoves(behind.after)


def test_a_long_answer_comes_in_pieces() -> None:
    watch = JobWatch()
    watch.begin("first")
    watch.moved("lab/box", dict.fromkeys(range(1, ANSWER_MAX + 3), "ann"))
    first = watch.since("lab/box", "ann", "first", 0)
    assert first.numbers == tuple(range(1, ANSWER_MAX + 1))
    assert watch.since("lab/box", "ann", "first", first.after).numbers == (
        ANSWER_MAX + 1,
        ANSWER_MAX + 2,
    )


def test_another_life_of_the_site_is_told_at_once() -> None:
    watch = JobWatch()
    watch.begin("first")
    watch.moved("lab/box", {1: "ann"})
    with watch.of("lab/box", "ann") as woken:
        watch.begin("second")
        assert woken.is_set()
    assert watch.since("lab/box", "ann", "first", 1).skipped
    assert watch.since("lab/box", "ann", "", 0).skipped
    assert watch.since("lab/box", "ann", "second", 9).skipped, "a move that is still to come"
