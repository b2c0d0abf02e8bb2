"""The call that follows many jobs at once: which of the caller's have moved since they last asked."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.job_calls import JobView, MachineName


class WatchJobs(Body, frozen=True, kw_only=True):
    """Wait until any of the caller's jobs on `machine` has moved, for at most `wait_ms`.

    `life` and `after` are those of the answer before. Without them, or where the site no longer knows what
    has moved since, it answers at once that something may have been `skipped`.
    """

    machine: MachineName
    life: Annotated[str, Meta(max_length=64)] = ""
    after: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0


class MovedJobs(Answer, frozen=True, kw_only=True):
    """The caller's jobs that have moved, each once and as it is now, by when they last did; no predictions.

    `skipped`: others may have moved, too: look at all that you wait for. What moves after that is told from
    `life` and `after` on.
    """

    machine: str
    life: str
    after: int
    jobs: tuple[JobView, ...] = ()
    skipped: bool = False
