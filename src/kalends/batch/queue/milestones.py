"""Events of jobs that users get notices of: start, end, failure; for an array once.

An array begins with the first of its jobs, and ends with the last one. It fails if one of them does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kalends.batch.queue.job import BatchJob
from kalends.core.jobs import Occasion


@dataclass(slots=True)
class ArrayTally:
    """State of an array: `total` jobs, `left` of which have not ended."""

    total: int
    left: int
    begun: bool = False
    failed: list[int] = field(default_factory=list)
    """The indices of those that have failed."""


class Milestone(NamedTuple):
    """Something has become of `job`, or with it of its whole `array`, of which its user is to be told."""

    occasion: Occasion
    job: BatchJob
    array: ArrayTally | None = None
    again: bool = False
    """It has begun before."""


class MilestoneWatch:
    """Knows what was told of arrays."""

    def __init__(self) -> None:
        self._arrays: dict[int, ArrayTally] = {}

    def __len__(self) -> int:
        """Return the number of unfinished arrays whose users want notices."""
        return len(self._arrays)

    def submitted(self, jobs: Sequence[BatchJob]) -> None:
        """Take the jobs of one submission."""
        notify = jobs[0].request.notify
        if notify is not None and jobs[0].array and not notify.each:
            self._arrays[jobs[0].array] = ArrayTally(len(jobs), len(jobs))

    def begun(self, job: BatchJob, *, again: bool) -> list[Milestone]:
        """Return what is to be told of a job that has begun, `again` after an attempt that was lost."""
        notify = job.request.notify
        tally = self._arrays.get(job.array)
        if tally is not None:
            if tally.begun:
                return []
            tally.begun, again = True, False
        if notify is None or "begin" not in notify.when:
            return []
        return [Milestone("begin", job, tally, again)]

    def over(self, job: BatchJob) -> list[Milestone]:
        notify = job.request.notify
        if notify is None:
            return []
        succeeded = job.phase == "ended" and job.ending is not None and job.ending.succeeded
        tally = self._arrays.get(job.array)
        if tally is not None:
            tally.left -= 1
            if not succeeded and job.index is not None:
                tally.failed.append(job.index)
            if tally.left:
                return []
            del self._arrays[job.array]
            succeeded = not tally.failed
        if not succeeded and "fail" in notify.when:
            return [Milestone("fail", job, tally)]
        return [Milestone("end", job, tally)] if "end" in notify.when else []
