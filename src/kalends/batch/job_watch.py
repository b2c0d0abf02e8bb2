"""Who waits for news of a job, and what counts as news."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from kalends.contract.job_calls import JobView, WatchJob

MOVED_S: Final = 60
MOVED_PART: Final = 0.1
"""An expected start that moves by no more, or by no more than this part of the wait, is no news."""


def is_news(view: JobView, known: WatchJob, now: int) -> bool:
    """Return whether a job differs from what is `known` of it, so that its user would want to hear of it."""
    if (view.phase, view.attempt) != (known.phase, known.attempt):
        return True
    expected = view.predicted.expected if view.predicted is not None else 0
    if not (expected and known.expected):
        return expected != known.expected
    moved_s = abs(expected - known.expected)
    return moved_s > MOVED_S and moved_s > MOVED_PART * (known.expected - now)


class JobWatch:
    """Those who wait, by the machine and number of the job."""

    def __init__(self) -> None:
        self._waiting: defaultdict[tuple[str, int], set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def of(self, machine: str, number: int) -> Iterator[asyncio.Event]:
        """Provide an event that is set whenever the job has moved."""
        name, event = (machine, number), asyncio.Event()
        self._waiting[name].add(event)
        try:
            yield event
        finally:
            self._waiting[name].discard(event)
            if not self._waiting[name]:
                del self._waiting[name]

    def moved(self, machine: str, numbers: Collection[int]) -> None:
        """Wake those who wait for one of these jobs."""
        for number in numbers:
            for event in self._waiting.get((machine, number), ()):
                event.set()
