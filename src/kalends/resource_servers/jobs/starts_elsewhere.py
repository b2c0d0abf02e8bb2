"""Expected starts of jobs where a batch system decides: its forecasts, and jobs without one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.queue import BatchQueue

FORESEEN_S: Final = 0.8
"""So long a system is waited for: brokers wait a second for bids."""


class DecidingSystems(Protocol):
    """The batch systems that decide themselves about jobs of the site's machines."""

    def unknown_there(self, machine: str, job: BatchJob) -> bool:
        """Return whether the system may not know of a job yet: it is offered, or on its way."""

    async def foreseen_there(self, machine: str, job: BatchJob, nodes: int, wait_s: float) -> int:
        """Return when the system would start such a job, on `nodes` nodes (seconds UTC).

        Raises `SystemSilent` after `wait_s`, and `SystemRefused`.
        """


@dataclass(frozen=True)
class StartsElsewhere:
    """Starts that are foreseen at `systems`, which hold no place for them.

    Nothing can be held there: a job that a Slurm holds has no place either. So those whose bids are not
    decided yet have to count each other.
    """

    systems: DecidingSystems

    async def start_of(self, queue: BatchQueue, number: int, now: int) -> int:
        """Return when a job would start (seconds UTC); raises as `DecidingSystems`, and `NotFound`.

        Those before it that the system does not know yet are asked for with it, as one wide job; where there
        are not enough nodes for all of them at once, all of their work comes first.
        """
        job, nodes, width = queue.job(number), queue.flow.room.nodes, queue.flow.room.width
        before = [
            each.request
            for each in queue.flow.table
            if each.number < number and self.systems.unknown_there(queue.name, each)
        ]
        wide = width(job.request) + sum(map(width, before))
        start = await self.systems.foreseen_there(queue.name, job, min(wide, nodes), FORESEEN_S)
        queue.job(number)  # It may have been ended meanwhile.
        start = max(start, now, job.request.not_before)
        if wide > nodes:
            work = sum(width(each) * each.limit_s for each in before)
            start += work // nodes + max(each.limit_s for each in before)
        return start
