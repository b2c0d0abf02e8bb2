"""The call that reads the output of a job, and its answer."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from kalends.contract.bodies import Answer, Body
from kalends.contract.job_calls import MachineName
from kalends.core.jobs import JobNumber

OUTPUT_BYTES_MAX: Final = 256 * 1024
"""Maximum bytes of output in one answer; longer output is read in pieces."""


class ReadOutput(Body, frozen=True, kw_only=True):
    """Read the output of a job from byte `offset` on; wait up to `wait_ms` for more while it runs.

    `attempt` is the number of an attempt; 0: the last.
    """

    machine: MachineName
    job: JobNumber
    stream: Literal["output", "error"] = "output"
    offset: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    wait_ms: Annotated[int, Meta(ge=0, le=120_000)] = 0
    attempt: Annotated[int, Meta(ge=0, le=1 << 53)] = 0


class JobOutput(Answer, frozen=True, kw_only=True):
    """A piece of output: `data` begins at `offset`. `ended`: there will be no more.

    `attempt` is the attempt that wrote it; 0 if all attempts write to one file of the user.
    """

    data: bytes
    offset: int
    ended: bool = False
    attempt: int = 0
