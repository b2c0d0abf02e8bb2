"""The event kernel: a workload's submissions and ends, in order, through one scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import cast

from kalends.scheduling.policy import never_started
from kalends.scheduling.profile import NEVER
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob
from kalends.simulation.malleable import MalleableJob


def replay(jobs: Iterable[SimulatedJob], scheduler: Scheduler) -> Iterator[SimulatedJob]:
    """Run all `jobs`, in order of submission, and yield each when it has ended. Streams: keeps no job.

    Events of the same second: submissions before ends, before mere passing of time. Submissions come in
    their own order, ends in the order in which the runs began (and, among them, changes of size that have
    been made, in the order in which they were asked for). One pass of the policy follows every
    single event. These ties are those of the published results (Gaussier et al., SC'15).

    Raises `InvalidInput` at the end if jobs still wait that the policy has never started.
    """
    ends: list[tuple[int, int, SimulatedJob]] = []
    begun = 0
    # What a scheduler gives back are jobs that it was given.
    submit = cast(Callable[[SimulatedJob, int], list[SimulatedJob]], scheduler.submit)
    end = cast(Callable[[SimulatedJob, int], list[SimulatedJob]], scheduler.end)
    wakes = scheduler.policy.wakes
    wake_s = NEVER
    arrivals = iter(jobs)
    arrival = next(arrivals, None)
    # Ends before this time come before anything else.
    limit_s = arrival_s = NEVER if arrival is None else arrival.submit_s
    while True:
        if ends and ends[0][0] < limit_s:
            now, run, job = heappop(ends)
            if run != job.run:
                continue
            if job.end_s == now:
                touched = end(job, now)
                yield job
            else:
                touched = _resized(job, now, scheduler)
        elif wake_s < arrival_s:
            now = wake_s
            touched = cast(list[SimulatedJob], scheduler.wake(now))
        elif arrival is not None:
            now = arrival_s
            touched = submit(arrival, now)
            arrival = next(arrivals, None)
            limit_s = arrival_s = NEVER if arrival is None else arrival.submit_s
        else:
            _all_started(scheduler)
            return
        for each in touched:
            each.reckon(now)
            each.run = begun = begun + 1
            if each.end_s >= 0:
                heappush(ends, (each.end_s, begun, each))
            if each.target:
                _expect_change(each, ends)
        if wakes:
            next_s = scheduler.wake_at(now)
            wake_s = NEVER if next_s is None else next_s
            limit_s = min(arrival_s, wake_s + 1)


def _expect_change(job: SimulatedJob, ends: list[tuple[int, int, SimulatedJob]]) -> None:
    """Note when a job that was asked to change its size will have done so, if ever."""
    if isinstance(job, MalleableJob) and job.change_s >= 0:
        heappush(ends, (job.change_s, job.run, job))


def _resized(job: SimulatedJob, now: int, scheduler: Scheduler) -> list[SimulatedJob]:
    """Report to the scheduler that a job has changed its size."""
    assert isinstance(job, MalleableJob)
    return cast(list[SimulatedJob], scheduler.resized(job, now, job.changed(now)))


def _all_started(scheduler: Scheduler) -> None:
    """Check that no job waits for ever, after the last event."""
    if scheduler.waiting:
        policy = scheduler.policy
        first = next(policy.waiting())
        name = getattr(policy, "name", type(policy).__name__)
        raise never_started(name, scheduler.waiting, first.id)
