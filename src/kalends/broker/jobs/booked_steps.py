"""Jobs in step of a booking, checked before any site is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kalends.contract import calls
from kalends.core import limits
from kalends.core.errors import InvalidInput
from kalends.core.requests import Alternative, Term
from kalends.core.steps import Step

_ENCODER: Final = msgspec.msgpack.Encoder()


def step_of(body: calls.Book) -> Step | None:
    """Return the jobs to run in step, None for none; raises `InvalidInput` for what cannot."""
    if body.job is None and not body.jobs:
        return None
    if body.hold or body.request.agent:
        raise InvalidInput(
            "jobs cannot be given for held slots, or with an agent",
            where="job",
            remedy="book the slots; or book without jobs, and submit each with --reservation",
        )
    step = Step(job=body.job, jobs=body.jobs)
    step.check()
    if len(_ENCODER.encode(step)) > limits.PLACED_JOB_BYTES_MAX:
        raise InvalidInput(
            f"scripts, arguments and environments of more than {limits.PLACED_JOB_BYTES_MAX} bytes",
            where="job",
            remedy="keep them in files on the machines",
        )
    for number, alternative in enumerate(body.request.alternatives):
        _check_terms(step, alternative, f"request.alternatives[{number}].terms")
    return step


def _check_terms(step: Step, alternative: Alternative, where: str) -> None:
    parts = [term for term in alternative.terms if _runs_on(step, term)]
    named = [term.resource for term in alternative.terms if term.resource in step.jobs]
    if missing := sorted(step.jobs.keys() - set(named)):
        raise InvalidInput(
            f"a job for {missing[0]}, which the request does not name",
            where=where,
            remedy="name the resource in the request, or leave out its job",
        )
    count = sum(term.count for term in parts)
    if not 1 <= count <= limits.STEP_PARTS_MAX:
        raise InvalidInput(
            f"{count} parts, at most {limits.STEP_PARTS_MAX} are allowed",
            where=where,
            remedy="ask for fewer machines",
        )
    if len({term.offset_s for term in parts}) > 1:
        raise InvalidInput(
            "parts that start at different times",
            where=where,
            remedy="jobs in step start together: leave out the offsets",
        )
    if twice := _twice([term.resource for term in parts if term.resource]):
        raise InvalidInput(
            f"{twice} is named twice, but has one job",
            where=where,
            remedy="ask for all nodes of this machine in one term",
        )


def _runs_on(step: Step, term: Term) -> bool:
    return (step.job if not term.resource else step.job_on(term.resource)) is not None


def _twice(names: Sequence[str]) -> str:
    return next((name for name in names if names.count(name) > 1), "")
