"""Waiting jobs with their promises: in order of submission, and in the order of starts."""

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
    """The order of starts in the same second: the start that was reserved first comes first.

    This is the order of pyss. It matters if the jobs also end in the same second.
    """

    def __init__(self) -> None:
        self._turns: dict[Job, int] = {}
        self._last = 0

    def reserved(self, job: Job) -> None:
        """Note that a start was reserved for `job`, for the first time or again."""
        self._last += 1
        self._turns[job] = self._last

    def forget(self, job: Job) -> None:
        self._turns.pop(job, None)

    def sort(self, due: Iterable[Job]) -> list[Job]:
        return sorted(due, key=self._turns.__getitem__)
