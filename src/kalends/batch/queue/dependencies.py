"""Jobs that wait for other jobs: until they have started, ended, succeeded or failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.job_table import JobTable, PastJob
from kalends.core.jobs import After

Met = Literal["yes", "not yet", "never"]


@dataclass(slots=True)
class Dependencies:
    """Which jobs wait for which. A job whose wait can never end stays held until its user decides."""

    table: JobTable
    _unmet: dict[int, set[After]] = field(default_factory=dict)
    _waiting_for: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))

    def add(self, job: BatchJob) -> bool:
        """Note what a new job waits for; return whether it waits."""
        unmet = {each for each in job.request.after if self._met(each) != "yes"}
        if not unmet:
            return False
        self._unmet[job.number] = unmet
        for each in unmet:
            self._waiting_for[each.job].add(job.number)
        return True

    def happened(self, number: int) -> list[BatchJob]:
        """Return the jobs that wait no more, now that job `number` has started or is over."""
        free = []
        for waiting in sorted(self._waiting_for.get(number, ())):
            unmet = self._unmet[waiting]
            unmet -= {each for each in unmet if each.job == number and self._met(each) == "yes"}
            if not unmet:
                free.append(self.table.jobs[waiting])
        for job in free:
            self.drop(job)
        return free

    def drop(self, job: BatchJob) -> None:
        """Forget what a job waits for: it is over, or its user does not want to wait."""
        for each in job.request.after:
            others = self._waiting_for.get(each.job)
            if others is not None:
                others.discard(job.number)
                if not others:
                    del self._waiting_for[each.job]
        self._unmet.pop(job.number, None)

    def unmet(self, job: BatchJob) -> Iterable[tuple[After, Met]]:
        """Return what a job still waits for, and whether that can come."""
        return [
            (each, self._met(each)) for each in sorted(self._unmet.get(job.number, ()), key=_by_job)
        ]

    def _met(self, after: After) -> Met:
        other = self.table.jobs.get(after.job)
        if other is not None:
            return "yes" if after.happened == "started" and other.begun_attempt else "not yet"
        past = self.table.past.get(after.job)
        return "yes" if past is not None and _happened(past, after) else "never"


def _happened(past: PastJob, after: After) -> bool:
    if after.happened == "started":
        return past.started
    if after.happened == "ended":
        return True
    return past.succeeded == (after.happened == "succeeded")


def _by_job(after: After) -> tuple[int, str]:
    return after.job, after.happened
