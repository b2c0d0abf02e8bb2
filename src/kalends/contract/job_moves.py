"""The call that follows many jobs at once: the caller's jobs that have changed since the last call."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.job_calls import JobView, MachineName


class WatchJobs(Body, frozen=True, kw_only=True):
    """Wait for a change of any of the caller's jobs on `machine`, for at most `wait_ms`.

    `life` and `after` come from the previous answer. Without them, or if the site no longer knows the changes
    since, the answer comes at once, with `skipped`.
    """

    machine: MachineName
    life: Annotated[str, Meta(max_length=64)] = ""
    after: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0


class MovedJobs(Answer, frozen=True, kw_only=True):
    """The caller's changed jobs, each once and as it is now, in order of their last changes; no predictions.

    `skipped`: others may also have changed, so list all jobs; later changes follow from `life` and `after`.
    """

    machine: str
    life: str
    after: int
    jobs: tuple[JobView, ...] = ()
    skipped: bool = False
