"""The call that reads what a job has written, and its answer."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.job_calls import MachineName
from kalends.core.jobs import JobNumber

OUTPUT_BYTES_MAX: Final = 256 * 1024
"""Bytes of a job's output in one answer: what is longer is read in pieces."""


class ReadOutput(Body, frozen=True, kw_only=True):
    """Bytes `offset` and on of what a job has written; waits up to `wait_ms` for more while it runs.

    `attempt` names one of its starts; 0: the last.
    """

    machine: MachineName
    job: JobNumber
    stream: Literal["output", "error"] = "output"
    offset: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0
    attempt: Annotated[int, Meta(ge=0, le=1 << 53)] = 0


class JobOutput(Answer, frozen=True, kw_only=True):
    """`data` begins at `offset`. `ended`: there is no more, and will not be.

    `attempt` is the start of the job that wrote it; 0 if all write to one file of its user's.
    """

    data: bytes
    offset: int
    ended: bool = False
    attempt: int = 0
