"""The event kernel: a workload's submissions and ends, in order, through one scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from kalends.core.errors import InvalidInput
from kalends.scheduling.cluster import NEVER
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
    submit, end = scheduler.submit, scheduler.end
    wakes = scheduler.policy.wakes
    arrivals = iter(jobs)
    arrival = next(arrivals, None)
    arrival_s = NEVER if arrival is None else arrival.submit_s
    wake_s: int | None = None
    while True:
        end_s = ends[0][0] if ends else NEVER
        if wake_s is not None and wake_s < arrival_s and wake_s < end_s:
            now = wake_s
            touched = scheduler.wake(now)
        elif arrival is not None and arrival_s <= end_s:
            now = arrival_s
            touched = submit(arrival, now)
            arrival = next(arrivals, None)
            arrival_s = NEVER if arrival is None else arrival.submit_s
        elif ends:
            now, run, job = heappop(ends)
            if run != job.run:
                continue
            if job.end_s == now:
                touched = end(job, now)
                yield job
            else:
                assert isinstance(job, MalleableJob)
                touched = scheduler.resized(job, now, job.changed(now))
        else:
            _all_started(scheduler)
            return
        for each in touched:
            assert isinstance(each, SimulatedJob)
            each.resume(now)
            each.run = begun = begun + 1
            if each.end_s >= 0:
                heappush(ends, (each.end_s, begun, each))
            if each.target and isinstance(each, MalleableJob) and each.change_s >= 0:
                heappush(ends, (each.change_s, begun, each))
        if wakes:
            wake_s = scheduler.wake_at(now)


def _all_started(scheduler: Scheduler) -> None:
    """Nothing runs and nothing comes any more: who waits now, waits for ever."""
    if scheduler.waiting:
        policy = scheduler.policy
        first = next(policy.waiting())
        raise InvalidInput(
            f"{scheduler.waiting} jobs were never started, the first is job {first.id}",
            where=f"policy {getattr(policy, 'name', type(policy).__name__)}",
            remedy="a policy must start every job that fits on the empty cluster",
        )
