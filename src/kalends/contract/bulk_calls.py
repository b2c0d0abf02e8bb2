"""Many jobs in one call."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.fields import Key
from kalends.contract.job_calls import MachineName
from kalends.core.errors import Problem
from kalends.core.jobs import JobRequest
from kalends.core.limits import JOBS_AT_ONCE_MAX


class SubmitJobs(Body, frozen=True, kw_only=True):
    """Put `jobs` into the queue of `machine`, in this order; answered once they are durable.

    Stops at the first job that is refused; the jobs before it are submitted. If the call is repeated with the
    same `key`, jobs are looked up by their places, and not submitted again. `first` is the place of the first
    job, if the call continues a longer list.
    """

    key: Key
    machine: MachineName
    first: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    jobs: Annotated[tuple[JobRequest, ...], Meta(min_length=1, max_length=JOBS_AT_ONCE_MAX)]


class MadeJob(Answer, frozen=True, kw_only=True):
    """A submitted job; for an array of `count` jobs it is the first."""

    machine: str
    job: int
    count: int = 1


class SubmittedJobs(Answer, frozen=True, kw_only=True):
    """The submitted jobs, `made`, in order; `refused` is why the next was not submitted (None: all were)."""

    made: tuple[MadeJob, ...]
    refused: Problem | None = None
