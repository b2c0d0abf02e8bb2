"""Waiting jobs with what they are promised, in order of submission."""

from __future__ import annotations

from typing import TypeVar

from kalends.scheduling.job import Job

Promised = TypeVar("Promised")


def put_in_order(waiting: dict[Job, Promised], job: Job, promised: Promised) -> None:
    """Add a job at its place in order of submission."""
    last = next(reversed(waiting), None)
    waiting[job] = promised
    if last is not None and last.order > job.order:
        sorted_again = sorted(waiting.items(), key=lambda item: item[0].order)
        waiting.clear()
        waiting.update(sorted_again)
