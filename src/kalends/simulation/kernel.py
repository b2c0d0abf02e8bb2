"""The event kernel: a workload's submissions and ends, in order, through one scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from kalends.scheduling.cluster import NEVER
from kalends.scheduling.scheduler import Scheduler
from kalends.simulation.job import SimulatedJob


def replay(jobs: Iterable[SimulatedJob], scheduler: Scheduler) -> Iterator[SimulatedJob]:
    """Run all `jobs`, in order of submission, and yield each when it has ended. Streams: keeps no job.

    Events of the same second: submissions before ends, before mere passing of time. Submissions come in
    their own order, ends in the order in which the runs began. One pass of the policy follows every
    single event. These ties are those of the published results (Gaussier et al., SC'15).
    """
    begun = 0
    ends: list[tuple[int, int, SimulatedJob]] = []
    arrivals = iter(jobs)
    arrival = next(arrivals, None)
    wake_s: int | None = None
    while arrival is not None or ends or wake_s is not None:
        arrival_s = arrival.submit_s if arrival is not None else NEVER
        end_s = ends[0][0] if ends else NEVER
        if arrival_s <= end_s and (wake_s is None or arrival_s <= wake_s):
            now = arrival_s
            assert arrival is not None
            touched = scheduler.submit(arrival, now)
            arrival = next(arrivals, None)
        elif wake_s is None or end_s <= wake_s:
            now, _, job = heappop(ends)
            if job.end_s != now:
                continue
            touched = scheduler.end(job, now)
            yield job
        else:
            now = wake_s
            touched = scheduler.wake(now)
        for each in touched:
            assert isinstance(each, SimulatedJob)
            each.resume(now)
            if each.end_s >= 0:
                begun += 1
                heappush(ends, (each.end_s, begun, each))
        wake_s = scheduler.wake_at(now)
