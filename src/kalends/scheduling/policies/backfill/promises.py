"""Waiting jobs with what they are promised: in order of submission, and in which order they start."""

from __future__ import annotations

from collections.abc import Iterable
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


class StartTurns:
    """In which order those start who are due in the same second: whose start was reserved first is first.

    So it is in pyss. The order shows where they also end in the same second.
    """

    def __init__(self) -> None:
        self._turns: dict[Job, int] = {}
        self._last = 0

    def reserved(self, job: Job) -> None:
        """Note that a start was reserved for `job`, for the first time or anew."""
        self._last += 1
        self._turns[job] = self._last

    def forget(self, job: Job) -> None:
        self._turns.pop(job, None)

    def sort(self, due: Iterable[Job]) -> list[Job]:
        return sorted(due, key=self._turns.__getitem__)
