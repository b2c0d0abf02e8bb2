"""What a call that books may ask to run in step."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kalends.broker.jobs.booked_steps import step_of
from kalends.contract.calls import Book
from kalends.core.errors import InvalidInput
from kalends.core.jobs import JobRequest
from kalends.core.language import parse_request

JOB = JobRequest(machine="", limit_s=60, command=("true",))
LONG = {f"V{number}": 4_000 * "x" for number in range(20)}


def book(text: str, **fields: Any) -> Book:
    request = parse_request(text, duration="1m", now_s=1_800_000_000, zone="UTC")
    return Book(key="the-key-of-it", request=request, **fields)


def test_a_booking_without_jobs_runs_nothing() -> None:
    assert step_of(book("a/x + b/y")) is None


def test_one_job_runs_on_all_machines_and_named_ones_where_they_are_named() -> None:
    step = step_of(book("a/x:2 + 2 of {kind=sgi} | b/y", job=JOB))
    assert step is not None
    assert step.job_on("c/z") == JOB
    step = step_of(book("a/x:2 + b/beamline", jobs={"a/x": JOB}))
    assert step is not None
    assert (step.job_on("a/x"), step.job_on("b/beamline")) == (JOB, None)


@pytest.mark.parametrize(
    ("text", "fields", "why"),
    [
        ("a/x", {"job": JOB, "hold": True}, "held"),
        ("a/x", {"jobs": {"b/y": JOB}}, "a job for b/y, which the request does not name"),
        ("a/x | b/y", {"jobs": {"a/x": JOB}}, "a job for a/x, which the request does not name"),
        ("a/x + a/x:2", {"job": JOB}, "a/x is named twice"),
        ("a/x + b/y @+1m", {"job": JOB}, "start at different times"),
        ("65 of {kind=sgi}", {"job": JOB}, "65 parts"),
        ("a/x", {"job": replace(JOB, rerun=True)}, "starts once"),
        ("a/x", {"job": replace(JOB, environment=LONG)}, "more than"),
    ],
)  # fmt: skip
def test_what_cannot_run_in_step_is_refused_before_anybody_is_asked(
    text: str, fields: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        step_of(book(text, **fields))


def test_what_is_only_booked_may_be_at_another_time() -> None:
    assert step_of(book("a/x + b/beamline @-1m", jobs={"a/x": JOB})) is not None
