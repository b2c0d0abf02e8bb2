"""Jobs that could start at once: a copy of the policy tries them, so the answer is right for every policy."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final, NamedTuple

from kalends.scheduling.job import Job
from kalends.scheduling.prediction.frozen import copied_jobs, predicted_starts
from kalends.scheduling.profile import NEVER, Profile
from kalends.scheduling.scheduler import Scheduler

WIDTHS_MAX: Final = 24
"""The most numbers of nodes that are tried; if there are more, evenly spaced ones."""


class Vacancy(NamedTuple):
    """A job of `nodes` nodes would start now if it asked to end by `until_s`; `NEVER`: whenever."""

    nodes: int
    until_s: int


def vacancies(scheduler: Scheduler, now: int, longest_s: int, priority: int = 0) -> list[Vacancy]:
    """Return the jobs that would start at once if they were submitted now, the widest first.

    `now` is the time of the last event. A job of a vacancy's nodes, or of fewer, starts if it requests at
    most `longest_s`, and no time beyond the end of the vacancy. Each was tried on a copy; between the tried
    widths there may be longer vacancies. The scheduler is not changed.
    """
    cluster = scheduler.cluster
    room = cluster.room(now)
    if room <= 0:
        return []
    starts = predicted_starts(scheduler, now)
    waiting = [
        (start_s, start_s + job.requested_s, cluster.width(job)) for job, start_s in starts.items()
    ]
    plans = cluster.plan(now), cluster.plan(now, waiting)
    ends = sorted({time_s for plan in plans for time_s in plan.times if now < time_s})
    ends = [*(end_s for end_s in ends if end_s < now + longest_s), NEVER]
    trial = _Trial(scheduler, now, longest_s, priority)
    found: list[Vacancy] = []
    for nodes in _widths(plans, room):
        known = bisect_right(ends, found[-1].until_s) if found else 0
        least, most = known, len(ends)
        while least < most:
            middle = (least + most) // 2
            if trial.starts(nodes, ends[middle]):
                least = middle + 1
            else:
                most = middle
        if least > known:
            found.append(Vacancy(nodes, ends[least - 1]))
    return found


class _Trial:
    """A copy of a scheduler to which jobs are submitted for a trial."""

    def __init__(self, scheduler: Scheduler, now: int, longest_s: int, priority: int) -> None:
        self._original = scheduler
        self._now = now
        self._longest_s = longest_s
        self._priority = priority
        self._copy: Scheduler | None = None
        """None after a trial that has changed it."""

    def starts(self, nodes: int, until_s: int) -> bool:
        """Return whether a job with this request would start at once."""
        copied = self._copy = self._copy or self._original.frozen(copied_jobs(self._original))
        length_s = min(until_s - self._now, self._longest_s)
        job = Job(0, self._now, nodes, length_s, priority=self._priority)
        if not copied.cluster.could_ever_fit(job):
            return False
        touched = copied.submit(job, self._now)
        if not touched:
            touched = copied.withdraw(job, self._now)
        if touched:
            self._copy = None
        return bool(job.granted)


def _widths(plans: tuple[Profile, ...], room: int) -> list[int]:
    """Return the numbers of nodes that stay free for a while from now on, the most first."""
    levels = {room, *(level for plan in plans for level in accumulate(plan.free, min))}
    widths = sorted({min(level, room) for level in levels if level > 0}, reverse=True)
    if len(widths) <= WIDTHS_MAX:
        return widths
    step = (len(widths) - 1) / (WIDTHS_MAX - 1)
    return [widths[round(number * step)] for number in range(WIDTHS_MAX)]
