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

    The first that is refused ends it: those before it are submitted. Repeated with the same `key`, each job
    is looked up by its place, and what is submitted already is not submitted again. `first` is the place of
    the first one, if the call goes on with a longer list.
    """

    key: Key
    machine: MachineName
    first: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    jobs: Annotated[tuple[JobRequest, ...], Meta(min_length=1, max_length=JOBS_AT_ONCE_MAX)]


class MadeJob(Answer, frozen=True, kw_only=True):
    """A job that was submitted; of an array of `count` jobs it is the first."""

    machine: str
    job: int
    count: int = 1


class SubmittedJobs(Answer, frozen=True, kw_only=True):
    """What was `made` of the jobs, in their order; `refused` is why the next was not; None: all were."""

    made: tuple[MadeJob, ...]
    refused: Problem | None = None
