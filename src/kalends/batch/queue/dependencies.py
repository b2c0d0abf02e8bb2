"""Jobs that wait for other jobs: until they have started, ended, succeeded or failed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from kalends.batch.queue.job import BatchJob
from kalends.batch.queue.job_table import ArrayCounts, JobTable, PastJob
from kalends.core.jobs import After, Dependency

Met = Literal["yes", "not yet", "never"]


@dataclass(slots=True)
class Dependencies:
    """Dependencies of jobs on other jobs. One whose wait can never end is `hopeless`: it is to be withdrawn.

    The number of the first job of an array stands for all of the array.
    """

    table: JobTable
    hopeless: dict[int, str] = field(default_factory=dict)
    """Jobs that wait for what never comes, and why it does not."""
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
        self._note_hopeless(job.number)
        return True

    def happened(self, job: BatchJob) -> list[BatchJob]:
        """Return the jobs that wait no more, now that `job` has started or is over."""
        free = []
        others = self._waiting_for.get(job.number, set())
        if job.array != job.number:
            others = others | self._waiting_for.get(job.array, set())
        for waiting in sorted(others):
            unmet = self._unmet[waiting]
            unmet -= {
                each
                for each in unmet
                if each.job in (job.number, job.array) and self._met(each) == "yes"
            }
            if not unmet:
                free.append(self.table.jobs[waiting])
            else:
                self._note_hopeless(waiting)
        for each in free:
            self.drop(each)
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
        self.hopeless.pop(job.number, None)

    def unmet(self, job: BatchJob) -> Iterable[After]:
        """Return what a job still waits for."""
        return sorted(self._unmet.get(job.number, ()), key=_by_job)

    def in_words(self, after: After) -> str:
        """Return what is waited for, as ``job 17`` or ``array 17``."""
        return f"{'array' if after.job in self.table.arrays else 'job'} {after.job}"

    def _note_hopeless(self, number: int) -> None:
        for each in sorted(self._unmet[number], key=_by_job):
            if self._met(each) == "never":
                forgotten = each.job not in self.table.past and each.job not in self.table.arrays
                how = "ended too long ago to be listed" if forgotten else NEVER[each.happened]
                self.hopeless[number] = f"it waited for {self.in_words(each)}, which {how}"
                return

    def _met(self, after: After) -> Met:
        array = self.table.arrays.get(after.job)
        if array is not None:
            return _met_by_all(array, after)
        other = self.table.jobs.get(after.job)
        if other is not None:
            return "yes" if after.happened == "started" and other.begun_attempt else "not yet"
        past = self.table.past.get(after.job)
        return "yes" if past is not None and _happened(past, after) else "never"


NEVER: Final[dict[Dependency, str]] = {
    "started": "ended without a start",
    "ended": "is over",
    "succeeded": "has not succeeded",
    "failed": "has succeeded",
}
"""Why what was waited for never comes."""


def _met_by_all(array: ArrayCounts, after: After) -> Met:
    """Return whether all of an array has started, ended or succeeded; or has ended, and a job has failed."""
    left = array.jobs - array.over
    failed = array.over - array.succeeded
    if after.happened == "started":
        if array.started == array.jobs:
            return "yes"
        return "not yet" if left else "never"
    if after.happened == "succeeded" and failed:
        return "never"
    if left:
        return "not yet"
    return "never" if after.happened == "failed" and not failed else "yes"


def _happened(past: PastJob, after: After) -> bool:
    if after.happened == "started":
        return past.started
    if after.happened == "ended":
        return True
    return past.succeeded == (after.happened == "succeeded")


def _by_job(after: After) -> tuple[int, str]:
    return after.job, after.happened
