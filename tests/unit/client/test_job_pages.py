"""Many jobs are divided into calls: the same jobs always alike, for keys go by their places."""

from __future__ import annotations

from kalends.client.methods.job_calls import PAGE_BYTES, pages_of
from kalends.core.jobs import JobRequest
from kalends.core.limits import JOBS_AT_ONCE_MAX


def job(script: str = "#!/bin/sh\n") -> JobRequest:
    return JobRequest(machine="lab/box", limit_s=60, script=script)


def test_a_page_has_as_many_jobs_as_a_call_takes_and_none_is_left_out_or_moved() -> None:
    jobs = [job(f"#!/bin/sh\n{number}") for number in range(2 * JOBS_AT_ONCE_MAX + 1)]
    pages = list(pages_of(jobs))
    assert [len(page) for page in pages] == [JOBS_AT_ONCE_MAX, JOBS_AT_ONCE_MAX, 1]
    assert [each for page in pages for each in page] == jobs


def test_a_page_is_no_larger_than_a_body_may_be_unless_a_single_job_is() -> None:
    large = job("#" * (PAGE_BYTES // 2))
    assert [len(page) for page in pages_of([large] * 3)] == [1, 1, 1]
    assert [len(page) for page in pages_of([job(), job("#" * PAGE_BYTES), job()])] == [1, 1, 1]
    assert list(pages_of([])) == []
