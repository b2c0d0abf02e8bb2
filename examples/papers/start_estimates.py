"""Start estimates at submission and their errors (Gehring and Ramme 1996, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from kalends.scheduling.job import Job
from kalends.scheduling.policies.levels.packing import LevelPolicy
from kalends.scheduling.scheduler import Scheduler


class EstimatingScheduler(Scheduler):
    """A scheduler that notes the estimated start of every job when it is submitted, and when it leaves
    the waiting room. Both by `Job.order`.
    """

    def __init__(self, policy: LevelPolicy) -> None:
        super().__init__(policy)
        self.levels = policy
        self.at_submission: dict[int, int] = {}
        self.at_entry: dict[int, int] = {}
        policy.entered = self._entered

    def submit(self, job: Job, now: int) -> list[Job]:
        touched = super().submit(job, now)
        estimated = self.levels.predicted_start(job, now)
        self.at_submission[job.order] = job.start_s if estimated is None else estimated
        return touched

    def _entered(self, job: Job, planned_s: int) -> None:
        self.at_entry[job.order] = planned_s


def mean_error_value(errors_s: Sequence[int]) -> float:
    """Return EV = 100 / (N * E_max) * sum |t_configured - t_estimated|, in percent of the largest error.

    0 where there is no error at all.
    """
    sizes = [abs(error) for error in errors_s]
    largest = max(sizes, default=0)
    return 100 * sum(sizes) / (len(sizes) * largest) if largest else 0.0


def error_classes(errors_s: Sequence[int], classes: int = 10) -> list[int]:
    """Count the errors in each of the equal classes up to the largest one (Fig. 14 and 15)."""
    sizes = [abs(error) for error in errors_s]
    largest = max(sizes, default=0)
    counts = [0] * classes
    for size in sizes:
        counts[min(size * classes // largest, classes - 1) if largest else 0] += 1
    return counts
