"""Division of many jobs into calls of allowed size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kalends.core.jobs import JobRequest
from kalends.core.limits import BODY_BYTES_MAX, JOBS_AT_ONCE_MAX

PAGE_BYTES: Final = BODY_BYTES_MAX // 2
"""Maximum size of the jobs of a call; a single job may be larger."""


def pages_of(jobs: Sequence[JobRequest]) -> Iterator[tuple[JobRequest, ...]]:
    """Yield `jobs` in order, in groups that fit into a call; the same jobs give the same groups."""
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
