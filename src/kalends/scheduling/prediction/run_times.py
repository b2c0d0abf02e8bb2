"""Predicted run times, learned from jobs that have ended.

Tsafrir, Etzion and Feitelson 2007 (section 3): the mean of the user's last two run times is a better
guess than what the user requests. Here, first of those that requested the same time.
"""

from __future__ import annotations

from typing import Final

from kalends.scheduling.job import Job, stretched

KEPT_MAX: Final = 100_000
"""The most remembered users, each with requested times; the least recently seen are forgotten."""

STEPS_S: Final = (60, 300, 900, 1800, 3600, 7200, 18_000, 36_000, 86_400)
"""A job that has outrun its guess is expected to run until the next of these excesses."""

Key = tuple[int, int]


class RunTimes:
    """Guesses from the jobs that have ended so far. Jobs without a user count as those of one user."""

    def __init__(self) -> None:
        self._last_two: dict[Key, tuple[int, int]] = {}

    def ended(self, job: Job, now: int) -> None:
        """Learn the run time of a job that has ended: `now` less its first start."""
        run_s = now - job.start_s
        for key in ((job.user, job.requested_s), (job.user, -1)):
            before = self._last_two.pop(key, None)
            self._last_two[key] = (run_s if before is None else before[1], run_s)
        while len(self._last_two) > KEPT_MAX:
            del self._last_two[next(iter(self._last_two))]

    def guess(self, job: Job) -> int:
        """Return the expected run time of a job, at most the requested time."""
        last_two = self._last_two.get((job.user, job.requested_s))
        if last_two is None:
            last_two = self._last_two.get((job.user, -1))
            if last_two is None:
                return job.requested_s
        return min(max(sum(last_two) // 2, 1), job.requested_s)

    def expected_end(self, job: Job, now: int) -> int:
        """Return the expected end of a running job; later, step by step, once it outruns its guess."""
        spared_s = job.requested_s - self.guess(job)
        end_s = job.until_s - stretched(spared_s, job.stretch)
        if end_s > now:
            return end_s
        over_s = now - end_s
        for step_s in STEPS_S:
            if step_s > over_s:
                return min(end_s + step_s, job.until_s)
        return job.until_s
