"""What PSI/J calls the states of a job in a queue."""

from __future__ import annotations

from typing import Final

from kalends.contract.job_calls import JobView, end_text
from psij import JobState, JobStatus

RUNS: Final = frozenset({"running", "changing", "ending"})
SIGNALLED: Final = 128
"""Shells add the number of the signal that has ended a program."""


def native_id(view: JobView) -> str:
    return f"{view.machine}/{view.job}"


def statuses_of(view: JobView, message: str = "") -> list[JobStatus]:
    """Return the states that a job has come through, in order; `message` says why its launcher failed."""
    metadata: dict[str, object] = {"native_id": native_id(view)}
    found = [JobStatus(JobState.QUEUED, time=float(view.submitted), metadata=metadata)]
    if view.started and (view.phase in RUNS or view.end not in ("", "not-started", "withdrawn")):
        nodes: dict[str, object] = {**metadata, "nodes": view.node_numbers}
        found.append(JobStatus(JobState.ACTIVE, time=float(view.started), metadata=nodes))
    if view.end:
        found.append(
            JobStatus(
                _final_state(view),
                time=float(view.over),
                exit_code=_exit_code(view),
                message=message or (end_text(view) if view.end != "exit" else None),
                metadata=metadata,
            )
        )
    return found


def _final_state(view: JobView) -> JobState:
    if view.end in ("killed", "withdrawn"):
        return JobState.CANCELED
    return JobState.COMPLETED if view.end == "exit" and not view.status else JobState.FAILED


def _exit_code(view: JobView) -> int | None:
    if view.end not in ("exit", "limit"):
        return None
    return SIGNALLED - view.status if view.status < 0 else view.status
