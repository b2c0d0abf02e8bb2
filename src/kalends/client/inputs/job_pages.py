"""Many jobs in calls that are small enough to be taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kalends.core.jobs import JobRequest
from kalends.core.limits import BODY_BYTES_MAX, JOBS_AT_ONCE_MAX

PAGE_BYTES: Final = BODY_BYTES_MAX // 2
"""What the jobs of a call take; a single one may take more."""


def pages_of(jobs: Sequence[JobRequest]) -> Iterator[tuple[JobRequest, ...]]:
    """Provide `jobs` in their order, as many at a time as one call takes: the same ones for the same jobs."""
    page: list[JobRequest] = []
    size = 0
    for job in jobs:
        more = len(msgspec.msgpack.encode(job))
        if page and (len(page) == JOBS_AT_ONCE_MAX or size + more > PAGE_BYTES):
            yield tuple(page)
            page, size = [], 0
        page.append(job)
        size += more
    if page:
        yield tuple(page)
