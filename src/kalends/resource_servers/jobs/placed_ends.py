"""Ends of jobs that brokers placed here, from their queues to the site's half of the protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from functools import partial
from math import ceil
from typing import Final

from kalends.batch.journal.contract import JobHistory, JobOver
from kalends.batch.place_keys import request_of_key
from kalends.batch.queue.job import BatchJob
from kalends.batch.views import over_of
from kalends.contract.calls import PlacedEnd
from kalends.core.errors import Unavailable
from kalends.core.limits import DURATION_S_MAX, TIME_S_MAX
from kalends.resource_servers.jobs.reading_again import read_again
from kalends.resource_servers.participation.placed_jobs.end_reports import EndReports
from kalends.resource_servers.service import SiteEngine

TOLD_AGAIN_S: Final = 86_400
"""A starting site reports again the jobs that ended within this time: their broker may have missed it."""

TOLD_AGAIN_MAX: Final = 1_000
"""The most jobs of one machine that are reported again: those that ended last."""

STATUS_MAX: Final = 255


class PlacedEnds:
    """Tells brokers of the ends of their jobs; for one life of a site."""

    def __init__(self, engine: SiteEngine, ends: EndReports, history: JobHistory) -> None:
        self._engine, self._ends, self._history = engine, ends, history
        self._loop = asyncio.get_running_loop()

    def over(self, machine: str, job: BatchJob) -> None:
        """A job is over; whose place no broker has asked for, nobody is told."""
        if rid := request_of_key(job.key):
            # It is heard in the middle of a step of its queue.
            self._loop.call_soon(self._tell, rid, end_of(over_of(machine, job)))

    async def tell_again(self, machines: Iterable[str], now_s: int) -> None:
        """Tell what earlier lives of the site may not have told to the end; cancelled with this life."""
        for machine in machines:
            for job in await read_again(partial(newest_over, self._history, machine, now_s)):
                if rid := request_of_key(job.key):
                    self._tell(rid, end_of(job))

    def _tell(self, rid: str, end: PlacedEnd) -> None:
        with contextlib.suppress(Unavailable):  # The next life tells it again.
            self._engine.apply(lambda site, now: self._ends.ended(rid, end, now))


async def newest_over(history: JobHistory, machine: str, now_s: int) -> list[JobOver]:
    """Return the jobs of a machine of which its next life tells again, the oldest first."""
    newest = await history.newest(machine, "", 0, TOLD_AGAIN_MAX)
    return [job for job in reversed(newest) if job.over > now_s - TOLD_AGAIN_S]


def end_of(job: JobOver) -> PlacedEnd:
    """Return the report to a broker about an ended job."""
    at, ending = min(max(job.over, 0), TIME_S_MAX), job.ending
    if ending is None or job.phase == "withdrawn":
        return PlacedEnd(at=at, end="withdrawn")
    ran_s = ending.ran_s or (job.over - job.started if job.started else 0)
    status = min(max(ending.status, -STATUS_MAX), STATUS_MAX)
    bounded_s = min(max(ceil(ran_s), 0), DURATION_S_MAX)
    return PlacedEnd(at=at, end=ending.kind, status=status, ran_s=bounded_s)
